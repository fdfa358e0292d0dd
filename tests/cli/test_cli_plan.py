"""Plans, sizing curves and functions on the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import hardmax as hm
from hardmax.cli import _plan, main
from hardmax.lowering import DECADES, PREFERENCES, RouteCurve, SizingPoint, sizing_curve

PRODUCT = ("x*y", "--on", "x=-1:1", "--on", "y=-1:1")
MAXIMUM = ("max(x, y)", "--on", "x=-1:1", "--on", "y=-1:1")
SHORT = ("--curve", "--errors", "1e-1:1e-3")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], env={"COLUMNS": "80"})


def answer(*arguments: object) -> dict:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def rows(text: str) -> dict[str, list[str]]:
    """The first table, by the name in its first column; a star is no part of a name."""
    lines = [line.replace(" *", "  ").split() for line in text.splitlines()]
    return {line[0]: line[1:] for line in reversed(lines) if len(line) > 1}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(7)
    weights = [rng.normal(size=(4, 2)), rng.normal(size=(1, 4))]
    place = tmp_path_factory.mktemp("networks") / "net.npz"
    hm.save_network(hm.ReluNetwork(weights, [rng.normal(size=4), rng.normal(size=1)]), place)
    return place


# ---------------------------------------------------------------- plan


def test_the_table_holds_every_route_and_fits_eighty_columns() -> None:
    result = run("plan", *PRODUCT, "--error", "1e-6")
    assert (result.exit_code, result.stderr) == (0, "")
    found = rows(result.stdout)
    plan = hm.plan("x*y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-6)
    for offer in plan.offers:
        if offer.refusal:
            assert found[offer.route] == ["refused"]
            assert offer.refusal.split(". ")[0][:100] in result.stdout
            continue
        r = offer.resources
        counts = [f"{r[name]:,}" for name in ("layers", "heads", "width", "parameters")]
        sizes = [f"{r[name]:.3g}" for name in ("largest_logit", "largest_weight")]
        assert found[offer.route] == [*counts, *sizes, offer.float_format, f"{offer.error:.4g}"]
    starred = re.findall(r"^(\S+) \*", result.stdout, re.MULTILINE)
    assert set(starred) == set(plan.best)
    assert f"\npicked {plan.choose().route}: " in result.stdout
    table = result.stdout.split("\n\n")[1]
    assert max(map(len, table.splitlines())) <= 80


def test_json_is_the_plan() -> None:
    record = answer("plan", *PRODUCT, "--error", "1e-6")
    plan = hm.plan("x*y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-6)
    named = {"target": "x, y -> x*y", "prefer": None, "picked": plan.choose().route}
    assert record == json.loads(json.dumps(named | plan.as_dict()))
    assert record["error"] == 1e-6


@pytest.mark.parametrize("prefer", PREFERENCES)
def test_prefer_picks(prefer: str) -> None:
    record = answer("plan", *PRODUCT, "--error", "1e-3", "--prefer", prefer)
    key = {"logit": "largest_logit", "float32": "heads"}.get(prefer, prefer)
    offers = {r["route"]: r for r in record["routes"] if "refusal" not in r}
    picked = offers[record["picked"]]
    others = [r for r in offers.values() if r["route"] not in ("feedforward", "gated")]
    if prefer == "float32":
        assert picked["float_format"] != "float64"
    else:
        assert picked[key] == min(other[key] for other in others)
    compiled = answer("compile", *PRODUCT, "--prefer", prefer, "--points", 100)
    assert compiled["route"] == record["picked"]
    assert compiled["bill"]["parameters"] == picked["parameters"]


def test_a_network_has_a_plan_too(network: Path) -> None:
    record = answer("plan", network, "--on", "[-1,1]^2")
    assert [row["route"] for row in record["routes"]] == [
        "attention",
        "attention-only",
        "feedforward",
    ]
    assert record["picked"] == "attention"  # as `hardmax compile` does without --route
    assert answer("compile", network, "--on", "[-1,1]^2", "--points", 9)["route"] == "attention"
    picked = answer("plan", network, "--on", "[-1,1]^2", "--prefer", "parameters")["picked"]
    compiled = ("compile", network, "--on", "[-1,1]^2", "--prefer", "parameters", "--points", 9)
    assert answer(*compiled)["route"] == picked


def test_help_comes_with_an_example() -> None:
    result = run("plan", "--help")
    assert result.exit_code == 0
    assert "hardmax plan " in result.stdout.split("Example")[1]
    assert "\n    hardmax plan " in run().stdout


# ---------------------------------------------------------------- curves


def test_the_curve_holds_every_plan() -> None:
    record = answer("plan", *PRODUCT, *SHORT)
    assert record["errors"] == [1e-1, 1e-2, 1e-3]
    for number, error in enumerate(record["errors"]):
        plan = hm.plan("x*y", on={"x": (-1, 1), "y": (-1, 1)}, error=error)
        for offer, route in zip(plan.offers, record["routes"], strict=True):
            point = route["points"][number]
            assert (point["error"], route["route"]) == (error, offer.route)
            if offer.refusal:
                assert point["refusal"] == offer.refusal
            else:
                assert point["claimed"] == offer.error
                assert point["parameters"] == offer.resources["parameters"]
    for route in record["routes"]:
        refused = sum("refusal" in point for point in route["points"])
        assert (route["refused"], route["fitted_points"]) == (refused, 3 - refused)


def test_the_curve_as_a_table() -> None:
    result = run("plan", *MAXIMUM, *SHORT)
    assert (result.exit_code, result.stderr) == (0, "")
    growth = result.stdout.split("growth")[1]
    direct = next(line for line in growth.splitlines() if line.startswith("direct "))
    assert direct.split() == ["direct", "3", "of", "3", "0", "0", "0", "1.00", "(1)", "1.00", "(1)"]


def test_default_errors_are_nine_powers_of_ten() -> None:
    assert _plan._decades("1e-1:1e-9") == DECADES == tuple(10.0**-k for k in range(1, 10))
    assert _plan._decades("1e-2") == (1e-2,)
    assert _plan._decades("0.3:0.02") == (0.3, 0.03, 0.02)


FITS = [
    ("x*y", {"x": (-1, 1), "y": (-1, 1)}, "direct", "largest_logit", -1 / 2),
    ("x*y", {"x": (-1, 1), "y": (-1, 1)}, "direct-2", "largest_logit", -1 / 4),
    ("x*y", {"x": (-1, 1), "y": (-1, 1)}, "direct-3", "largest_logit", -1 / 6),
    ("x*y", {"x": (-1, 1), "y": (-1, 1)}, "direct", "largest_weight", 1 / 2),
    ("x*y", {"x": (-1, 1), "y": (-1, 1)}, "direct-2", "largest_weight", 1 / 4),
    ("x**2", {"x": (-1, 1)}, "recipe", "largest_logit", 1 / 2),
    ("x**2", {"x": (-1, 1)}, "recipe", "largest_weight", 1),
    ("x**2", {"x": (-1, 1)}, "feedforward", "largest_weight", 1 / 2),
    ("max(x, y)", {"x": (-1, 1), "y": (-1, 1)}, "direct", "largest_logit", 1),
    ("max(x, y)", {"x": (-1, 1), "y": (-1, 1)}, "recipe", "largest_logit", 1),
]


@pytest.mark.parametrize(("text", "on", "route", "resource", "exponent"), FITS)
def test_fitted_exponents_are_the_proved_ones(
    text: str, on: dict, route: str, resource: str, exponent: float
) -> None:
    """From 1e-5 to 1e-9, where the leading term is all there is: within 6%, because layers are
    whole numbers and the share of the error left for softening varies with them."""
    function = hm.Function.parse(text)
    curve = sizing_curve(function, function.domain(on), DECADES[4:])
    line = next(line for line in curve.routes if line.route == route)
    assert float(line.proved[resource].exponent) == pytest.approx(exponent)
    assert line.proved[resource].proved
    assert line.fitted(resource) == pytest.approx(exponent, rel=0.06)


def test_pieces_grow_as_the_root() -> None:
    """N pieces miss exp by c/N^2: from 1e-3 to 1e-5 a slope of 1/2, and 5% for whole numbers."""
    function = hm.Function.parse("exp(x)")
    curve = sizing_curve(function, function.domain({"x": (-1, 1)}), (1e-3, 1e-4, 1e-5))
    lines = {line.route: line for line in curve.routes}
    for route, resource in [("recipe", "heads"), ("feedforward", "hidden_width")]:
        assert lines[route].proved[resource].exponent == 0.5
        assert lines[route].fitted(resource) == pytest.approx(0.5, rel=0.05)
    assert str(lines["direct"].proved["heads"]) == "log, not proved"


def test_the_fit_is_exact_on_a_power_law_and_leaves_refusals_out() -> None:
    law = [SizingPoint(e, {"heads": 3 * e**-0.5, "layers": 1}, e) for e in (1e-1, 1e-2, 1e-4)]
    line = RouteCurve("route", (*law, SizingPoint(1e-5, None, refusal="Too small.")), {})
    assert line.fitted("heads") == pytest.approx(0.5, abs=1e-12)  # rounding of logarithms
    assert line.fitted("layers") == 0.0
    assert line.refused == 1
    assert RouteCurve("route", line.points[2:], {}).fitted("heads") is None


def test_nothing_is_called_proved_beside_a_pole_of_the_second_derivative() -> None:
    function = hm.Function.parse("sqrt(x)")
    growth = {
        end: sizing_curve(function, function.domain({"x": (end, 1)}), [0.1]).routes
        for end in (0.0, 0.5)
    }
    tame, wild = (
        next(line for line in growth[end] if line.route == "recipe").proved["largest_logit"]
        for end in (0.5, 0.0)
    )
    assert (tame.proved, wild.proved) == (True, False)


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_picture(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("matplotlib")
    places = [tmp_path / f"{name}.{kind}" for name in ("first", "again")]
    for place in places:
        record = answer("plan", *PRODUCT, "--curve", "--errors", "1e-1:1e-2", "--plot", place)
        assert record["plot"] == str(place)
    first, again = (place.read_bytes() for place in places)
    assert first == again
    assert first.startswith(b"<?xml" if kind == "svg" else b"\x89PNG")
    if kind == "svg":
        for word in (b"heads", b"parameters", b"largest logit", b"largest weight", b"recipe"):
            assert word in first
    assert sorted(os.listdir(tmp_path)) == sorted(place.name for place in places)


def test_an_interruption_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "curves.svg"
    program = (
        "import os, signal\n"
        "from hardmax.cli import _plan, main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "_plan.sizing_curve = lambda *_, **__: os.kill(os.getpid(), signal.SIGINT)\n"
        "_plan.check_picture_place = lambda *_, **__: None\n"
        f"main(['plan', *{PRODUCT!r}, '--curve', '--plot', {str(place)!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "Interrupted; nothing was written.\n")
    assert (done.stdout, os.listdir(tmp_path)) == ("", [])


# ---------------------------------------------------------------- compile, run, show


def test_a_function_from_text_to_file_and_back(tmp_path: Path) -> None:
    place = tmp_path / "product.safetensors"
    record = answer("compile", *PRODUCT, "--error", "1e-3", "-o", place, "--points", 2000)
    assert record["target"] == "x, y -> x*y"
    assert 0 < record["measured"] <= record["claim"]["error"] <= 1e-3
    assert record["saved"] == str(place)
    named = answer("run", place, "y=0.5", "x=0.3")["points"][0]
    assert named == answer("run", place, "0.3", "0.5")["points"][0]
    assert (named["input"], named["target"]) == ([0.3, 0.5], [0.15])
    assert named["difference"] <= record["claim"]["error"]
    assert "f(x, y) = x*y -> Transformer" in run("show", place).stdout
    assert answer("show", place)["target"] == "x, y -> x*y"


def test_several_outputs_and_domains_in_one_text(tmp_path: Path) -> None:
    place = tmp_path / "both.safetensors"
    text = ("compile", "x*y, x + y", "--on", "[-1,1]^2", "-o", place, "--points", 100)
    assert "f(x, y) = (x*y, x + y)" in run(*text).stdout
    assert len(answer("run", place, "x=1", "y=1")["points"][0]["output"]) == 2


def test_a_file_that_is_there_is_no_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("plan", "x", "--on", "x=0:1").exit_code == 0
    Path("x").write_text("something")
    assert run("plan", "x", "--on", "x=0:1").stderr.startswith("FileError: x")


# ---------------------------------------------------------------- refusals

ON = ("--on", "x=-1:1")
REFUSED = [
    (("snh(x)", *ON), "RequestError: There is no function snh; did you mean sin"),
    (("x*y", *ON, "--on", "z=0:1"), "DomainError: A domain was given for z"),
    (("speed", "--on", "sped=0:1"), "DomainError: .*sped.*Did you mean speed"),
    (("x + y", *ON), "DomainError: No domain was given for y; add --on y=LOW:HIGH"),
    (("x*y",), "DomainError: A claim needs a domain.*--on x=-1:1 --on y=-1:1"),
    (("x", *ON, *ON), "DomainError: The domain of x is given twice"),
    (("x", "--on", "x=1:-1"), "DomainError: The domain of x is inverted"),
    (("x", "--on", "x=low:1"), 'DomainError: The domain "x=low:1" could not be read'),
    (("x", "--on", "x=-inf:1"), "DomainError: .*finite"),
    (("1/x", *ON), "DomainError: 1/x is not defined at x = 0.*x in \\[0.1, 1\\]"),
    (("log(x)", *ON), "DomainError: log\\(x\\) needs a positive argument"),
    (("exp(exp(x))", "--on", "x=0:10"), "DomainError: .*overflows"),
    (("3", *ON), "RequestError: The function has no variables"),
    (("", *ON), "RequestError: The expression is empty"),
    (("x", *ON, "--error", "0"), "RequestError: The error must be a number > 0"),
    (("x", *ON, "--error", "small"), "RequestError: The error must be .*'small'"),
    (("x", *ON, "--prefer", "beauty"), "RequestError: There is no preference 'beauty'.*logit"),
    (("nowhere.npz", "--on", "[0,1]"), "FileError: There is no file nowhere.npz"),
    ((*PRODUCT, "--error", "1e-20"), "PrecisionError: "),
]
PLANS = [
    (
        (*PRODUCT, "--error", "1e-20"),
        "PrecisionError: No route promises 1e-20 on .*direct.*feedforward: .*1.*e-1",
    ),
    ((*PRODUCT, "--error", "1e-12", "--prefer", "float32"), "PrecisionError: .*"),
    ((*PRODUCT, "--curve", "--error", "1"), "RequestError: --curve .*--errors"),
    ((*PRODUCT, "--curve", "--prefer", "heads"), "RequestError: --prefer .*leave out --curve"),
    ((*PRODUCT, "--plot", "a.svg"), "RequestError: --plot belongs to --curve"),
    ((*PRODUCT, "--errors", "1:0.1"), "RequestError: --errors belongs to --curve"),
    ((*PRODUCT, "--curve", "--errors", "1e-3:1e-1"), "RequestError: The errors must fall"),
    ((*PRODUCT, "--curve", "--errors", "1:1e-300"), "RequestError: .*more than 100 powers"),
    ((*PRODUCT, "--curve", "--plot", "a.gif"), "RequestError: A picture is an .svg, a .png or"),
    ((*PRODUCT, "--curve", "--plot", "no/a.svg"), "FileError: There is no folder"),
]
COMPILES = [
    ((*PRODUCT, "--hard"), "RequestError: --hard .*a function has none"),
    ((*PRODUCT, "--route", "direct", "--prefer", "heads"), "RequestError: --route .*Drop one"),
    ((*PRODUCT, "--route", "teleport"), "RequestError: There is no route 'teleport'.*direct"),
]
CASES = [(verb, *case) for verb in ("plan", "compile") for case in REFUSED]
CASES += [("plan", *case) for case in PLANS] + [("compile", *case) for case in COMPILES]


@pytest.mark.parametrize("json", [(), ("--json",)], ids=["", "json"])
@pytest.mark.parametrize(("command", "arguments", "sentence"), CASES)
def test_refused_in_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    arguments: tuple[str, ...],
    sentence: str,
    json: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    if "--plot" in arguments:
        pytest.importorskip("matplotlib")
    output = ("-o", "new.safetensors") if command == "compile" else ()
    result = run(command, *arguments, *output, *json)
    assert re.match(sentence, result.stderr.replace("\n", " ")), result.stderr
    assert (result.exit_code, result.stdout) == (2, "")
    assert os.listdir(tmp_path) == []
    lines = result.stderr.splitlines()
    assert len(lines) == 1 or (len(lines) == 3 and lines[2].strip() == "^")


@pytest.mark.parametrize(
    ("text", "column"), [("x $ y", 2), ("x*(y+", 2), ("x + snh(y)", 4), ("x**y", 3)]
)
def test_a_caret_shows_where(text: str, column: int) -> None:
    lines = run("plan", text, *ON).stderr.splitlines()
    assert lines[1] == f"  {text}"
    assert lines[2] == " " * (2 + column) + "^"


def test_several_domains_are_too_many_for_a_network(network: Path) -> None:
    for command in ("plan", "compile"):
        result = run(command, network, "--on", "[-1,1]", "--on", "[-1,1]")
        assert result.exit_code == 2
        assert re.match('DomainError: .*one text, but 2 came.*"\\[-1,1\\]\\^2"', result.stderr)


def test_a_model_knows_its_variables(tmp_path: Path) -> None:
    place = tmp_path / "product.safetensors"
    hm.save(hm.compile("x*y", on={"x": (-1, 1), "y": (-1, 1)}), place)
    for values, sentence in [
        (("x=1", "z=2"), "RequestError: There is no input 'z'. The inputs are x, y."),
        (("x=1",), "RequestError: y is missing. The inputs are x, y."),
        (("x=1", "2"), "RequestError: '2' has no name. Name all numbers, as in x=0.3, or none."),
    ]:
        result = run("run", place, *values)
        assert (result.exit_code, result.stderr) == (2, sentence + "\n")


def test_absurd_sizes_are_priced_and_not_built() -> None:
    """A grid for a product of two variables to 1e-6 has 10^12 anchors: said at once."""
    record = answer("plan", *PRODUCT, "--error", "1e-6")
    universal = next(row for row in record["routes"] if row["route"] == "universal")
    assert re.search(r"[\d,]{12,} anchors .*[\d,]{12,} parameters", universal["refusal"])
