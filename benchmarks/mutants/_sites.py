"""Where the operators apply, where nothing is worth changing, and how sites are drawn."""

from __future__ import annotations

import ast
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from benchmarks.mutants._guards import GUARDS, covers_roundings
from benchmarks.mutants._logic import LOGIC
from benchmarks.mutants._mutation import Change, Operator, Place, Site, extent, line_around
from benchmarks.mutants._source import Function, Module, Package, last_name

OPERATORS: tuple[Operator, ...] = (*GUARDS, *LOGIC)
OUTSIDE = 3  # at most one guard in so many lies in numerics: places of use are what matters

# No fault is made here, because nothing that is promised depends on it.
_SHOWN = re.compile(r"hardmax/(plots/|cli/_\w*tables\.py|cli/_progress\.py|__main__\.py)")
_TEXT_FUNCTIONS = {"__repr__", "__str__", "_repr_html_", "__format__"}
_QUIET_CALLS = {
    *("errstate", "warn", "simplefilter", "filterwarnings", "echo", "print", "TypeVar"),
    "charge",  # units of work: any count that grows with the work is right
}
_QUIET_KEYWORDS = {
    *("strict", "copy", "cache", "maxsize", "encoding", "stacklevel", "timeout"),
    *("cancel_futures", "optimize"),  # how soon work ends; the order of products
}
_CLOCKS = {"perf_counter", "process_time", "monotonic"}  # what took how long is only told
_SPECIMENS, _STRATEGIES = "hardmax/testing/_zoo.py", "hardmax/testing/_strategies.py"
_ODD_VALUES = "hardmax/testing/_odd_values.py"
_SPEED = re.compile(r"# .*\b(speed|faster|fast|memory|cheap|cheaper|at once|at a time)\b")


def sites(
    package: Package, *, rooms: Sequence[str] | None = None, files: Sequence[str] | None = None
) -> list[Site]:
    """Every mutant there is, in the order of the files: of some rooms, or of some paths."""
    found: list[Site] = []
    for module in package.modules.values():
        here = rooms is None or module.room in rooms
        named = files is None or any(part in module.path for part in files)
        if here and named and not _SHOWN.match(module.path):
            found += sites_of(package, module)
    return _told_apart(found)


def sites_of(package: Package, module: Module) -> list[Site]:
    """The sites of a file; what a guard consists of is no place for faults of logic."""
    found: list[Site] = []
    guarded: set[ast.AST] = set()
    places = [Place(node, module, package) for node in _worth_changing(module)]
    for operators in (GUARDS, LOGIC):
        for place in places:
            if operators is LOGIC and place.node in guarded:
                continue
            for operator in operators:
                for change in operator.changes(place):
                    found.append(_site(module, operator, change))
                    if change.material:
                        guarded |= {change.node, *chain(*map(ast.walk, change.material))}
            if operators is GUARDS and covers_roundings(place):
                guarded |= {*ast.walk(place.node)}
    return [one for one in found if one.before != one.after]


def _worth_changing(module: Module) -> Iterator[ast.AST]:
    """The nodes of a file without annotations, messages, decorators, and what only shows."""
    quick = _lines_about_speed(module)
    waiting: list[ast.AST] = [module.tree]
    while waiting:
        node = waiting.pop()
        if _says_nothing(module, node) or getattr(node, "lineno", 0) in quick:
            continue
        if isinstance(node, ast.expr | ast.stmt):
            yield node
        waiting += _children(node)


def _says_nothing(module: Module, node: ast.AST) -> bool:
    if _is_free_choice(module, node):
        return True
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.Assert() | ast.Import() | ast.ImportFrom():
            return True
        case ast.FunctionDef(name=name, returns=returns):
            shown = module.room == "cli" and last_name(returns or node) == "str"
            return name in _TEXT_FUNCTIONS or shown
        case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id="os"), _, _]):
            return True  # what another operating system lacks
        case ast.Call(func=called):
            return last_name(called) in _QUIET_CALLS
        case ast.Assign(value=ast.BinOp(left=ast.Call(func=called), op=ast.Sub())):
            return last_name(called) in _CLOCKS
        case ast.keyword(arg=name):
            return name in _QUIET_KEYWORDS
        case ast.If(test=test):
            return last_name(test) == "TYPE_CHECKING"
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name.startswith("__")
    return False


