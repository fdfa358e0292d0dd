"""Sequence programs become Transformers that can be read."""

from hardmax.lowering.programs.legible._lower import ROUTE as ROUTE
from hardmax.lowering.programs.legible._lower import lower_legibly as lower_legibly
