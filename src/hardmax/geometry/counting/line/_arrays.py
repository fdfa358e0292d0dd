"""What the compiled layer reads and writes: lines, what changes along them, and where."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Lines(NamedTuple):
    """Points of many lines, one line behind another; bounds[j] is the first point of line j."""

    points: np.ndarray
    error: np.ndarray
    origin: np.ndarray  # the layer and the unit that made each point, -1 for ends
    bounds: np.ndarray


class Changes(NamedTuple):
    """New points of one layer, each at a share of the way from an old point to the next.

    Behind old point k are `first[k]` to `first[k + 1] - 1` of them, in order.
    """

    shares: np.ndarray
    widths: np.ndarray  # how far each share may be off
    units: np.ndarray
    first: np.ndarray
    doubts: np.ndarray  # of each line


class Places(NamedTuple):
    """Where points lie among older ones: at `source`, or at a share of the way from there on."""

    source: np.ndarray
    share: np.ndarray  # -1 for the older point itself


class NewPoints(NamedTuple):
    """Room for new points."""

    shares: np.ndarray
    widths: np.ndarray
    units: np.ndarray


class Stretch(NamedTuple):
    """The way from one point to the next: the rows at both, off by at most error * scale."""

    here: np.ndarray
    there: np.ndarray
    error: float
    error_there: float
    scale: np.ndarray
