"""Sequence programs become Transformers."""

from hardmax.lowering.programs._compile import lower_program as lower_program
from hardmax.lowering.programs._domain import words_for as words_for
from hardmax.lowering.programs._plan import ProgramPlan as ProgramPlan
from hardmax.lowering.programs._plan import plan_program as plan_program
