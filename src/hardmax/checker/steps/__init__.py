"""Translation validation: a witness, row by row, from the weights alone."""

from hardmax.checker.steps._rows import Rejected as Rejected
from hardmax.checker.steps._validate import validate as validate
