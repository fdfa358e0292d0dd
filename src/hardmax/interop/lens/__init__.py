"""Compiled models in TransformerLens: models with labelled hooks, and folders of their parts."""

from hardmax.interop.lens._bridge import open_in_lens as open_in_lens
from hardmax.interop.lens._files import LensFiles as LensFiles
from hardmax.interop.lens._files import export_lens_files as export_lens_files
from hardmax.interop.lens._files import read_lens_construction as read_lens_construction
from hardmax.interop.lens._files import read_lens_files as read_lens_files
from hardmax.interop.lens._write import write_transformer_lens as write_transformer_lens
