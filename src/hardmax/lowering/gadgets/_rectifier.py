"""One ReLU is one head over {itself, a sink}."""

from __future__ import annotations

from hardmax.core import Hardmax
from hardmax.lowering.gadgets._site import Approximation, Site
from hardmax.lowering.sketch import (
    BoxForm,
    Column,
    HeadSketch,
    PromptForm,
    PromptHead,
    PromptRegister,
    single,
)
from hardmax.numerics import inflate, short_above, softmax_gap


def rectifier_head(read: PromptForm, write: Column, *, flag: PromptRegister) -> PromptHead:
    """Add max(z, 0) times the column `write` to the data token, where z is the form `read`.

    The prompt is (sink, data) and the head is causal. `flag` holds -1/2 on the sink and +1/2 on
    the data token, so that the data token scores itself z/2 and the sink -z/2. Its own value is
    z; the sink's is 0, because every register in `read` is 0 there. If z > 0 it takes z, if
    z < 0 it takes 0, and at a tie both are 0: the hard head is exactly relu(z). The sink sees
    only itself, takes 0, and so stays as it is.

    With a softmax of coldness beta the weight on itself is sigmoid(beta z), and
    0 <= relu(z) - z sigmoid(beta z) <= W(1/e)/beta = 0.27846.../beta, attained at
    |z| = (1 + W(1/e))/beta: this is `softmax_gap(2)`. The scores are split evenly between the two
    tokens, so the largest logit is beta |z| / 2.

    One head of key width 1; twice the weights of `read`, one, and the column itself. No head can
    do with less than one weight in each of query, key and value.
    """
    return HeadSketch("", [read], [single(flag)], [read], [write], Hardmax(), causal=True)


def relu_by_gate(site: Site, form: BoxForm, error: float) -> Approximation:
    """max(z, 0) as z sigmoid(b z): short by at most W(1/e)/b = 0.2784.../b, and centred.

    The shortfall is one-sided, so half of it added to the result halves the error, and the
    coldness is 0.1392.../error. One head; see `rectifier_head` for the proof.
    """
    coldness = float(short_above(softmax_gap(2) / (2 * error)))
    short = softmax_gap(2) / coldness
    maker = site.sketch.gate(form, form, coldness=coldness, node=site.node, gain=1.0)
    return Approximation(site.sketch.written(maker) + short / 2, inflate(short / 2, 4))


def relu_by_unit(site: Site, form: BoxForm, error: float) -> Approximation:
    """max(z, 0) exactly, by one hidden unit; the error is for those that are not exact."""
    maker = site.sketch.unit(form, node=site.node, gain=1.0)
    return Approximation(site.sketch.written(maker), 0.0)
