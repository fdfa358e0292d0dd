"""The operators of the mutation campaign, one by one, and ten mutants of the package itself."""

from __future__ import annotations

import ast
import json
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.mutants import _results
from benchmarks.mutants._choice import Killers, chosen
from benchmarks.mutants._copies import Copy, installed
from benchmarks.mutants._map import Map
from benchmarks.mutants._mutation import Site, spliced
from benchmarks.mutants._references import References, stale_kernels
from benchmarks.mutants._report import report
from benchmarks.mutants._results import KILLED, SURVIVED, UNDECIDED, Result
from benchmarks.mutants._run import Crew, Trial, record
from benchmarks.mutants._sites import OPERATORS, drawn, sites
from benchmarks.mutants._source import Package

HEAD = "from hardmax.numerics import UNIT, TINY, up, above, gamma\n_MORE = 1.0 + 2.0**-30\n"
SEED = 0
NUMERICS = "UNIT = 2.0**-53\nTINY = 5e-324\n"


def faults(line: str, *, head: str = HEAD) -> dict[str, set[str]]:
    """What each operator makes of a line in a function, by its name."""
    text = f"{head}def f(x, y, slack, format):\n    {line}\n"
    package = Package.of(
        {"hardmax/core/_a.py": text, "hardmax/numerics/__init__.py": NUMERICS, "hardmax/_b.py": ""}
    )
    found: dict[str, set[str]] = {}
    for site in sites(package, files=["core/_a.py"]):
        ast.parse(spliced(text, site.start, site.end, site.by))
        if site.function:
            found.setdefault(site.operator, set()).add(site.after)
    return found


SHOWN = [
    ("outward operation replaced", "return up(x)", "return (x)"),
    ("outward operation replaced", "return above(x, y)", "return ((x) @ (y))"),
    ("outward operation replaced", "return sum_up(x)", "return ((x).sum())"),
    ("outward operation replaced", "return x.y.widened(y)", "return (x.y)"),
    ("outward operation replaced", "return np.nextafter(x, y)", "return (x)"),
    ("outward operation replaced", "return summed(x, axis=0)", "return ((x).sum(axis=0))"),
    ("outward operation replaced", "return stray(x, y, 1)", "return (0.0 * stray(x, y, 1))"),
    ("outward factor removed", "return x * (1 + 2.0**-50)", "return x"),
    ("outward factor removed", "return _MORE * x", "return x"),
    ("outward factor removed", "return x * (1 + 3 * gamma(y))", "return x"),
    ("outward factor removed", "more = 1.0 + 3 * gamma(y)", "more = 1.0"),
    ("outward term removed", "return x + slack", "return x"),
    ("outward term removed", "return x - y * 2.0**-52", "return x"),
    ("outward term removed", "return abs(x) + TINY", "return abs(x)"),
    ("outward term removed", "x += slack", "x += (0.0 * slack)"),
    ("charge left out", "return up(x + y)", "return up(x)"),
    ("charge left out", "return x.moved + y.error", "return x.moved"),
    ("unit halved", "return x.size * UNIT * x", "return x.size * (UNIT / 2) * x"),
    ("unit halved", "return 3 * UNIT * x", "return 3 * (UNIT / 6) * x"),
    ("unit halved", "return x * 2.0**-52", "return x * (2.0 ** (-52) / 4)"),
    ("unit halved", "return format.unit * x", "return (format.unit / 2) * x"),
    ("unit halved", "return gamma(x)", "return (gamma(x) / 2)"),
    ("wrong format", "return g(x, FLOAT64)", "return g(x, __import__('hardmax').numerics.REALS)"),
    ("wrong format", "return g(x, format.unit)", "return g(x, 2.0**-53)"),
    ("nan branch removed", "return np.isnan(x).any()", "return (np.isnan(x) & False).any()"),
    ("nan branch removed", "return math.isfinite(x)", "return (math.isfinite(x) | True)"),
    ("undecided read as decided", "return Verdict.UNDECIDED", "return Verdict.PROVED"),
    ("undecided read as decided", "return x == UNSURE", "return False"),
    ("undecided read as decided", "return 1 if x.unsure else 2", "return 1 if False else 2"),
    ("undecided read as decided", "return ~sure & x", "return ~(sure | True) & x"),
    ("filter trusted", "return abs(x) > slack", "return abs(x) > (0.0 * slack)"),
    ("comparison flipped", "return x < y", "return (x > y)"),
    ("comparison flipped", "return x == y", "return (x != y)"),
    ("comparison flipped", "return x is None", "return (x is not None)"),
    ("boundary moved", "return x < y", "return (x <= y)"),
    ("boundary moved", "return x >= y", "return (x > y)"),
    ("constant changed", "return x[0]", "return x[1]"),
    ("constant changed", "return x + 0.5", "return x + 1.5"),
    ("constant changed", "return g(True)", "return g(False)"),
    ("term dropped", "return x + y", "return x"),
    ("term dropped", "return x - y", "return (-y)"),
    ("term dropped", "return x * y", "return y"),
    ("sign swapped", "return x + y", "return (x - y)"),
    ("sign swapped", "x -= y", "x += y"),
    ("and/or swapped", "return x and y", "return (x or y)"),
    ("and/or swapped", "return x & y", "return (x | y)"),
    ("not removed", "return not x", "return bool(x)"),
    ("not removed", "return ~x", "return x"),
    ("min/max swapped", "return max(x, y)", "return min(x, y)"),
    ("min/max swapped", "return np.minimum(x, y)", "return np.maximum(x, y)"),
    ("min/max swapped", "return x.max(axis=0)", "return x.min(axis=0)"),
]


