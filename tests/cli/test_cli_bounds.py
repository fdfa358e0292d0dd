"""`hardmax bounds`: tables for people, exact integers for programs."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner, Result

from hardmax import depth_construction
from hardmax.cli._bounds import show_bounds
from hardmax.core import Transformer
from hardmax.geometry import bounds

ISSUE = ("--tokens", 512, "--heads", 8, "--width", 512, "--layers", 6)
SMALL = ("--tokens", 3, "--heads", 2, "--width", 3, "--layers", 2, "--key-width", 2)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(show_bounds, [str(a) for a in arguments], env={"COLUMNS": "80"})


def answer(*arguments: object) -> dict:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_the_table_holds_every_bound_with_kind_value_and_reference() -> None:
    result = run(*ISSUE, "--feed-forward", 2048)
    assert (result.exit_code, result.stderr) == (0, "")
    found = bounds.transformer(n=512, heads=8, width=512, layers=6, feed_forward=2048)
    alone = found.without_feed_forward
    for bound in (*found.rows, alone.upper, alone.lower):
        assert bound.scientific in result.stdout
        assert f"] {bound.reference}" in result.stdout
        for hypothesis in bound.hypotheses:
            assert f"\n  {hypothesis}\n" in result.stdout
    assert re.search(r"^stack of 6 layers +at most +8\.216e3121 +\(V R\)\^L +\[4\]$", result.stdout,
                     re.MULTILINE)  # fmt: skip
    assert "attention only" in result.stdout
    table = result.stdout.split("\n\n")[1]
    assert max(map(len, table.splitlines())) <= 80


def test_bounds_that_meet_say_so_and_name_the_weights() -> None:
    result = run(*ISSUE)
    assert "The bounds of the stack meet: this is the maximum." in result.stdout
    assert "4.722e21" in result.stdout
    call = result.stdout.splitlines()[-1].removeprefix("weights: ")
    built = eval(call, {"depth_construction": depth_construction})  # the line is Python
    assert isinstance(built, Transformer)
    assert (built.width, len(built.heads)) == (9, 48)


def test_json_is_the_value_with_every_digit() -> None:
    record = answer(*ISSUE, "--feed-forward", 2048)
    found = bounds.transformer(n=512, heads=8, width=512, layers=6, feed_forward=2048)
    assert record == json.loads(json.dumps(found.as_dict()))
    assert record["bounds"][1]["value"] == str(512**8)
    assert int(record["lower"]["value"]) == found.lower.value
    assert len(record["upper"]["value"]) == 3122


def test_bias_free_is_weibels_number() -> None:
    sizes = ("--tokens", 6, "--heads", 3, "--width", 3, "--layers", 1, "--key-width", 2)
    assert answer(*sizes, "--bias-free")["upper"]["value"] == "92"
    assert answer(*sizes)["upper"]["value"] == "216"


def test_every_option_reaches_the_bounds() -> None:
    record = answer(*SMALL, "--feed-forward", 2, "--dimension", 1, "--bias-free")
    assert record["architecture"] == {
        "tokens": 3, "heads": 2, "width": 3, "layers": 2, "feed_forward": 2, "dimension": 1,
        "key_width": 2, "bias_free": True, "parameters": 2 * (4 * 3 * 2 * 2 + 2 * 3 * 2 + 2 + 3),
    }  # fmt: skip
    assert record["upper"]["value"] == record["lower"]["value"] == str(((2 * 2 + 1) * 3) ** 2)
    assert record["sharp"] is True


def test_compare_lists_every_rival() -> None:
    text = run(*ISSUE, "--compare").stdout
    record = answer(*ISSUE, "--compare")["comparison"]
    found = bounds.compare(512, heads=8, width=512, layers=6)
    assert record == json.loads(json.dumps(found.as_dict()))
    for rival in found.rivals:
        a, ends = rival.architecture, rival.bounds
        numbers = [f"{v:,}" for v in (a.heads, a.width, a.feed_forward, a.layers)]
        row = [rival.name, *numbers, ends.lower.scientific, ends.upper.scientific]
        assert re.search(r"^" + r" +".join(map(re.escape, row)) + r"$", text, re.MULTILINE)
    assert "comparison" not in answer(*ISSUE)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("--tokens", 0), "RequestError: tokens must be a whole number >= 1, but it is 0."),
        (("--width", 500), "RequestError: 8 heads do not divide the width 500. "),
        (("--dimension", 513), "RequestError: The query moves in a stream of width 512"),
        (("--dimension", 0), "RequestError: dimension must be a whole number >= 1"),
        (("--key-width", 0), "RequestError: key_width must be a whole number >= 1"),
        (("--feed-forward", -1), "RequestError: feed_forward must be a whole number >= 0"),
        (("--layers", 10**9), "RequestError: This exact number would touch about"),
        (("--compare", "--key-width", 4), "RequestError: --compare splits the width"),
    ],
)
def test_bad_input_is_one_line_and_exit_two(change: tuple[object, ...], sentence: str) -> None:
    result = run(*ISSUE, *change)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(sentence)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [("--tokens", "many"), ("--tokens", 2, "--heads", 1)])
def test_what_is_no_number_or_missing_is_refused_by_name(arguments: tuple[object, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert re.search(
        r"Error: (Invalid value for '--tokens'|Missing option '--width')", result.stderr
    )


def test_help_has_an_example() -> None:
    text = run("--help").stdout
    assert "hardmax bounds --tokens 512 --heads 8 --width 512 --layers 6\n" in text
