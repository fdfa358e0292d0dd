"""Guards taken away: the operators of the kind `guard`.

A guard is what stands between a number that was computed and the number that is meant: a term or
a factor that covers roundings, an operation that rounds outward, a look at nan, an answer that
says "undecided", the format for which a bound is made.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from benchmarks.mutants import _vocabulary as known
from benchmarks.mutants._mutation import Change, Operator, Place, wrapped
from benchmarks.mutants._source import Function, last_name

_MODULES = {"np", "math", "numpy", "numerics", "hm"}
_SHELLS = {"abs", "float", "max", "asarray", "sum", "maximum", "fabs", "where", "min", "minimum"}
_CHOICES = ast.If | ast.While | ast.IfExp | ast.BoolOp | ast.Assert | ast.comprehension


def _called(node: ast.AST) -> str:
    """The name a function is called by; methods have a dot before it."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)):
            return name if owner in _MODULES else f".{name}"
        case ast.Call(func=ast.Attribute(attr=name)):
            return f".{name}"
    return ""


def is_unit(place: Place, node: ast.AST) -> bool:
    """A unit roundoff or a smallest number: by its value, by its name, or of a format."""
    match node:
        case ast.Attribute(value=owner, attr=name) if name in known.FORMAT_FIELDS:
            return last_name(owner) in known.FORMATS
        case ast.Name(id="unit"):
            return _is_unit_variable(place, node)
        case ast.Name(id=name) if known.bare(name) in known.UNIT_NAMES:
            return _is_unit_constant(place, node)
        case ast.Name() | ast.BinOp(left=ast.Constant(), op=ast.Pow()):
            return place.number(node) in known.UNITS
    return False


def _is_unit_constant(place: Place, node: ast.Name) -> bool:
    """By its value; a value that is not known may be one, if it is not written out as something."""
    value = place.number(node)
    there, name = place.package.resolved(place.module, node.id)
    written = isinstance(there.assigned.get(name), ast.Tuple | ast.List | ast.Dict | ast.Set)
    return 0.0 < value <= known.SMALL if value is not None else not written


def _is_unit_variable(place: Place, node: ast.AST) -> bool:
    """`unit` means a hidden unit in some rooms: here it is a float, or comes from a format."""
    for around in place.module.above(node):
        if isinstance(around, Function):
            given = [*around.args.args, *around.args.kwonlyargs]
            if any(a.arg == "unit" and last_name(a.annotation or a) == "float" for a in given):
                return True
            body = [ast.unparse(n) for n in ast.walk(around) if isinstance(n, ast.Assign)]
            if any(text.startswith("unit") and ".unit" in text for text in body):
                return True
    return False


def is_small(place: Place, node: ast.AST) -> bool:
    """Whether an expression stands for roundings: it is one of the constants, words or bounds."""
    value = place.number(node)
    if value is not None:
        return 0.0 < abs(value) <= known.SMALL
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            tiny = known.bare(name) in known.TINY_NAMES | known.UNIT_NAMES
            return tiny or is_unit(place, node) or bool(known.words(name) & known.PADS)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return is_small(place, left) or is_small(place, right)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return is_small(place, left) and is_small(place, right)
        case ast.BinOp(left=left, op=ast.Div()) | ast.BinOp(left=left, op=ast.MatMult()):
            return is_small(place, left)
        case ast.UnaryOp(operand=inner) | ast.Subscript(value=inner):
            return is_small(place, inner)
        case ast.Call(args=arguments):
            return _is_small_call(place, node, arguments)
    return False


def _is_small_call(place: Place, node: ast.Call, arguments: list[ast.expr]) -> bool:
    name = _called(node).lstrip(".")
    if name in known.BOUNDS or known.words(name) & {"rounding", "roundings", "slack", "stray"}:
        return True
    if name in _SHELLS and isinstance(node.func, ast.Attribute) and _called(node)[0] == ".":
        return is_small(place, node.func.value)
    return name in _SHELLS and any(is_small(place, one) for one in arguments)


def is_near_one(place: Place, node: ast.AST) -> bool:
    """A factor that covers roundings: 1 + something small, or a constant of that value."""
    value = place.number(node)
    if value is not None:
        return 0.0 < abs(value - 1.0) <= known.NEAR_ONE
    match node:
        case ast.BinOp(left=ast.Constant(value=1 | 1.0), op=ast.Add() | ast.Sub(), right=right):
            return is_small(place, right)
        case ast.Name(id=name):
            return known.bare(name) in known.MORE_NAMES
    return False