@pytest.mark.parametrize(("operator", "line", "fault"), SHOWN)
def test_an_operator_makes_its_fault(operator: str, line: str, fault: str) -> None:
    assert fault in faults(line)[operator]


def test_every_operator_is_shown() -> None:
    assert {operator for operator, _, _ in SHOWN} == {one.name for one in OPERATORS}


@pytest.mark.parametrize(
    "line",
    [
        'raise ValueError(f"{x + 1} is not {y}", x + 1)',
        "z: Literal[3]",
        'return f"{x + 1}"',
        "assert x + 1 == y",
        "return zip(x, y, strict=True)",
        "return x + 100  # this many at a time, for speed",
        '"""x + 1"""',
        "with np.errstate(over=x + 1): pass",
    ],
)
def test_what_only_speaks_is_no_site(line: str) -> None:
    assert faults(line) == {}


def test_what_only_shows_is_no_site() -> None:
    text = "def __repr__(self) -> str:\n    return g(self.x + 1)\n"
    places = ("hardmax/core/_a.py", "hardmax/plots/_a.py", "hardmax/cli/_a_tables.py")
    assert sites(Package.of(dict.fromkeys(places, text))) == []
    assert sites(Package.of({places[1]: "X = 1\n"})) == []


def test_free_choices_of_tests_are_no_sites() -> None:
    """Specimens and distributions in `testing`; elsewhere, and what is done with them, is."""
    table = "TABLE: dict[str, int] = {'a': 3, 'b': 5}\nFEW = {7}\n"
    draw = "def f(rng):\n    return self.rng.random() < 0.3 or rng.integers(2, 5)\n"
    free = {"hardmax/testing/_zoo.py": table + draw, "hardmax/testing/_b.py": draw}
    assert {one.before for one in sites(Package.of(free))} == {
        "return self.rng.random() < 0.3 or rng.integers(2, 5)"
    }
    assert {one.operator for one in sites(Package.of(free))} == {"and/or swapped"}
    sizes = {"hardmax/testing/_strategies.py": "def networks(depth: int = 3): ...\n"}
    assert sites(Package.of(sizes)) == []
    used = draw.replace("rng.integers(2, 5)", "rng.integers(2, 5) + 1")
    for path, text in (
        ("hardmax/testing/_b.py", table),
        ("hardmax/testing/_b.py", used),
        ("hardmax/core/_a.py", draw),
    ):
        assert "constant changed" in {one.operator for one in sites(Package.of({path: text}))}


def test_guards_are_no_place_for_faults_of_logic() -> None:
    """The 3 of 3 * UNIT may grow without harm: a larger guard is still a guard."""
    found = faults("return x + (y + 3) * UNIT")
    assert found["outward term removed"] == {"return x"}
    assert not {"constant changed", "term dropped", "sign swapped"} & set(found)


def test_names_that_mean_something_else_are_left_alone() -> None:
    """A hidden unit, an object's own `widened`, a tuple called UNIT."""
    assert "unit halved" not in faults("return unit * x")
    assert "outward operation replaced" not in faults("return analysis.widened(x)")
    assert "unit halved" not in faults("return g[UNIT]", head="UNIT = (-1.0, 1.0)\n")


@pytest.mark.parametrize(
    "text",
    [
        'return getattr(os, "O_NONBLOCK", 0)',
        "took = time.perf_counter() - x",
        "pool.shutdown(cancel_futures=True)",
        "charge(8 * x)",
    ],
)
def test_what_no_promise_depends_on_is_left_alone(text: str) -> None:
    assert not faults(text)


def test_boundaries_beside_numbers_with_a_point_are_left_alone() -> None:
    assert "boundary moved" not in faults("return x < 0.0")
    assert "boundary moved" in faults("return x < 1")


