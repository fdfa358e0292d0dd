"""The gallery as a data set of ground truth: legible models with circuits, words and proofs."""

from hardmax.suites._write import Suite as Suite
from hardmax.suites._write import write_suite as write_suite
