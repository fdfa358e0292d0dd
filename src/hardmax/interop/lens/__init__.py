"""Compiled models in TransformerLens: models with labelled hooks, and folders of their parts."""

from hardmax.interop.lens._write import write_transformer_lens as write_transformer_lens