def tiny_package() -> Package:
    line = "def f{0}(x):\n    return x + slack{0} + {0}\n"
    rooms = {"core": 40, "geometry": 10, "numerics": 90}
    texts = {
        f"hardmax/{room}/_a.py": "".join(line.format(k) for k in range(many))
        for room, many in rooms.items()
    }
    return Package.of(texts)


def test_rooms_are_drawn_uniformly_and_numerics_at_most_a_third() -> None:
    guards = [one for one in sites(tiny_package()) if one.kind == "guard"]
    taken = drawn(guards, count=30, seed=3)
    assert len({one.key for one in taken}) == 30
    rooms = Counter(one.room for one in taken)
    assert rooms["numerics"] <= 10
    assert rooms["geometry"] >= 6  # of 10 expected ones: it has a fourteenth of the sites
    assert drawn(guards, count=12, seed=3) == taken[:12]
    assert drawn(guards, count=30, seed=4) != taken
    assert len(drawn(guards, count=10**4, seed=3)) == len(guards) - 90 + 25


def test_a_change_elsewhere_does_not_move_the_draw() -> None:
    texts = {path: one.text for path, one in tiny_package().modules.items()}
    more = Package.of({**texts, "hardmax/core/_a.py": "# moved\n" + texts["hardmax/core/_a.py"]})
    before, after = (drawn(sites(one), count=20, seed=0) for one in (tiny_package(), more))
    assert [one.key for one in before] == [one.key for one in after]


KERNELS = {
    "hardmax/numerics/__init__.py": "from hardmax.numerics._u import U as U\n",
    "hardmax/numerics/_u.py": "U = 2.0**-53\nV = 1.0\n",
    "hardmax/geometry/_k.py": (
        "from numba import njit\nfrom hardmax.numerics import U\n_MORE = 1 + U\n"
        "@njit(cache=True)\ndef inner(x):\n    return x + U\n"
        "@njit(cache=True)\ndef outer(x):\n    return inner(x) * _MORE\n"
    ),
    "hardmax/geometry/_other.py": (
        "from numba import njit\n_own = njit(cache=True)\n@_own\ndef k(x):\n    return x + 1\n"
    ),
    "hardmax/geometry/_rest.py": (
        "def late():\n    from hardmax.geometry import _other\n\n    return {'all': _other}\n"
    ),
    "hardmax/geometry/_use.py": (
        "from hardmax.geometry._k import outer\n\n\ndef asked(x):\n    y = x\n    return outer(y)\n"
    ),
}


def test_kernels_and_constants_are_reached_through_their_users() -> None:
    package = Package.of(KERNELS)
    references = References(package)
    here = {"hardmax/geometry/_use.py": {6}}
    found = sites(package)
    kernel = next(one for one in found if one.function == "inner")
    constant = next(one for one in found if one.path.endswith("_u.py") and "U" in one.before)
    plain = Site("hardmax/geometry/_use.py", "asked", 5, 5, 5, "logic", "", "", "", 0, 0, "")
    assert references.lines_of(constant) == here
    # a kernel's own lines count as well: tests may call the Python function under it
    assert references.lines_of(kernel) == {**here, "hardmax/geometry/_k.py": {6}}
    module = next(one for one in found if one.function == "k")
    by_module = {"hardmax/geometry/_rest.py": {4}, "hardmax/geometry/_other.py": {5}}
    assert references.lines_of(module) == by_module
    assert references.lines_of(plain) == {"hardmax/geometry/_use.py": {5}}


def test_kernels_that_might_hold_the_fault_are_compiled_again() -> None:
    package = Package.of(KERNELS)
    assert stale_kernels(package, "hardmax/numerics/_u.py") == ["hardmax/geometry/_k.py"]
    assert stale_kernels(package, "hardmax/geometry/_other.py") == ["hardmax/geometry/_other.py"]
    assert stale_kernels(package, "hardmax/geometry/_use.py") == []


class Listed:
    """A recording that was made by hand: these tests, whatever the lines are."""

    def __init__(self, tests: dict[str, float], breadth: int = 1) -> None:
        self.tests, self.breadth = tests, breadth

    def executing(self, lines: object, package: Package) -> dict[str, float]:
        return self.tests


def test_killers_come_first_then_the_fastest_within_the_budget() -> None:
    package = Package.of(KERNELS)
    site = next(one for one in sites(package) if one.function == "inner")
    killers = Killers()
    killers.add(site.path, site.function, "t.py::slow")
    known = [Listed({"t.py::slow": 2.0, "t.py::b": 0.2, "t.py::a": 0.1, "t.py::long": 9.0})]
    choice = chosen(site, References(package), known, killers, budget=5.0)
    assert [list(batch) for batch in choice.batches] == [["t.py::slow", "t.py::a", "t.py::b"]]
    assert choice.left_out == 1
    generous = chosen(site, References(package), known, killers, budget=50.0)
    assert [list(batch) for batch in generous.batches][1] == ["t.py::long"]
    assert generous.left_out == 0