def covers_roundings(place: Place) -> bool:
    """Whether a place is the inside of a guard: made larger, it would still be one."""
    node = place.node
    return isinstance(node, ast.expr) and (is_near_one(place, node) or is_small(place, node))


def outward_replaced(place: Place) -> Iterable[Change]:
    """up(x) becomes x, above(A, b) becomes A @ b: see `PLAIN`."""
    node, name = place.node, _called(place.node)
    if not isinstance(node, ast.Call) or name not in known.PLAIN:
        return
    owner = getattr(node.func, "value", node.func)
    if (last_name(owner), name.lstrip(".")) in known.OTHERS:
        return
    parts = {str(i): ast.unparse(one) for i, one in enumerate(node.args)}
    parts |= {"self": wrapped(owner), "whole": ast.unparse(node)}
    named = {k.arg: ast.unparse(k.value) for k in node.keywords if k.arg}
    parts |= {"1": named["axis"]} if "axis" in named else {}
    for template in known.PLAIN[name]:
        if all(part in parts for part in re.findall(r"\{(\w+)\}", template)):
            counts = [one for i, one in enumerate(node.args) if f"{{{i}}}" not in template]
            yield Change(node, f"({_filled(template, parts)})", (node.func, *counts))
            return


def _filled(template: str, parts: dict[str, str]) -> str:
    """str.format wants positions as positions; here they are names like the others."""
    return re.sub(r"\{(\w+)\}", lambda found: parts[found[1]], template)


def factor_removed(place: Place) -> Iterable[Change]:
    """x * (1 + 2.0**-50) becomes x; where the factor is only defined, it becomes 1."""
    match place.node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right) as node:
            for kept, dropped in ((left, right), (right, left)):
                if is_near_one(place, dropped) and not is_near_one(place, kept):
                    yield Change(node, wrapped(kept), (dropped,))
        case ast.BinOp(left=ast.Constant(), op=ast.Add() | ast.Sub()) as node:
            parent = place.module.parents.get(node)
            used = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult)
            if is_near_one(place, node) and not used:
                yield Change(node, "1.0", (node,))


def term_removed(place: Place) -> Iterable[Change]:
    """x + slack becomes x, x - lost becomes x; `x += slack` adds nothing."""
    match place.node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right) as node:
            one = isinstance(left, ast.Constant) and left.value == 1
            if is_small(place, right) and not one:
                yield Change(node, wrapped(left), (right,))
            if is_small(place, left) and isinstance(op, ast.Add):
                yield Change(node, wrapped(right), (left,))
        case ast.AugAssign(op=ast.Add() | ast.Sub(), value=value) if is_small(place, value):
            yield Change(value, f"(0.0 * {wrapped(value)})", (value,))


def charge_left_out(place: Place) -> Iterable[Change]:
    """moved + error becomes moved, and then error: a sum of errors, or one that is rounded up."""
    match place.node:
        case ast.BinOp(left=left, op=ast.Add(), right=right) as node:
            outward = _is_rounded_up(place, node)
            for kept, dropped in ((left, right), (right, left)):
                charged = bool(known.words(last_name(dropped)) & known.CHARGES)
                if (outward or charged) and not is_small(place, dropped):
                    yield Change(node, wrapped(kept), (dropped,))


def _is_rounded_up(place: Place, node: ast.AST) -> bool:
    """Whether the whole sum is what an outward operation is done to."""
    for around in place.module.above(node):
        if isinstance(around, ast.BinOp) and isinstance(around.op, ast.Add):
            node = around
            continue
        if not isinstance(around, ast.Call) or node not in around.args:
            return False
        return f"{{{around.args.index(node)}}}" in "".join(known.PLAIN.get(_called(around), ()))
    return False


def unit_halved(place: Place) -> Iterable[Change]:
    """_U becomes _U / 2; 8 * _U becomes 8 * (_U / 16), so that half a unit is left, too."""
    node, parent = place.node, place.module.parents.get(place.node)
    if isinstance(getattr(node, "ctx", None), ast.Store) or _is_compared(parent):
        return
    bound = isinstance(node, ast.Call) and _called(node) in known.HALVED
    if bound or is_unit(place, node):
        share = 2 * _times(place, node) * (2 if _is_spacing(place, node) else 1)
        yield Change(node, f"({ast.unparse(node)} / {share:g})", (node,))


