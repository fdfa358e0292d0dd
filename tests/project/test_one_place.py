"""Only `numerics` rounds: no other room steps outward, sets a precision or knows a unit by hand."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import pytest

import hardmax

ROOT = Path(hardmax.__file__).parent
SCALE = 40  # powers of two below 2^-40 speak of rounding; coarser ones are thresholds
FAINT = 1e-250  # and so do numbers below this, of underflow
STEPS = {"nextafter", "finfo", "spacing"}
BRIDGE = {"UNIT_ROUNDOFF", "LARGEST", "is_representable"}  # names of before


def by_hand(source: str) -> list[str]:
    """What a file does about rounding by itself, with its lines."""
    tree = ast.parse(source)
    found = [(node.lineno, reason) for node in ast.walk(tree) if (reason := _reason(node))]
    return [f"line {line}: {reason}" for line, reason in sorted(found)]


def _reason(node: ast.AST) -> str | None:
    match node:
        case ast.BinOp(op=ast.Pow()):
            value = _number(node)
            return "a power of two at the scale of rounding" if _is_of_rounding(value) else None
        case ast.Constant(value=float() as value) if _is_of_rounding(value):
            return "a constant at the scale of rounding"
        case ast.Attribute(value=ast.Name(id="np" | "numpy" | "math" | "torch"), attr=name):
            return f"{name}, which steps outward by hand" if name in STEPS else None
        case ast.Attribute(attr="prec" | "cap", ctx=ast.Store()):
            return "a precision that is set by hand"
        case ast.Attribute(attr="fromhex"):
            return "a number in hexadecimal"
        case ast.alias(name=name):
            return f"{name}, a name of before" if name in BRIDGE else None
    return None


def _is_of_rounding(value: float | None) -> bool:
    if not value:
        return False
    mantissa, exponent = math.frexp(abs(value))
    return abs(value) < FAINT or (mantissa == 0.5 and exponent <= 1 - SCALE)


def _number(node: ast.AST) -> float | None:
    """The value of an expression of plain numbers; None if it is anything else."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            value = _number(inner)
            return None if value is None else -value
        case ast.BinOp(op=ast.Pow(), left=left, right=right):
            base, exponent = _number(left), _number(right)
            if base is None or exponent is None or base <= 0 or abs(exponent) > 1e4:
                return None
            return 2.0 ** max(min(exponent * math.log2(base), 1000.0), -1074.0)
    return None


FILES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))


def test_no_other_room_rounds():
    files = [name for name in FILES if not name.startswith("numerics/")]
    found = {name: by_hand((ROOT / name).read_text()) for name in files}
    assert {name: reasons for name, reasons in found.items() if reasons} == {}
    assert len(files) > 200


@pytest.mark.parametrize(
    "text",
    [
        "x * (1 + 2.0**-50)",
        "pad = 2 ** -53",
        "pad = 0.5**52",
        "x + 1.1102230246251565e-16",
        "x + 5e-324",
        "x + 1e-300",
        "np.nextafter(x, np.inf)",
        "math.nextafter(x, 0.0)",
        "np.finfo(float).eps",
        "np.spacing(x)",
        "ctx.prec = 100",
        "ctx.prec, ctx.cap = 100, 3",
        "float.fromhex('0x1p-53')",
        "from hardmax.numerics import UNIT_ROUNDOFF",
    ],
)
def test_each_way_to_round_by_hand_is_seen(text):
    assert by_hand(text)


@pytest.mark.parametrize(
    "text", ["_DUST = 2.0**-34", "x * 1e-9", "bits = ctx.prec", "2.0**53", "4.0**-layers", "0.0"]
)
def test_thresholds_may_stay(text):
    assert not by_hand(text)
