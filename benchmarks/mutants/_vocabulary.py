"""How rounding is spoken of: the calls, the constants and the words by which guards are known.

A new operation of `hardmax.numerics` gets a line in `PLAIN`. In a template {0}, {1}, ... are the
arguments, {self} is what a method is called on, and {whole} is the call itself. A name with a dot
before it is a method. A template is taken if the call has the arguments that it mentions.
"""

from __future__ import annotations

import re

# The call that rounds outward, and the plain ones that forget it; the first that fits is taken.
PLAIN: dict[str, tuple[str, ...]] = {
    "up": ("{0}",),
    "_up": ("{0}",),
    "upward": ("float({0})",),
    "upwards": ("{0}",),
    "above_float": ("float({0})",),
    "below_float": ("float({0})",),
    "down": ("{0}",),
    "_down": ("{0}",),
    "inflate": ("{0}",),
    "nextafter": ("{0}",),
    "widened": ("{0}",),
    ".widened": ("{self}",),
    "summed": ("({0}).sum(axis={1})",),
    "product": ("({0}) * ({1})",),
    "above": ("({0}) @ ({1})",),
    "sum_up": ("({0}).sum(axis={1})", "({0}).sum()"),
    "product_up": ("({0}) * ({1})",),
    "matmul_up": ("({0}) @ ({1})",),
    "stray": ("0.0 * {whole}",),
    "stray_of": ("0.0 * {whole}",),
}
OTHERS = {("analysis", "widened")}  # what is called, and means something else

# The functions whose value is a bound on roundings: a term that contains one is a guard.
BOUNDS = {"gamma", "stray", "stray_of", "relative"}
HALVED = {"gamma", "relative"}  # of these, half is handed on

# Constants: by value where that is known, and by name where it is not.
SMALL = 2.0**-30  # positive numbers up to here, in a sum or a factor, cover roundings
NEAR_ONE = 2.0**-20  # factors so near to 1 do
UNITS = {2.0**-k for k in (8, 11, 24, 52, 53)}  # roundoff and spacing of the formats
UNIT_NAMES = {"UNIT", "STEP", "ULP", "U"}
SPACINGS = {"STEP", "ULP"}  # two units
TINY_NAMES = {"TINY", "SMALLEST", "FAINT"}
MORE_NAMES = {"MORE", "GROWN", "UP", "DOWN", "LESS", "SUMS"}

# Fields of formats, the names that formats go by, and a finer one to hand on instead.
FORMAT_FIELDS = {"unit", "smallest"}
FORMATS = {"format", "arithmetic", "FLOAT64", "FLOAT32", "FLOAT16", "BFLOAT16"}
_FLOAT64, _REALS = (f"__import__('hardmax').numerics.{name}" for name in ("FLOAT64", "REALS"))
FINER = {
    "format": f"({_FLOAT64} if hasattr({{0}}, 'digits') else type({{0}})('float64'))",
    **dict.fromkeys(("FLOAT32", "FLOAT16", "BFLOAT16"), _FLOAT64),
    "FLOAT64": _REALS,
}
FORMAT_TEXTS = {"float32", "float16", "bfloat16"}

# Words of which identifiers consist.
PADS = {
    *("slack", "slacks", "pad", "pads", "lost", "rounding", "roundings", "rounded", "dust"),
    *("spare", "blur", "doubt", "doubts", "widen", "tiny", "ulp", "ulps", "stray", "underflow"),
}
CHARGES = {
    *("error", "errors", "off", "moved", "shift", "leak", "leaked", "jump", "noise", "radius"),
    *("radii", "rad", "shortfall", "deviation", "deviations", "inherited", "local", "carried"),
}
OPEN = {"undecided", "unsure", "doubtful", "unclear", "uncertain", "unknown", "ambiguous"}
SETTLED = {"sure", "decided", "certain", "settled"}
OPEN_CODES = {"UNSURE", "UNDECIDED", "UNKNOWN", "DOUBT", "UNCLEAR"}
MISSING = {"isnan": False, "isfinite": True}  # what is answered without looking


def words(identifier: str) -> set[str]:
    """The words of an identifier: `stray_of` has two, and `lostUnits` none that we know."""
    return set(re.split(r"[_\d]+", identifier)) - {""}


def bare(identifier: str) -> str:
    """A constant's name without the underscore that makes it private."""
    return identifier.lstrip("_")
