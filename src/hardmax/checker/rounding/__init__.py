"""What floating-point arithmetic can add, in any order of summation, format by format."""

from hardmax.checker.rounding._bounds import float_bounds as float_bounds