def test_tests_of_few_files_come_before_faster_ones_of_many() -> None:
    package = Package.of(KERNELS)
    site = next(one for one in sites(package) if one.function == "inner")
    known = [Listed({"wide.py::a": 0.1, "wide.py::b": 0.9}, 50), Listed({"own.py::c": 0.4}, 5)]
    choice = chosen(site, References(package), known, Killers(), budget=5.0)
    assert list(choice.batches[0]) == ["own.py::c", "wide.py::a", "wide.py::b"]


def some_result(fate: str) -> Result:
    site = next(one for one in sites(Package.of(KERNELS)) if one.function == "inner")
    return Result.of(site, fate, tests=3, cpu=0.5)


def test_results_are_appended_and_decided_ones_are_not_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    site = next(one for one in sites(Package.of(KERNELS)) if one.function == "inner")
    _results.append(file, some_result(UNDECIDED))
    assert _results.still_open([site], _results.read(file), again=False) == [site]
    _results.append(file, some_result(SURVIVED))
    with file.open("a") as stream:
        stream.write('{"key": "cut sho')
    known = _results.read(file)
    assert list(known.values()) == [some_result(SURVIVED)]
    assert _results.still_open([site], known, again=False) == []
    assert _results.still_open([site], known, again=True) == [site]


def test_the_report_counts_by_room_and_explains_survivors(monkeypatch, tmp_path) -> None:
    lived = some_result(SURVIVED)
    reason = tmp_path / "explained.toml"
    entry = {"file": lived.path, "function": lived.function, "operator": lived.operator}
    entry |= {"line": lived.before, "why": "The guard is twice as wide as it has to be."}
    lines = [f"{name} = {json.dumps(value)}" for name, value in entry.items()]
    reason.write_text("[[survivor]]\n" + "\n".join(lines))
    known = _results.explanations(reason)
    monkeypatch.setattr("benchmarks.mutants._report.explanations", lambda: known)
    text = "\n".join(report([lived, some_result(KILLED)]))
    assert "geometry              1          1          0" in text
    assert "killed 1 of 2: 50.0%" in text
    assert f"survived: {lived.path}:{lived.line} in inner" in text
    assert "explained: The guard is twice as wide" in text


@pytest.fixture(scope="module")
def package() -> Package:
    return Package.read(installed())


def test_the_committed_explanations_are_of_lines_that_exist(package: Package) -> None:
    for path, function, operator, line in _results.explanations():
        keys = {(one.function, one.operator, one.before) for one in sites(package, files=[path])}
        assert (function, operator, line) in keys, f"{path}: {line}"


def test_a_copy_is_untouched_after_the_fault(package: Package, tmp_path: Path) -> None:
    copy = Copy(tmp_path / "copy")
    copy.prepare(package)
    site = sites(package, files=["numerics/_interval.py"])[0]
    with copy.with_fault(package, site):
        faulty = (copy.folder / site.path).read_text()
        assert site.by in faulty
        assert faulty != package.modules[site.path].text
    assert Package.read(copy.folder / "hardmax").digest == package.digest
    (copy.folder / "FAULTY").write_text("a crash left this")
    (copy.folder / site.path).write_text("nonsense")
    copy.prepare(package)
    assert Package.read(copy.folder / "hardmax").digest == package.digest


def test_a_sample_of_mutants_dies(package: Package, tmp_path: Path, capsys) -> None:
    """Six guards and four faults of logic in one file, from the recording to the report."""
    file = Path("tests/numerics/test_numerics_outward.py")
    tested = ("down", "up", "gamma", "inflate", "stray", "sum_up", "product_up", "matmul_up")
    found = [
        one for one in sites(package, files=["numerics/_outward.py"]) if one.function in tested
    ]
    guards, logic = ([one for one in found if one.kind == kind] for kind in ("guard", "logic"))
    sample = [*drawn(guards, count=6, seed=SEED), *drawn(logic, count=4, seed=SEED)]
    with Crew(package, tmp_path, jobs=1) as crew:
        where = Map(tmp_path / "map")
        record(crew, where, where.missing([file], package, refresh=True), print)
        trial = Trial(References(package), [where.recorded(file)], Killers(), budget=60.0)
        results = list(crew.each(trial, sample))
    assert where.missing([file], package, refresh=True) == []
    fates = Counter(one.fate for one in results)
    print(*report(results), sep="\n")
    said = capsys.readouterr().out
    assert fates[UNDECIDED] == 0, said
    assert fates[KILLED] >= 8, said
