"""Claims over boxes of real numbers: exact forms, boxes and steps, and the rounding of floats."""

from hardmax.checker.reals._certify import certify_reals as certify_reals
