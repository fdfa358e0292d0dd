"""Equality of whole numbers is a head of key width 2."""

from __future__ import annotations

from hardmax.lowering.gadgets._hard_head import Scores
from hardmax.lowering.sketch import Placed, WordSketch


def equality_scores(sketch: WordSketch, there: Placed, squared: Placed, here: Placed) -> Scores:
    """Parabola routing: keys k = q win, for whole numbers k, q with k >= 1.

    Key (k, -k^2) and query (2 q, 1) score q^2 - (k - q)^2, so the keys equal to q win with gap 1.
    The start token's registers are 0, and so is its score: it loses against every match, and wins
    where q <= 0.
    """
    query = [here.form * 2.0, sketch.token]
    key = [there.form, squared.form * -1.0]
    return Scores(query, key, max(there.ready, squared.ready, here.ready), 1.0)


def against_start(sketch: WordSketch, scores: Scores, level: Placed, gap: float) -> Scores:
    """A third row, key -1, takes a level off the symbols' scores.

    With q^2 - 1/2 the start token wins where nothing matches (gap 1/2). With q^2 it ties with the
    matches, so that w matches together have the share w/(1 + w): a count.
    """
    sketch.needs_start = True
    less = sketch.token * -1.0
    ready = max(scores.ready, level.ready)
    return Scores([*scores.query, level.form], [*scores.key, less], ready, gap)
