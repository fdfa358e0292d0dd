"""The benchmarks in short: exact facts are asserted, times never are."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))  # benchmarks/ is not installed

from benchmarks._bills import bills
from benchmarks._economy import economy
from benchmarks._plot import draw_coldness
from benchmarks._report import Check, Report, Settings
from benchmarks._sources import small_networks

import hardmax as hm
from benchmarks import THREADS, _coldness, _measure, networks, oscillation

SHORT = replace(Settings.of(quick=True), seeds=1, points=2000)
RELU, MAXOUT = "ReLU 8-32-32-1", "maxout 4-16-16-1, rank 4"
CONSTANTS = {2: 0.278465, 3: 0.463056, 4: 0.603546, 8: 0.973139, 16: 1.383462, 64: 2.307130}


@pytest.fixture(scope="module")
def counted():
    return bills(SHORT)


@pytest.fixture(scope="module")
def softened():
    """Soft errors, on a machine without matplotlib."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib.figure", None)
        return _coldness.coldness(SHORT)


def test_every_route_keeps_its_claim(counted):
    runs = counted.record["runs"]
    routes = {(run["network"], run["route"]) for run in runs}
    attention = {
        (name, route) for name in (RELU, MAXOUT) for route in ("attention", "attention-only")
    }
    assert routes == attention | {(RELU, "feedforward")}
    for run in runs:
        assert run["measured"] <= run["claimed"] <= 1e-3


@pytest.mark.parametrize(
    ("network", "route", "limit"),
    [
        (RELU, "attention", 1.2),
        (RELU, "attention-only", 1.3),
        (MAXOUT, "attention", 1.3),
        (MAXOUT, "attention-only", 1.6),
    ],
)
def test_nonzero_weights_stay_within_their_limit(counted, network, route, limit):
    runs = [r for r in counted.record["runs"] if (r["network"], r["route"]) == (network, route)]
    source = {RELU: 1377, MAXOUT: 1476}[network]
    for run in runs:
        assert run["bill"]["source_parameters"] == source
        assert run["nonzero_ratio"] == run["bill"]["nonzero_parameters"] / source <= limit


def test_maxout_beats_a_head_for_every_pair_of_unit_and_piece(counted):
    """The construction that comes to mind first has 2,248 weights and 132 heads."""
    (run,) = (
        r
        for r in counted.record["runs"]
        if (r["network"], r["route"]) == (MAXOUT, "attention-only")
    )
    assert run["bill"]["nonzero_parameters"] < 2248
    assert run["bill"]["heads"] < 132


def test_all_checks_of_the_bills_hold(counted):
    assert len(counted.checks) == 9
    assert all(check.holds for check in counted.checks)


def test_extremal_errors_attain_the_theorem(softened):
    """beta times the error is W((n-1)/e), at every beta from 10 to 10^6.

    The peak is found to a part in 10^12; 1e-6 is the rounding of the constants above.
    """
    curves = softened.record["extremal"]
    betas = np.array(softened.record["coldness"])
    assert betas.tolist() == [10.0, 1e2, 1e3, 1e4, 1e5, 1e6]
    named = {"ReLU neuron": 2} | {f"max of {n}": n for n in CONSTANTS}
    assert curves.keys() == named.keys()
    for name, n in named.items():
        assert betas * curves[name]["measured"] == pytest.approx(CONSTANTS[n], abs=1e-6)
        assert curves[name]["ratio"] == pytest.approx([1.0] * 6, abs=1e-6)
        assert curves[name]["slope"] == pytest.approx(-1.0, abs=1e-6)


def test_all_checks_of_the_coldness_hold(softened):
    assert len(softened.checks) == 2 * (1 + len(CONSTANTS))
    assert all(check.holds for check in softened.checks)


@pytest.mark.parametrize("wrong", [0.98, 1.02])
def test_a_constant_two_per_cent_off_is_missed(wrong):
    betas = np.array([10.0, 1e3])
    curve = _coldness._curve(betas, list(wrong * CONSTANTS[2] / betas), 2)
    slope, constant = _coldness._checks("a curve", curve)
    assert slope.holds
    assert not constant.holds


