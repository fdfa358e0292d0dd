"""What a notebook shows of each kind of value: whole, light, and without any other host."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.notebook import html_of

BUMP = Path(__file__).resolve().parents[2] / "examples" / "bump.npz"
SQUARE = hm.Polytope([[0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0.5]])
VOID = {"line"}


def rows(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(9, 2))


def things() -> dict[str, object]:
    model = hm.compile("x*y", on="[-1,1]^2", error=1e-2)
    mirror = hm.compile(hm.programs.reverse, alphabet="abc", length=4, route="legible")
    return {
        "construction": model,
        "bill": model.bill,
        "claim": model.claim,
        "certificate": hm.certify(model),
        "legible certificate": hm.certify(mirror),
        "plan": hm.plan("x*y", on="[-1,1]^2", error=1e-2),
        "plan of a program": hm.plan(hm.programs.reverse, alphabet="abc", length=4),
        "diagram": hm.power_diagram(rows(0), on="[-1,1]^2"),
        "diagram without a box": hm.power_diagram(rows(0)),
        "polytope": SQUARE,
        "sum": hm.minkowski_sum([SQUARE, hm.Polytope(rows(1))]),
        "regions": hm.regions(hm.load_network(BUMP), on="[-1,1]^2"),
        "bound": hm.bounds.several_heads(6, 3, dimension=3, bias_free=True),
        "stability": hm.stability_of(rows(0), rows(1), rows(2)),
        "report": hm.stability_of(rows(0), rows(1), rows(2)).report(),
    }


class Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        assert tag in VOID

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


SHOWN = things()


@pytest.mark.parametrize("name", SHOWN)
def test_pages_are_whole_light_and_alone(name: str) -> None:
    page = SHOWN[name]._repr_html_()
    parser = Balanced()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    assert len(page.encode()) < 50_000
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|<script|<style|url\(|@import", page)
    assert not re.search(r'(?:fill|color|stroke)[:=]"?\s*(?:black|white|#000|#fff)', page)


@pytest.mark.parametrize("name", SHOWN)
def test_lines_for_terminals_are_short(name: str) -> None:
    assert len(repr(SHOWN[name])) <= 240
    assert "\n" not in repr(SHOWN[name])


def test_pages_say_what_the_values_say() -> None:
    page = {name: html.unescape(thing._repr_html_()) for name, thing in SHOWN.items()}
    proof, diagram = SHOWN["certificate"], SHOWN["diagram"]
    assert isinstance(proof, hm.Certificate)
    assert isinstance(diagram, hm.PowerDiagram)
    assert "PROVED" in page["certificate"]
    assert all(f"{n:.6g}" in page["certificate"] for n in (proof.measured, proof.certified))
    assert all("<td" in page["bill"] and name in page["bill"] for name in ("padded", "flops"))
    assert all(offer.route in page["plan"] for offer in SHOWN["plan"].offers)  # type: ignore[attr-defined]
    assert f"never win: {', '.join(map(str, diagram.empty))}" in page["diagram"]
    inside = [k for k in diagram.live if len(diagram.cell(int(k)).corners)]
    assert page["diagram"].count("<polygon") == len(inside) > 3
    assert page["diagram without a box"].count("<polygon") == 0
    assert "Every intervention" in page["legible certificate"]


def test_a_page_starts_no_count() -> None:
    network = hm.load_network(BUMP)
    found = hm.regions(network, on="[-1,1]^2")
    assert "not counted yet" in found._repr_html_()
    assert not {"_tally_of_cells", "_tally_of_regions"} & set(vars(found))
    assert found.cells == 232
    assert "232 cells; regions are not counted yet" in found._repr_html_()
    assert found.count == 232
    page = found._repr_html_()
    assert "232 regions, 232 cells" in page
    assert page.count("<polygon") == 232


def test_names_are_text_and_never_marks() -> None:
    evil = hm.programs.parse_program("tokens", name="<script>alert(1)</script>")
    page = hm.plan(evil, alphabet="ab", length=2)._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert html_of("<b>") == "<pre>&lt;b&gt;</pre>"
