"""Faults of reasoning: the operators of the kind `logic`."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from benchmarks.mutants._mutation import Change, Operator, Place, wrapped

_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_MOVED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_EXTREMES = {
    "min": "max",
    "minimum": "maximum",
    "argmin": "argmax",
    "fmin": "fmax",
}
_OTHER_EXTREME = {**_EXTREMES, **{there: here for here, there in _EXTREMES.items()}}
_TEXTS = ast.JoinedStr | ast.List | ast.Tuple | ast.Dict


def _compared(place: Place, table: dict[type[ast.cmpop], type[ast.cmpop]]) -> Iterable[Change]:
    node = place.node
    if not isinstance(node, ast.Compare):
        return
    for i, op in enumerate(node.ops):
        if type(op) in table:
            ops = [*node.ops[:i], table[type(op)](), *node.ops[i + 1 :]]
            yield Change(node, wrapped(ast.Compare(node.left, ops, node.comparators)))


def comparison_flipped(place: Place) -> Iterable[Change]:
    """a < b becomes a > b, a == b becomes a != b, `is` becomes `is not`."""
    return _compared(place, _FLIPPED)


def boundary_moved(place: Place) -> Iterable[Change]:
    """a < b becomes a <= b, and the other way round.

    Not beside a number with a point: where two branches meet at one float, they mostly agree there.
    """
    node = place.node
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    if any(isinstance(one, ast.Constant) and isinstance(one.value, float) for one in sides):
        return ()
    return _compared(place, _MOVED)


def constant_changed(place: Place) -> Iterable[Change]:
    """One more, of a truth value the other one; signs and exponents belong to their number."""
    node, parent = place.node, place.module.parents.get(place.node)
    match node:
        case ast.Constant(value=bool() as value):
            yield Change(node, str(not value))
        case ast.Constant(value=int() | float() as value) if abs(value) < 1e15:
            small = isinstance(parent, ast.UnaryOp) or (
                isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Pow)
            )
            if not small:
                yield Change(node, repr(value + 1))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, _TEXTS) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def term_dropped(place: Place) -> Iterable[Change]:
    """a + b becomes a, a - b too, and a * b becomes a; then the other one."""
    match place.node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult(), right=right) as node:
            if _is_text(left) or _is_text(right):
                return
            yield Change(node, wrapped(left))
            other = ast.UnaryOp(ast.USub(), right) if isinstance(node.op, ast.Sub) else right
            yield Change(node, wrapped(other))


def sign_swapped(place: Place) -> Iterable[Change]:
    """a + b becomes a - b, and the other way round."""
    match place.node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right) as node:
            if not (_is_text(left) or _is_text(right)):
                other = ast.Sub() if isinstance(op, ast.Add) else ast.Add()
                yield Change(node, wrapped(ast.BinOp(left, other, right)))
        case ast.AugAssign(target=target, op=ast.Add() | ast.Sub() as op, value=value) as node:
            if not _is_text(value):
                other = ast.Sub() if isinstance(op, ast.Add) else ast.Add()
                yield Change(node, ast.unparse(ast.AugAssign(target, other, value)))


def and_or_swapped(place: Place) -> Iterable[Change]:
    """`and` becomes `or`, & becomes |, and the other way round."""
    match place.node:
        case ast.BoolOp(op=op, values=values) as node:
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield Change(node, wrapped(ast.BoolOp(other, values)))
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() as op, right=right) as node:
            bits = ast.BitOr() if isinstance(op, ast.BitAnd) else ast.BitAnd()
            yield Change(node, wrapped(ast.BinOp(left, bits, right)))


def not_removed(place: Place) -> Iterable[Change]:
    """`not a` becomes `a`, and so does ~a."""
    match place.node:
        case ast.UnaryOp(op=ast.Not(), operand=operand) as node:
            yield Change(node, f"bool({ast.unparse(operand)})")
        case ast.UnaryOp(op=ast.Invert(), operand=operand) as node:
            yield Change(node, wrapped(operand))


def extreme_swapped(place: Place) -> Iterable[Change]:
    """min becomes max, np.minimum becomes np.maximum, x.min() becomes x.max(), and back."""
    match place.node:
        case ast.Call(func=ast.Name(id=name) as called) if name in _OTHER_EXTREME:
            yield Change(called, _OTHER_EXTREME[name])
        case ast.Call(func=ast.Attribute(value=owner, attr=name) as called):
            if name in _OTHER_EXTREME:
                yield Change(called, f"{wrapped(owner)}.{_OTHER_EXTREME[name]}")


LOGIC = (
    Operator("comparison flipped", "logic", comparison_flipped),
    Operator("boundary moved", "logic", boundary_moved),
    Operator("constant changed", "logic", constant_changed),
    Operator("term dropped", "logic", term_dropped),
    Operator("sign swapped", "logic", sign_swapped),
    Operator("and/or swapped", "logic", and_or_swapped),
    Operator("not removed", "logic", not_removed),
    Operator("min/max swapped", "logic", extreme_swapped),
)
