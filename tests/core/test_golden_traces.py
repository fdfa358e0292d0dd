"""Traces as people read them, word for word: reverse, sort, histogram and Dyck, on both routes.

`python tests/core/test_golden_traces.py` writes them anew, to be read before they are kept.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import hardmax as hm

P = hm.programs
PLACE = Path(__file__).resolve().parents[1] / "data" / "traces"
SORT = """
before = there(index) < index
rank = ((there(tokens) < tokens) | ((there(tokens) == tokens) & before)).count()
(there(rank) == index).only(tokens)
"""
CASES = {
    "reverse": (P.parse_program("back = length - 1 - index; tokens.at(back)"), "abcd", 5, "abca"),
    "sort": (P.sort, "abcde", 5, "cabea"),
    "sort_by_rank": (P.parse_program(SORT), "abcde", 5, "cabea"),
    "histogram": (P.histogram, "abc", 5, "abca"),
    "dyck": (P.dyck(), "()", 6, "(())()"),
}
ROUTES = {"compact": None, "legible": "legible"}
EACH = [(name, route) for name in CASES for route in ROUTES]


def told(name: str, route: str) -> str:
    program, alphabet, length, word = CASES[name]
    model = hm.compile(program, alphabet=alphabet, length=length, route=ROUTES[route])
    return hm.trace(model, word).in_words + "\n"


@pytest.mark.parametrize(("name", "route"), EACH)
def test_golden_traces(name: str, route: str) -> None:
    assert told(name, route) == (PLACE / f"{name}_{route}.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    for case in EACH:
        (PLACE / "{}_{}.txt".format(*case)).write_text(told(*case), encoding="utf-8")
