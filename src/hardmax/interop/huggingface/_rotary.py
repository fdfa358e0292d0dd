"""Whether rotary positions may stay on: a forward pass that has them, on samples."""

from __future__ import annotations

import numpy as np

from hardmax.core import Attention, Box, Construction, Head, Rotary, Sublayer, Transformer
from hardmax.core import streams as plain_streams
from hardmax.interop.huggingface._prepare import SHARE, embedded_samples
from hardmax.numerics import FLOAT32

OFF = 1e30  # the factor by which positions are divided to switch them off
_LOSS = 2.0**-4  # of a logit: far below the gaps that programs leave between their scores
_UNITS = 42  # roundings of a product that is turned
_NEAR = 64.0  # scores further below the best one have weights below e^-64
_IS_OFF = 1e25  # from here on: angles below 1e-19 at 10^6 tokens, whose cosine is 1 in any format


def rotary_fits(construction: Construction, rotary: Rotary) -> bool:
    """Whether rotary positions change too little, on samples, to stand in a proof's way.

    Plane i turns by a_i = theta^(-i/planes) per token, so that a product q k in a score loses
    |q k| (1 - cos((t - s) a_i)), at most |q k| ((t - s) a_i)^2/2, and some units of |q k|. Answers
    may move by a small share of the error claimed, and no score that is near the best one may lose
    more than _LOSS; of real inputs, whose answers follow their scores, no more than a share.
    """
    transformer, claim = construction.transformer, construction.claim
    allowed = min(_LOSS, _LOSS * claim.error) if isinstance(claim.domain, Box) else _LOSS
    for batch in embedded_samples(construction):
        *_, last = plain_streams(transformer, batch)
        turned, lost = _turned_stream(construction, rotary, batch)
        moved = np.abs((turned - last) @ transformer.readout.weights.T).max(initial=0.0)
        if lost > allowed or moved > SHARE * claim.error:
            return False
    return True


def is_off(factor: float) -> bool:
    """Whether a linear factor leaves nothing of rotary positions.

    Angles are then below 1e-19 for a million tokens: their cosines are 1 in every format, and what
    their sines move into the other half of a plane is below 1e-19 of a query and of a key.
    """
    return factor >= _IS_OFF


def _turned_stream(
    construction: Construction, rotary: Rotary, stream: np.ndarray
) -> tuple[np.ndarray, float]:
    """The last stream with rotary positions, and the most that a score near the best one lost."""
    transformer, lost = construction.transformer, 0.0
    for sublayer in transformer.sublayers:
        if not isinstance(sublayer, Attention):
            stream = _fed(sublayer, transformer, stream)
            continue
        change = np.zeros_like(stream)
        for head in sublayer.heads:
            weights, loss = _turned_weights(head, rotary, stream)
            change += weights @ (stream @ head.value.T) @ head.output.T
            lost = max(lost, loss)
        stream = stream + change
    return stream, lost


def _turned_weights(head: Head, rotary: Rotary, stream: np.ndarray) -> tuple[np.ndarray, float]:
    """A causal head's weights with rotary positions, and what scores near the best one lost."""
    place = np.arange(stream.shape[1])
    apart = place[:, None] - place
    planes = rotary.first + np.arange(head.key_width)
    turned = np.cos(apart[..., None] * rotary.theta ** (-planes / rotary.planes))
    query, key = head.coldness * stream @ head.query.T, stream @ head.key.T
    products = query[:, :, None] * key[:, None]  # batch x asking x asked x coordinates
    scores = np.where(apart >= 0, (products * turned).sum(axis=-1), -np.inf)
    below = scores - scores.max(axis=-1, keepdims=True)
    losses = (np.abs(products) * (1.0 - turned + _UNITS * FLOAT32.unit)).sum(axis=-1)
    powers = np.exp(below)
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return weights, float(losses[below > -_NEAR].max(initial=0.0))


def _fed(sublayer: Sublayer, transformer: Transformer, stream: np.ndarray) -> np.ndarray:
    """The stream after a sublayer without heads."""
    *_, last = plain_streams(
        Transformer(transformer.input, [sublayer], transformer.readout), stream
    )
    return last
