"""A head whose winners lead by a gap: the mean over them, or what they agree on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.core import Softmax
from hardmax.lowering.sketch import EXCLUDED, Placed, WordForm, WordHead, WordSketch, attention_from


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of a selection, as forms: queries here, keys there, and the gap they guarantee.

    The start token, whose score is 0, loses against what is selected; or it wins where nothing is
    ("default"); or it "ties" with what is selected.
    """

    query: list[WordForm]
    key: list[WordForm]
    ready: int
    gap: float


def uniform_scores() -> Scores:
    """Everybody wins; see `spare_start` for the start token, if there will be one."""
    return Scores([], [], 0, 1.0)


def hard_head(
    sketch: WordSketch,
    step: str,
    scores: Scores,
    value: Placed,
    *,
    causal: bool = False,
    mask: np.ndarray | None = None,
    default: float = 0.0,
    agree: bool = False,
    name: str = "",
) -> Placed:
    """The mean of a value over the places that win; `default` is the start token's.

    Where all that win hold the same, they `agree`. A coldness of (leak + ln n)/gap leaves all
    losers together less than e^-leak of the weight. What a mask excludes trails by more than all
    scores. Heads that attend alike are one head, with a value row each. The register goes by the
    `name`, or by the step.
    """
    if causal or mask is not None:
        sketch.check_order(step)
    sublayer = attention_from(max(scores.ready, value.ready))
    row = sketch.linear(value.form + -default)
    register = sketch.register(name or step, row.bound)
    register.beyond = row.widest
    bias = None
    if mask is not None:
        reach = sum(q.bound * k.bound for q, k in zip(scores.query, scores.key, strict=True))
        bias = np.where(mask, 0.0, -2.0 * reach - EXCLUDED)
    is_scored = bool(scores.query) or bias is not None
    head = WordHead(
        step,
        scores.query,
        scores.key,
        [row],
        [{register: 1.0}],
        sketch.coldness(scores.gap) if is_scored else Softmax(1.0),
        causal,
        bias,
        "choice" if agree else "mean",
        scores.gap,
        [register.name],
    )
    same = _twin(sketch, sublayer, head)
    if same is not None:
        same.join(head)
    else:
        sketch.head(sublayer, head)
    return Placed(WordForm({register: 1.0}, default), sublayer + 1, False)


def _twin(sketch: WordSketch, sublayer: int, head: WordHead) -> WordHead | None:
    """A head of the layer that attends alike: it can bring another value."""
    for other in sketch.layers.heads.get(sublayer, []):
        alike = [f.key for f in (*other.query, *other.key)] == [
            f.key for f in (*head.query, *head.key)
        ]
        if (
            alike
            and len(other.query) == len(head.query)
            and other.causal == head.causal
            and other.weighting == head.weighting
            and other.bias is None
            and head.bias is None
        ):
            return other
    return None


def spare_start(sketch: WordSketch) -> None:
    """Heads without scores, too, leave out the start token that other steps brought."""
    token = sketch.token
    for head in sketch.layers.all_heads:
        if not head.query:
            head.query, head.key, head.gap = [token], [token], 1.0
            head.weighting = sketch.coldness(1.0)