def _times(place: Place, node: ast.AST) -> float:
    """The literal factors of a product that a unit stands in, as far as they enlarge it."""
    factor = 1.0
    for around in place.module.above(node):
        if not (isinstance(around, ast.BinOp) and isinstance(around.op, ast.Mult)):
            break
        for side in (around.left, around.right):
            if isinstance(side, ast.Constant) and isinstance(side.value, int | float):
                factor *= max(side.value, 1.0)
    return factor


def _is_spacing(place: Place, node: ast.AST) -> bool:
    """Two units: the distance of the floats above 1."""
    return known.bare(last_name(node)) in known.SPACINGS or place.number(node) == 2.0**-52


def _is_compared(parent: ast.AST | None) -> bool:
    return isinstance(parent, ast.Compare | ast.Dict | ast.keyword | ast.Call)


def format_mistaken(place: Place) -> Iterable[Change]:
    """float64 is handed on where a coarser format was meant."""
    node, parent = place.node, place.module.parents.get(place.node)
    if not isinstance(parent, ast.Call | ast.keyword) or getattr(parent, "func", None) is node:
        return
    if last_name(getattr(parent, "func", parent)) == "isinstance":
        return
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in known.FINER:
            yield Change(node, known.FINER[name].replace("{0}", ast.unparse(node)), (node,))
        case ast.Constant(value=str() as value) if value in known.FORMAT_TEXTS:
            yield Change(node, "'float64'", (node,))
        case ast.Name() | ast.Attribute() if is_unit(place, node):
            if last_name(node) == "unit":
                yield Change(node, "2.0**-53", (node,))


def nan_branch_removed(place: Place) -> Iterable[Change]:
    """np.isnan(x) is never true, np.isfinite(x) always."""
    node = place.node
    name = last_name(node.func) if isinstance(node, ast.Call) else ""
    if isinstance(node, ast.Call) and name in known.MISSING and node.args:
        ending = "| True" if known.MISSING[name] else "& False"
        yield Change(node, f"({ast.unparse(node)} {ending})", (node,))


def undecided_decided(place: Place) -> Iterable[Change]:
    """`if unsure:` is never taken, x == UNSURE never true, UNDECIDED becomes PROVED."""
    node, parent = place.node, place.module.parents.get(place.node)
    match node:
        case ast.Attribute(value=owner, attr="UNDECIDED", ctx=ast.Load()):
            if not isinstance(parent, ast.Compare):
                yield Change(node, f"{ast.unparse(owner)}.PROVED", (node,))
        case ast.Compare(ops=[ast.Eq() | ast.Is() | ast.NotEq() | ast.IsNot() as op]):
            if known.bare(last_name(node.comparators[0])) in known.OPEN_CODES:
                yield Change(node, str(isinstance(op, ast.NotEq | ast.IsNot)), (node,))
        case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()) | ast.Call():
            yield from _answered(node, parent)


def _answered(node: ast.expr, parent: ast.AST | None) -> Iterable[Change]:
    said = known.words(last_name(node.func if isinstance(node, ast.Call) else node))
    if not said & (known.OPEN | known.SETTLED):
        return
    answer = bool(said & known.SETTLED) and not said & (known.OPEN | {"not"})
    match parent:
        case ast.UnaryOp(op=ast.Not()):
            yield Change(node, str(answer), (node,))
        case ast.UnaryOp(op=ast.Invert()) | ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
            yield Change(
                node, f"({ast.unparse(node)} {'| True' if answer else '& False'})", (node,)
            )
        case _ if isinstance(parent, _CHOICES) and node is not getattr(parent, "iter", None):
            if not isinstance(parent, ast.IfExp) or parent.test is node:
                yield Change(node, str(answer), (node,))


def filter_trusted(place: Place) -> Iterable[Change]:
    """abs(z) > slack becomes abs(z) > 0 * slack: what lies within the doubt counts as decided."""
    match place.node:
        case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()]) as node:
            for side in (left, node.comparators[0]):
                if place.number(side) is None and is_small(place, side):
                    yield Change(side, f"(0.0 * {wrapped(side)})", (side,))


GUARDS = (
    Operator("outward operation replaced", "guard", outward_replaced),
    Operator("outward factor removed", "guard", factor_removed),
    Operator("outward term removed", "guard", term_removed),
    Operator("charge left out", "guard", charge_left_out),
    Operator("unit halved", "guard", unit_halved),
    Operator("wrong format", "guard", format_mistaken),
    Operator("nan branch removed", "guard", nan_branch_removed),
    Operator("undecided read as decided", "guard", undecided_decided),
    Operator("filter trusted", "guard", filter_trusted),
)