def test_without_matplotlib_the_tables_remain_and_the_extra_is_named(softened):
    assert len(softened.sheets) == 3
    (note,) = softened.notes
    assert "plot was skipped" in note
    assert "hardmax[plots]" in note


def test_the_plot_names_the_extra_it_needs(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(hm.MissingExtra, match="matplotlib is not installed"):
        draw_coldness(np.array([1.0]), {}, {}, tmp_path)


def test_the_product_of_norms_is_safe_and_wasteful():
    report = economy(SHORT)
    assert all(check.holds for check in report.checks)
    for run in report.record["runs"]:
        assert run["norms_measured"] <= 1e-3
        assert run["our_logit"] < run["norms_logit"]


@pytest.mark.parametrize(
    ("check", "code"),
    [
        (Check("slope", holds=True), 0),
        (Check("slope", holds=False), 1),
        (Check("seconds", holds=False, timed=True), 0),
    ],
)
def test_the_exit_code_says_whether_a_requirement_was_missed(monkeypatch, capsys, check, code):
    monkeypatch.setitem(networks.PARTS, "bills", lambda settings: Report([], [check], {}))
    assert networks.main(["--only", "bills"]) == code
    assert ("missed" in capsys.readouterr().out) == (not check.holds)


def test_tables_are_headed_by_their_command_and_json_holds_the_numbers(
    monkeypatch, capsys, tmp_path, counted
):
    monkeypatch.setitem(networks.PARTS, "bills", lambda settings: counted)
    path = tmp_path / "numbers.json"
    assert networks.main(["--quick", "--only", "bills", "--json", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "$ python -m benchmarks.networks --only bills --quick" in printed
    assert "Required: measured <= claimed <= 0.001" in printed
    assert json.loads(path.read_text())["bills"]["runs"] == counted.record["runs"]


@pytest.mark.parametrize("name", [RELU, MAXOUT])
def test_points_beside_kinks_are_beside_kinks(name):
    """Some pair of pieces differs by the distance, as exactly as floats can say it."""
    network = small_networks(0)[name]
    points = _measure.points_beside_kinks(network, distance=1e-3, count=200, seed=1)
    assert len(points) > 20
    assert np.abs(points).max() <= 1.0
    gaps = np.abs(_measure._piece_gaps(network, points))
    assert (np.abs(gaps - 1e-3).min(axis=0) < 1e-12).all()  # 1e3 roundings of numbers below 10


def test_the_peak_of_a_smooth_function_is_found():
    value, at = _measure.peak(lambda x: -(np.log(x / 3e-4) ** 2), 1e-9, 1.0)
    assert value == pytest.approx(0.0, abs=1e-12)
    assert at == pytest.approx(3e-4, rel=1e-6)


def test_timed_calls_take_turns():
    turns = []
    calls = {name: lambda name=name: turns.append(name) for name in "ab"}
    assert _measure.interleaved_medians(calls, 2).keys() == calls.keys()
    assert "".join(turns) == "ababab"


@pytest.mark.parametrize(
    ("setting", "said"), [("1", "1 thread"), ("2", "2 threads"), (None, "any number of threads")]
)
def test_times_say_on_how_many_threads(monkeypatch, setting, said):
    for name in THREADS:
        if setting is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, setting)
    assert _measure.threads() == said


def test_slopes_are_read_from_logarithms():
    x = np.array([1.0, 10.0, 100.0])
    assert _measure.loglog_slope(x, 7 * x**-1.5) == pytest.approx(-1.5)


def test_waves_in_short():
    """The smallest rows of the long run: the planner's choice, sigmoids, anchors."""
    found = [oscillation.run(row) for row in oscillation.ROWS[:3]]
    assert [row["verdict"] for row in found] == ["PROVED"] * 3
    assert [row["route"] for row in found] == ["folded", "direct", "anchors"]
    assert [row["heads"] for row in found] == [4, 6, 1]
    assert found[1]["parameters"] == 113
    assert found[2]["tokens"] == 18
