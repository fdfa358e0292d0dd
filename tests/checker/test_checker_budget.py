"""Budgets count work: verdicts depend neither on the machine's load nor on what was done before."""

from __future__ import annotations

import ast
import itertools
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from flint import fmpq

import hardmax as hm
from hardmax.checker import certify
from hardmax.checker._budget import (
    PER_SECOND,
    TERM,
    UNIT,
    USUAL,
    Budget,
    Clock,
    Spent,
    charge,
    ticks,
)
from hardmax.checker.boxes import Search, pose
from hardmax.checker.boxes._few_variables import Basis
from hardmax.checker.boxes._tape import CHUNK
from hardmax.checker.forms import Graph, constant, rational, total
from hardmax.core import (
    Attention,
    Claim,
    Construction,
    FeedForward,
    Head,
    ReadOut,
    Share,
    Transformer,
    VectorInput,
    Witness,
)
from hardmax.languages import Function

SQUARE = {"x": (-1, 1), "y": (-1, 1)}


@cache
def models() -> dict[str, tuple[Construction, dict[str, object]]]:
    """One for each way a check can end, most of them in the middle of something."""
    product = hm.compile("x*y", on=SQUARE, error=1e-2)
    inverse = hm.compile("1/x", on={"x": (0.1, 1)}, error=1e-2)
    network = hm.compile(relu_network(), on=hm.Box([-1.0] * 2, [1.0] * 2), error=1e-3)
    machine = hm.compile(hm.programs.reverse, alphabet="abc", length=5)
    smaller = replace(product.claim, ledger=(Share("approximation", "", 1e-4),))
    return {
        "proved": (product, {}),
        "to a tolerance": (inverse, {"tolerance": 0.02}),
        "spent on boxes": (inverse, {"tolerance": 1e-9, "budget": "3e5 work"}),
        "spent on forms": (network, {"budget": "2e5 work"}),
        "refuted": (replace(product, claim=smaller), {}),
        "words": (machine, {}),
        "spent on words": (machine, {"budget": "4e5 work"}),
    }


