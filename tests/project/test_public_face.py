"""The surface that scripts rely on: what it shows, how it is called, what it says to guesses."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.languages.expressions import words as expression_words

ROOMS = {"programs", "bounds", "interop", "plots", "testing"}
LATE = ("plots", "testing")


def run(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# ---- what it shows -------------------------------------------------------------------------------


def test_the_surface_is_what_it_says() -> None:
    assert len(set(hm.__all__)) == len(hm.__all__)
    rooms = {name for name in hm.__all__ if isinstance(getattr(hm, name), types.ModuleType)}
    assert rooms == ROOMS
    assert dir(hm) == sorted([*hm.__all__, "__version__"])


def test_nothing_is_imported_that_is_not_shown() -> None:
    """Rooms that Python hangs under the package because they were loaded are nobody's surface."""
    there = {
        name
        for name, value in vars(hm).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert there - {"TYPE_CHECKING"} <= set(hm.__all__)


def test_types_see_the_names_where_they_are_loaded_from() -> None:
    """What type checkers read in the file, and what `__getattr__` does, are one."""
    tree = ast.parse(Path(hm.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and not node.orelse][:1]
    said = {
        alias.asname: getattr(importlib.import_module(str(found.module)), alias.name)
        for found in block.body
        if isinstance(found, ast.ImportFrom)
        for alias in found.names
        if alias.name != "*"
    }
    assert said == {name: getattr(hm, name) for name in said}
    assert {*said, *expression_words.__all__} == set(hm.__all__)


def test_late_rooms_open_when_they_are_asked_for() -> None:
    told = run(
        "import sys, hardmax as hm\n"
        "print(*[f'hardmax.{room}' in sys.modules for room in ('plots', 'testing')])\n"
        "print(hm.plots.error_picture.__name__, hm.testing.__name__, hm.interop.__name__)"
    )
    assert told.split() == ["False", "False", "error_picture", "hardmax.testing", "hardmax.interop"]


def test_a_star_import_brings_the_surface() -> None:
    assert run("from hardmax import *\nprint(compile('x', on='[0,1]').route)").strip()


def test_a_mistyped_name_is_told_its_neighbour() -> None:
    with pytest.raises(AttributeError, match=r"has no 'compil'; did you mean hm\.compile\?"):
        _ = hm.compil
    with pytest.raises(AttributeError, match=r"has no 'zzzz'; dir\(hardmax\) lists"):
        _ = hm.zzzz


def test_programs_shows_the_users_words() -> None:
    shown = {name for name in vars(hm.programs) if not name.startswith("_")}
    assert shown == set(hm.programs.__all__)
    inside = {"Aggregated", "Joined", "conjuncts", "roots_of", "value_sets", "ProgramTarget"}
    assert not shown & inside
    library = "copy shift reverse sort histogram most_frequent prefix_sum dyck shuffle_dyck fsm"
    assert {*library.split(), "table"} <= shown


# ---- how it is called ----------------------------------------------------------------------------

# What may be given by position: the subject, and what other people's scripts give so.
POSITIONAL = {
    "intervene": 3,
    "interchange": 4,  # a model, a word, another word, and where
    "disguise": 1,
    "compile": 1,
    "plan": 1,
    "plan_program": 1,
    "measure": 2,  # hm.measure(model, 1000)
    "certify": 1,
    "trace": 2,  # a model and a word
    "soften": 1,
    "save": 3,  # hm.save(model, path, certificate)
    "load": 1,
    "load_certificate": 1,
    "load_certified": 1,
    "open_folder": 1,
    "certify_folder": 1,
    "write_suite": 1,
    "from_torch": 1,
    "load_network": 1,
    "save_network": 2,
    "program": 1,
    "regions": 2,  # a source and a domain
    "skeleton": 1,
    "power_diagram": 3,  # keys, biases, a box
    "head_diagram": 4,  # a model, a layer, a head, a context
    "top_k_diagram": 4,
    "minkowski_sum": 1,
    "common_refinement": 1,
    "stability": 2,  # a model and inputs
    "stability_of": 6,  # q, k, v, mask, scale, temperature
    "line_breakpoints": 4,  # a network, starts, ends, fast
    "depth_construction": 0,
}
SHARED = {  # an argument of one name means one thing, and has one default
    "on": {None, inspect.Parameter.empty},
    "error": {1e-3, inspect.Parameter.empty},
    "progress": {None},
    "executor": {None},
    "positions": {None},
    "alphabet": {None},
    "length": {None},
}


def functions() -> dict[str, Callable[..., object]]:
    return {name: getattr(hm, name) for name in hm.__all__ if inspect.isfunction(getattr(hm, name))}


@pytest.mark.parametrize("name", sorted(POSITIONAL))
def test_options_are_named(name: str) -> None:
    kinds = [p.kind for p in inspect.signature(getattr(hm, name)).parameters.values()]
    assert kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) == POSITIONAL[name]
    assert set(kinds[POSITIONAL[name] :]) <= {inspect.Parameter.KEYWORD_ONLY}


def test_every_verb_is_in_that_table() -> None:
    words = {*expression_words.__all__, "sorting_network"}
    assert set(functions()) - words == set(POSITIONAL)


def test_arguments_of_one_name_mean_one_thing() -> None:
    for name, function in functions().items():
        for parameter in inspect.signature(function).parameters.values():
            known = SHARED.get(parameter.name)
            assert known is None or parameter.default in known, f"{name}({parameter})"


def test_what_comes_back_has_a_type() -> None:
    words = {n: getattr(hm.programs, n) for n in hm.programs.__all__}
    makers = {n: w for n, w in words.items() if inspect.isfunction(w)}
    loose = [
        name
        for name, function in (functions() | makers).items()
        if "Any" in str(inspect.signature(function).return_annotation)
    ]
    assert loose == []


# ---- first guesses -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> hm.Construction:
    return hm.compile("x*y", on="[-1,1]^2", error=1e-2)


@pytest.fixture(scope="module")
def words() -> hm.Construction:
    return hm.compile(hm.programs.reverse, alphabet="abc", length=3)


GUESSES: list[tuple[Callable[[hm.Construction, hm.Construction], object], str]] = [
    (lambda m, w: m(0.2, 0.3), r"as one list, model\(\[x, y\]\), or by their names, but 2"),
    (lambda m, w: w("a", "b"), r"Give a sequence of symbols"),
    (lambda m, w: hm.intervene(m, "ab", {}), r"on models of sequence programs; this is none"),
    (lambda m, w: hm.intervene(w, "ab", {}), r'compact: .* with route="legible"'),
    (lambda m, w: hm.interchange("m", "ab", "ba", {}), r"on models of sequence programs; this is"),
    (lambda m, w: hm.interchange(w, "ab", "ba", {}), r'compact: .* with route="legible"'),
    (lambda m, w: hm.certify("x"), r"hm\.certify\(model\) with a model: the text 'x' came"),
    (lambda m, w: hm.certify(m.transformer), r"a Transformer came first; hm\.compile"),
    (lambda m, w: hm.measure("x"), r"hm\.measure\(model\) with a model: the text"),
    (lambda m, w: hm.measure(m, "10"), r"At least one point must be measured, not '10'"),
    (lambda m, w: hm.load_network(None), r"named by a text or a path, not by a NoneType"),
    (lambda m, w: hm.interop.write_safetensors(m, 3), r"named by a text or a path, not by a int"),
    (lambda m, w: hm.programs.fsm(3), r"or a regular expression, not by a int"),
    (lambda m, w: hm.programs.table(3), r"A table needs at least one row"),
    (lambda m, w: hm.head_diagram(m, 0, 0, None), r"The context is an input .* not a NoneType"),
    (lambda m, w: hm.plan(3), r"type int cannot be compiled; give a function as text"),
    (lambda m, w: hm.plan("x*y"), r"Say on which domain: on="),
    (lambda m, w: hm.Function("x*y"), r"is read by hm\.Function\.parse\('x\*y'\)"),
    (lambda m, w: hm.compile(lambda x: x), r"wrap it as hm\.CallableFunction"),
    (lambda m, w: hm.compile(m, on="[-1,1]^2"), r"This is compiled already"),
    (lambda m, w: hm.compile(hm.programs.copy), r'alphabet="abc" and length=5'),
    (lambda m, w: hm.plan(hm.programs.copy), r'alphabet="abc" and length=5'),
    (lambda m, w: hm.regions("x"), r"Regions are known for networks"),
    (lambda m, w: hm.save("path", m), r"hm\.save\(model, path\) with a model: the text 'path'"),
    (lambda m, w: hm.save(m, 3), r"the path of a file was needed, but a int came"),
    (lambda m, w: hm.save(m, "m.safetensors", "x"), r"its certificate, hm\.certify\(model\)"),
    (lambda m, w: hm.load(m), r"the path of a file was needed, but a Construction came"),
    (lambda m, w: hm.load_certificate(m), r"the path of a file was needed"),
    (lambda m, w: hm.load_certified(m), r"the path of a file was needed"),
    (lambda m, w: hm.certify_folder(m), r"named by a text or a path, not by a Construction"),
    (lambda m, w: hm.open_folder("model.safetensors"), r"is not a folder"),
    (lambda m, w: hm.write_suite(m), r"named by a text or a path, not by a Construction"),
    (lambda m, w: hm.write_suite("s", programs="sort"), r"a list of names, such as \['sort'\]"),
    (lambda m, w: hm.write_suite("s", programs=["x"]), r"no program 'x'; the gallery has reverse"),
    (lambda m, w: hm.write_suite("s", symbols="ab"), r"whole number from 2 to 26, not 'ab'"),
    (lambda m, w: hm.interop.read_lens_construction(m), r"not by a Construction"),
    (lambda m, w: hm.trace(m), r"reads sequences of symbols can be traced"),
    (lambda m, w: hm.trace(m, "abc"), r"reads sequences of symbols can be traced"),
    (lambda m, w: hm.trace(w), r'which word to follow, for example hm\.trace\(model, "abc"\)'),
    (lambda m, w: hm.trace(w, 3), r"A word is a text or a list of symbols, not 3"),
    (lambda m, w: hm.trace("x", "abc"), r"with a model: the text 'x'"),
    (lambda m, w: hm.soften("x", error=1e-3), r"A hard model is softened"),
    (lambda m, w: hm.skeleton("x"), r"A skeleton is that of a model"),
    (lambda m, w: hm.stability(m), r"Say on which inputs: hm\.stability\(model, points\)"),
    (lambda m, w: hm.head_diagram("x", 0, 0, [0.0]), r"A head diagram needs a Transformer"),
    (lambda m, w: hm.interop.write_safetensors("x", "y"), r"takes a Construction, as hm\.compile"),
    (lambda m, w: hm.interop.write_onnx("x", "y"), r"takes a Construction, as hm\.compile"),
    (lambda m, w: hm.interop.write_onnx(m, w), r"named by a text or a path, not by a Constr"),
    (lambda m, w: hm.interop.read_onnx(m), r"named by a text or a path, not by a Construction"),
    (lambda m, w: hm.interop.to_jax("x"), r"takes a Construction or a Transformer"),
    (lambda m, w: hm.interop.write_standalone(m, "f", "onnx"), r"framework is one of torch, jax"),
    (lambda m, w: hm.interop.export_lens_files("x", "y"), r"takes a Construction, as hm\.compile"),
    (lambda m, w: hm.interop.export_lens_files(m, 3), r"named by a text or a path, not by a int"),
    (lambda m, w: hm.interop.read_lens_files(m), r"by a text or a path, not by a Construction"),
    (lambda m, w: hm.interop.write_torch("x"), r"takes a Construction or a Transformer"),
    (lambda m, w: hm.Words(3, 4), r"An alphabet is a text or a list of symbols, not 3"),
    (lambda m, w: hm.plots.error_picture("x", path="e.svg"), r"A Construction is drawn here"),
    (lambda m, w: hm.plots.attention_picture(m, path="a.svg"), r"as hm\.trace\(model"),
    (lambda m, w: hm.plots.diagram_picture(3, path="d.svg"), r"as hm\.power_diagram\(keys\)"),
    (
        lambda m, w: hm.plots.diagram_picture(hm.top_k_diagram(np.eye(3), 1), path="d.svg"),
        r"a TopKDiagram came; its \.diagram is one",
    ),
    (lambda m, w: hm.plots.polytope_picture("x", path="p.svg"), r"as hm\.Polytope\.of\(points\)"),
    (lambda m, w: hm.plots.stability_picture(m, path="s.svg"), r"as hm\.stability\(model"),
    (lambda m, w: hm.plots.regions_picture(m, path="r.svg"), r"as hm\.regions\(source"),
]


@pytest.mark.parametrize(("guess", "sentence"), GUESSES)
def test_first_guesses_end_in_sentences(
    guess: Callable[[hm.Construction, hm.Construction], object],
    sentence: str,
    model: hm.Construction,
    words: hm.Construction,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(hm.HardmaxError, match=sentence):
        guess(model, words)
    assert not list(tmp_path.iterdir())


def test_a_module_of_torch_is_told_its_reader() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(hm.RequestError, match=r"hm\.from_torch\(module"):
        hm.compile(torch.nn.Sequential(torch.nn.Linear(2, 1)), on="[-1,1]^2")


def test_the_heads_of_a_trace_can_be_asked_twice(words: hm.Construction) -> None:
    seen = hm.trace(words, "abc")
    assert isinstance(seen.heads, tuple)
    assert len(seen.heads) == words.bill.heads


# ---- plans ---------------------------------------------------------------------------------------


def test_plan_takes_programs() -> None:
    turns = hm.programs.fsm("(ab)*", alphabet="ab")
    plan = hm.plan(turns, alphabet="ab", length=4)
    assert [offer.route for offer in plan.open] == ["shallow", "parallel", "legible"]
    assert plan.choose().route == "shallow"
    least = min(plan.open, key=lambda offer: offer.resources["layers"])
    assert plan.choose("layers").resources["layers"] == least.resources["layers"]
    assert plan.offer("parallel").build().claim.error == plan.offer("parallel").error
    assert str(plan) == str(hm.plan_program(turns, on=hm.Words("ab", 4, 0)))
    with pytest.raises(hm.RequestError, match="no route 'direct' here; choose one of shallow"):
        plan.offer("direct")
    with pytest.raises(hm.RequestError, match="not compared by float format"):
        plan.choose("float32")


def test_a_preference_is_heard_for_programs() -> None:
    turns = hm.programs.fsm("(ab)*", alphabet="ab")
    plan = hm.plan(turns, alphabet="ab", length=4)
    built = hm.compile(turns, alphabet="ab", length=4, prefer="heads")
    assert built.bill.heads == min(offer.resources["heads"] for offer in plan.open)
    with pytest.raises(hm.RequestError, match="a route or a preference, not both"):
        hm.compile(turns, alphabet="ab", length=4, prefer="heads", route="shallow")


def test_a_program_without_a_route_says_why() -> None:
    plan = hm.plan(hm.programs.sort, alphabet="ab", length=4, positions="none")
    assert plan.open == ()
    with pytest.raises(hm.RequestError, match=r"position"):
        plan.choose()


# ---- examples ------------------------------------------------------------------------------------


def documented() -> dict[str, object]:
    """Every public function and class, with the words of `hm.programs`."""
    found = {f"hm.{name}": getattr(hm, name) for name in hm.__all__}
    found |= {f"hm.programs.{name}": getattr(hm.programs, name) for name in hm.programs.__all__}
    return {k: v for k, v in found.items() if inspect.isfunction(v) or inspect.isclass(v)}


@pytest.mark.parametrize("name", sorted(documented()))
def test_every_public_name_has_an_example_that_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = documented()[name]
    words = {word: getattr(hm.programs, word) for word in hm.programs.__all__}
    globs = words | {word: getattr(hm, word) for word in hm.__all__} | {"hm": hm, "np": np}
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(shown) or "", globs, name, None, 0)
    assert test.examples, f"{name} shows no example"
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(test, out=said.append).failed == 0, "".join(said)
