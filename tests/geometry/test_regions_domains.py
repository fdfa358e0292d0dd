"""Segments and slices check themselves."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from hardmax import Box, DomainError
from hardmax.geometry.counting._domains import Segment, Slice


def test_a_slice_turns_its_corners_around():
    corners = [(0, 0), (0, 1), (Fraction(1, 3), 0)]
    found = Slice([0.0, 0.0, 1.0], [[1, 0, 0], [0, 2, 0]], corners)
    assert found.exact_polygon == tuple(reversed(corners))
    assert found.at(Fraction(1, 3), Fraction(1, 2)) == (Fraction(1, 3), 1, 1)
    square = Slice([0.0, 0.0], [[1.0, 0.0], [1.0, 1.0]], Box([0, 0], [1, 2]))
    assert square.polygon.tolist() == [[0, 0], [1, 0], [1, 2], [0, 2]]
    assert Slice([0, 0], [[1, 0], [0, 1]], "[0,1]^2").dimension == 2


TRIANGLE = [(0, 0), (1, 0), (0, 1)]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Segment([1.0, 2.0], [1.0, 2.0]), "two different ends"),
        (lambda: Segment([1.0, 2.0], [1.0]), "the lengths are"),
        (lambda: Segment([1.0, math.nan], [1.0, 0.0]), "finite numbers"),
        (lambda: Segment(["a"], ["b"]), "finite numbers"),
        (lambda: Slice([0, 0], [[1, 0]], TRIANGLE), "two directions"),
        (lambda: Slice([0, 0], [[1.0, 3.0], [0.1, 0.3]], TRIANGLE), None),
        (lambda: Slice([0, 0], [[1, 3], [Fraction(1, 10), Fraction(3, 10)]], TRIANGLE), "span"),
        (lambda: Slice([0, 0], [[0, 0], [1, 0]], TRIANGLE), "span"),
        (lambda: Slice([0, 0], [[1, 0], [0, 1]], TRIANGLE[:2]), "three corners"),
        (lambda: Slice([0, 0], [[1, 0], [0, 1]], [*TRIANGLE, (0.5, 0.5)]), "strictly convex"),
        (lambda: Slice([0, 0], [[1, 0], [0, 1]], [(0, 0), (1, 1), (1, 0), (0, 1)]), "convex"),
        (lambda: Slice([0, 0], [[1, 0], [0, 1]], Box([0, 0], [1, 0])), "strictly convex"),
        (lambda: Slice([0, 0], [[1, 0], [0, 1]], Box([0], [1])), "two coordinates"),
    ],
)
def test_domains_check_themselves(make, sentence):
    """0.1 and 0.3 are floats, of which the second is not three times the first: independent."""
    if sentence is None:
        assert make().dimension == 2
        return
    with pytest.raises(DomainError, match=sentence):
        make()


def test_a_pentagram_is_not_convex():
    """Every corner turns left, but twice around."""
    angles = 4 * np.pi * np.arange(5) / 5
    star = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    with pytest.raises(DomainError, match="strictly convex"):
        Slice([0, 0], [[1, 0], [0, 1]], star)