def relu_network() -> hm.ReluNetwork:
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=shape) for shape in ((8, 2), (8, 8), (1, 8))]
    return hm.ReluNetwork(weights, [rng.normal(size=len(w)) for w in weights])


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at a clock finds it an hour later."""
    for name in ("monotonic", "perf_counter", "process_time", "thread_time", "time"):
        now = itertools.count(1e6, 3600.0)
        monkeypatch.setattr(time, name, now.__next__)
        monkeypatch.setattr(time, f"{name}_ns", lambda now=now: int(1e9 * next(now)))


# --- the same verdict on every machine ------------------------------------------------------------


@pytest.fixture(scope="module")
def before() -> dict[str, hm.Certificate]:
    return {name: certify(model, **options) for name, (model, options) in models().items()}


def test_the_models_end_as_they_are_called(before):
    verdicts = {name: found.verdict.name for name, found in before.items()}
    assert {n: v for n, v in verdicts.items() if v != "PROVED"} == {
        "spent on forms": "UNDECIDED",
        "refuted": "REFUTED",
        "spent on words": "UNDECIDED",
    }
    for name in ("spent on forms", "spent on words"):
        assert "budget was spent" in before[name].advice
    assert before["spent on boxes"].work > 3e5


def test_certificates_are_the_same_on_a_machine_that_stands_still(before, hours):
    """Certified, boxes and work to the last digit; only the seconds tell the two apart."""
    for name, (model, options) in models().items():
        found = certify(model, **options)
        assert found.seconds > 3000.0
        assert replace(found, seconds=0.0) == replace(before[name], seconds=0.0), name


def test_what_other_threads_do_is_not_counted(before):
    model, options = models()["to a tolerance"]
    found = []

    def work() -> None:
        charge(UNIT, 10**9)
        found.append(certify(model, **options))

    thread = Thread(target=work)
    began = ticks()
    thread.start()
    thread.join()
    assert ticks() == began
    assert replace(found[0], seconds=0.0) == replace(before["to a tolerance"], seconds=0.0)


def test_the_same_boxes_are_searched_with_any_number_of_workers():
    """Batches are cut by their size alone, and charged for by whoever sends them."""
    model = hm.compile("x*y", on=SQUARE, error=1e-2, route="direct")
    options = {"tolerance": 1e-4, "budget": "1e6 work"}
    alone = certify(model, **options)
    assert alone.boxes > 10 * CHUNK
    for workers in (1, 3):
        with ThreadPoolExecutor(workers) as pool:
            found = certify(model, executor=pool, **options)
        assert replace(found, seconds=0.0) == replace(alone, seconds=0.0)


def test_neighbours_stay_together_when_they_are_sent_away():
    """A sum of many gates looks at those near 256 boxes: bit by bit the same, sent or not."""
    rng = np.random.default_rng(0)
    graph = Graph()
    x, y = graph.variable(-1.0, 1.0), graph.variable(-1.0, 1.0)
    forms = [
        total([(rational(v), n) for v, n in zip(row, (x, y), strict=True)])
        for row in rng.normal(size=(100, 2)).tolist()
    ]
    shifts = [constant(rational(v)) for v in rng.normal(size=100).tolist()]
    gates = [(rational(300.0), form + shift) for form, shift in zip(forms, shifts, strict=True)]
    one = constant(fmpq(1))
    answer = total([(fmpq(1), graph.gate(form.scaled(c), one)) for c, form in gates])
    problem = pose(graph, answer, 1.0)
    assert problem.tape.looks_nearby
    low = rng.uniform(-1.0, 0.99, size=(2, 3 * CHUNK)) * problem.high[:, None]
    high = low + 1e-3 * problem.high[:, None]
    alone = Search(problem, Clock(Budget()), enough=1.0)._enclosed(low, high)
    with ThreadPoolExecutor(2) as pool:
        sent = Search(problem, Clock(Budget()), enough=1.0, executor=pool)._enclosed(low, high)
    for name in ("most", "least", "point", "split"):
        assert np.array_equal(getattr(alone, name), getattr(sent, name)), name


# --- no clocks ------------------------------------------------------------------------------------

ROOMS = ("checker", "lowering", "passes", "geometry", "core", "languages", "numerics")
CLOCKS = {  # where a clock is read, and why that decides nothing
    "checker/_budget.py": "seconds to be shown, and to stop after where the user asks for that",
    "geometry/_compiled.py": "when loops are compiled, which says the same as Python does",
    "geometry/counting/plane/_counting.py": "how often progress is told",
    "geometry/counting/_checkpoint.py": "how often a checkpoint is written",
}


def test_nobody_else_reads_a_clock():
    """Neither `import time`, nor something like it, in any room that decides."""
    root = Path(hm.__file__).parent
    files = [path for room in ROOMS for path in (root / room).rglob("*.py")]
    assert len(files) > 200
    readers = {str(path.relative_to(root)) for path in files if _reads_a_clock(path)}
    assert readers == set(CLOCKS)


def _reads_a_clock(path: Path) -> bool:
    clocks = {"time", "datetime", "timeit"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names) if clocks & {one.name.split(".")[0] for one in names}:
                return True
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in clocks:
                return True
    return False


def test_no_test_has_a_budget_in_seconds():
    """Except here, and where texts are parsed: those budgets decide nothing."""
    allowed = {Path(__file__).name, "test_certificates.py", "test_cli_verify.py"}
    guilty = []
    for path in Path(__file__).parents[1].rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and path.name not in allowed:
                given = [*node.args, *(k.value for k in node.keywords if k.arg == "budget")]
                name = ast.unparse(node.func)
                texts = [a.value for a in given if isinstance(a, ast.Constant)]
                if not name.endswith(("certify", "Budget", "Budget.of")):
                    continue
                seconds = any(k.arg == "seconds" for k in node.keywords)
                if seconds or any(_is_a_time(text) for text in texts):
                    guilty.append(f"{path.name}:{node.lineno}")
    assert guilty == []


def _is_a_time(given: object) -> bool:
    try:
        return hm.Budget.of(given).seconds < math.inf
    except hm.RequestError:
        return False


# --- budgets in seconds ---------------------------------------------------------------------------


def test_a_budget_in_seconds_is_named_in_the_certificate():
    model, _ = models()["proved"]
    found = certify(model, budget=1e9)
    said = [line for line in found.assumptions if "wall time" in line]
    assert said == [
        "The budget was 1e+09 s of wall time: how far the check came may depend on the machine "
        "and its load."
    ]
    assert hm.Certificate.from_dict(found.as_dict()) == found
    words, _ = models()["words"]
    assert certify(words, budget="1e6 h").assumptions[-1].startswith("The budget was 3.6e+09 s")
    for budget in (None, "1e9 work", "1e7 boxes"):
        assert not any("wall" in line for line in certify(model, budget=budget).assumptions)


def test_only_a_budget_in_seconds_is_spent_by_time(hours):
    assert Clock(Budget(seconds=10.0)).is_spent
    assert Clock(Budget(seconds=1e4)).part(0.5).is_spent
    for budget in (Budget(), Budget(boxes=10), Budget(work=10)):
        clock = Clock(budget)
        assert clock.seconds >= 3600.0
        assert not clock.is_spent
        assert not clock.part(0.5).is_spent
    model, options = models()["proved"]
    assert certify(model, budget="30s", **options).verdict is hm.Verdict.UNDECIDED


# --- clocks that work moves -----------------------------------------------------------------------


def test_a_clock_is_moved_by_work_alone():
    clock = Clock(Budget(work=100))
    charge(UNIT, 99)
    assert clock.work == 99.0
    assert not clock.is_spent
    clock.look()
    charge(UNIT)
    assert clock.is_spent
    with pytest.raises(Spent):
        clock.look()


def test_a_part_has_its_share_of_what_is_left():
    clock = Clock(Budget(work=100, boxes=50))
    charge(UNIT, 60)
    clock.boxes = 10
    part = clock.part(0.25)
    assert (part.budget.work, part.budget.boxes) == (10.0, 10.0)
    charge(UNIT, 10)
    assert part.is_spent
    assert not clock.is_spent
    charge(UNIT, 1000)
    assert clock.part(0.5).budget.work == 1.0  # a clock has to have something
    assert Clock(Budget(boxes=7)).part(0.5).budget.work == math.inf


def test_what_is_usual_is_about_a_minute():
    assert Budget().work == USUAL == 60 * PER_SECOND
    assert Budget(boxes=5).work == Budget(seconds=5).work == math.inf
    assert Budget(boxes=5, work=7).work == 7


# --- charges --------------------------------------------------------------------------------------


def charged(action: Callable[[], object]) -> int:
    began = ticks()
    action()
    return ticks() - began


def test_sums_are_charged_by_their_terms_and_digits():
    graph = Graph()
    names = [graph.variable(-1.0, 1.0) for _ in range(200)]
    long = total([(fmpq(k + 1), name) for k, name in enumerate(names)])
    short = total([(fmpq(k + 1), name) for k, name in enumerate(names[:20])])
    other = total([(fmpq(1, k + 1), name) for k, name in enumerate(names)])
    assert charged(lambda: long + other) - charged(lambda: short + other) == 180 * TERM
    digits = other.scaled(fmpq(3**2000, 7**1999))
    assert charged(lambda: long + digits) > 4 * charged(lambda: long + other)
    squared = charged(lambda: digits.scaled(fmpq(3**2000, 7**1999)))
    assert squared > 4 * charged(lambda: other.scaled(fmpq(3, 7)))


def test_an_inversion_is_charged_before_it_is_made():
    """41 wild functionals: their inverse alone would take ten seconds."""
    rng = np.random.default_rng(0)
    k = 41
    rows = rng.normal(size=(k, k)) * np.exp(rng.uniform(-300.0, 300.0, size=(k, k)))
    clock = Clock(Budget(work=1e5))
    basis = Basis(k, clock.look)
    basis.rows = [{j: rational(v) for j, v in enumerate(row)} for row in rows.tolist()]
    basis._echelon = {j: {j: fmpq(1)} for j in range(k)}
    with pytest.raises(Spent):
        basis.coordinates(basis.rows[0])
    assert clock.work > 1e6


def wild(inputs: int, hidden: int, depth: int) -> Construction:
    """Weights from e^-300 to e^300: numbers get thousands of digits."""
    rng = np.random.default_rng(0)
    width = inputs + hidden + 1
    layers = []
    for _ in range(depth):
        inner = rng.normal(size=(hidden, width)) * np.exp(rng.uniform(-300, 300, (hidden, width)))
        outer = np.zeros((width, hidden))
        outer[inputs:] = rng.normal(size=(hidden + 1, hidden))
        layers.append(FeedForward(inner, rng.normal(size=hidden), outer, np.zeros(width)))
    return claimed(layers, width, inputs, 1, rng, 1e300)


def soft(tokens: int, layers: int) -> Construction:
    """Softmax heads that read everything: forms within forms."""
    rng = np.random.default_rng(5)

    def head() -> Head:
        parts = [rng.normal(size=(2, 4)) for _ in range(3)]
        return Head(*parts, 0.3 * rng.normal(size=(4, 2)), hm.Softmax(3.0))

    stack = [Attention([head(), head()]) for _ in range(layers)]
    return claimed(stack, 4, 2, tokens, rng, 1e3)


def claimed(layers, width: int, inputs: int, tokens: int, rng, error: float) -> Construction:
    source = VectorInput(rng.normal(size=(tokens, width, inputs)), np.zeros((tokens, width)))
    model = Transformer(source, layers, ReadOut(rng.normal(size=(1, width)), np.zeros(1), 0))
    names = [f"x{i}" for i in range(inputs)]
    box = hm.Box([-1.0] * inputs, [1.0] * inputs)
    shares = [Share("approximation", "by hand", error)]
    target = Function.parse("+".join(names), names)
    return Construction(model, Claim(target, box, shares), Witness([]), "by hand")


@pytest.mark.parametrize(
    "model",
    [wild(2, 32, 4), wild(8, 32, 3), soft(4, 2)],
    ids=["deep", "wide", "soft"],
)
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_the_ugliest_models_keep_their_budget(model):
    """Charges come as forms grow, and the clock is looked at between them."""
    found = certify(model, budget="3e5 work")
    fixed = certify(model, budget="1 work").work  # measuring and rounding are not done in parts
    assert found.work <= fixed + 3 * 3e5
