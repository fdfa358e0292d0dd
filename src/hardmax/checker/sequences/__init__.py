"""Finite sequence domains: every word, or sets of values and gaps of scores."""

from hardmax.checker.sequences._certify import certify_sequences as certify_sequences