def _is_free_choice(module: Module, node: ast.AST) -> bool:
    """Specimens and distributions of tests: another size, seed or chance would do as well.

    What is done with them, and how a specimen is made of its line, is not free.
    """
    match node:
        case ast.Assign(value=ast.Dict() | ast.Set()) | ast.AnnAssign(value=ast.Dict()):
            return module.path == _SPECIMENS
        case ast.Lambda():
            return module.path == _ODD_VALUES  # what random programs compute
        case ast.arguments():
            return module.path == _STRATEGIES  # sizes of what Hypothesis draws
        case ast.Compare(left=ast.Call() as drawn) | (ast.Call() as drawn):
            method = isinstance(drawn.func, ast.Attribute)
            return module.room == "testing" and method and last_name(drawn.func.value) == "rng"
    return False


def _children(node: ast.AST) -> Iterable[ast.AST]:
    """What is below a node, without annotations and decorators."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ast.AST) and not isinstance(one, ast.expr_context | ast.operator):
                yield one


def _lines_about_speed(module: Module) -> set[int]:
    """Lines whose comment says that they are about time or memory: any value is right."""
    lines = enumerate(module.text.splitlines(), start=1)
    return {number for number, line in lines if _SPEED.search(line)}


def _site(module: Module, operator: Operator, change: Change) -> Site:
    node = change.node
    statement = next(
        (one for one in (node, *module.above(node)) if isinstance(one, ast.stmt)), node
    )
    body = getattr(statement, "body", None)
    head = body[0].lineno - 1 if isinstance(body, list) and body else statement.end_lineno
    start, end = extent(module, node)
    original = module.encoded[start:end].decode()
    return Site(
        path=module.path,
        function=module.owner_of(node),
        line=node.lineno,
        first=statement.lineno,
        last=max(statement.lineno, head or 0),
        kind=operator.kind,
        operator=operator.name,
        before=" ".join(line_around(module.encoded, start, end, original).split()),
        after=" ".join(line_around(module.encoded, start, end, change.by).split()),
        start=start,
        end=end,
        by=change.by,
    )


def _told_apart(found: list[Site]) -> list[Site]:
    """The same fault of the same line, twice in a function: they get numbers."""
    seen: Counter[str] = Counter()
    apart = []
    for site in found:
        apart.append(replace(site, ordinal=seen[site.key]))
        seen[site.key] += 1
    return apart


def drawn(found: Sequence[Site], *, count: int, seed: int) -> list[Site]:
    """Mutants at random: a room, uniformly, and one of its sites that was not taken, uniformly.

    Fewer are the beginning of more, and a change elsewhere in the package hardly moves the
    others: the order within a room comes from each site's own digest. Of guards, at most a
    third of those drawn so far lies in numerics, at any moment.
    """
    rooms: dict[str, list[Site]] = defaultdict(list)
    for site in found:
        rooms[site.room].append(site)
    for room in rooms.values():
        room.sort(key=lambda site: site.rank(seed), reverse=True)
    rng, taken = random.Random(seed), []
    inside = 0
    while len(taken) < count:
        full = OUTSIDE * (inside + 1) > len(taken) + 1 and len(rooms) > 1
        open_rooms = [n for n in sorted(rooms) if rooms[n] and not (full and n == "numerics")]
        if not open_rooms:
            break
        site = rooms[rng.choice(open_rooms)].pop()
        inside += site.room == "numerics" and site.kind == "guard"
        taken.append(site)
    return taken


def of_function(module: Module, name: str) -> Function | ast.ClassDef | None:
    """The function or class of a dotted name in a file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for node in ast.walk(module.tree):
        if isinstance(node, kinds) and module.owner_of(node) == name:
            return node
    return None
