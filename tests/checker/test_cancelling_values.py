"""Values of a head that cancel on the way out: what a mean rounds of them does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hardmax as hm
from hardmax.core import evaluate


def cancelling(model: hm.Construction, size: float) -> hm.Construction:
    """Three more values whose terms add up to 0 at every token: A, B, and -(A + B)."""
    transformer, circuit = model.transformer, model.circuit
    (head,) = transformer.heads
    (read,) = dict(circuit.nodes[2].reads)["v"]
    own, other = np.zeros((2, transformer.width))
    own[circuit.blocks[read].first] = size
    other[circuit.one], other[circuit.start] = 3.0 * size, -3.0 * size
    output = np.zeros((transformer.width, 4))
    output[circuit.blocks[circuit.nodes[2].writes[0]].first] = (1.0, 1.0, 1.0, -1.0)
    value = np.vstack([head.value, own, other, own + other])
    layer = hm.Attention([replace(head, value=value, output=output)])
    return replace(
        model, transformer=hm.Transformer(transformer.input, [layer], transformer.readout)
    )


@pytest.mark.parametrize("power", [10, 30, 49])
def test_means_of_values_that_cancel(power):
    """Shares such as 1/9 are rounded times the values, by up to 2^-53 of them."""
    program = hm.programs.fraction_so_far("a")
    model = hm.compile(program, alphabet="ab", length=9, route="legible")
    found = cancelling(model, 2.0**power)
    certificate = hm.certify(found)
    word = "abaababba"
    wanted = np.array([[float(one) for one in row] for row in model.claim.target(word)])
    off = np.abs(evaluate(found.transformer, word) - wanted).max()
    assert off <= certificate.formats["float64"]
    assert (certificate.verdict is hm.Verdict.PROVED) == (power < 40)


def test_means_of_values_that_cancel_in_32_bits():
    """There leaks are far smaller than what the mean rounds of values that are added up again."""
    model = hm.compile(hm.programs.fraction_so_far("a"), alphabet="ab", length=9, route="legible")
    certificate = hm.certify(cancelling(model, 16.0))
    own = np.array([letter == "a" for letter in "abababa"], dtype=np.float32)
    three = np.full(7, 48.0, dtype=np.float32)
    share = np.float32(1) / np.float32(7)
    means = [(share * v).cumsum()[-1] for v in (own, 16 * own, three, 16 * own + three)]
    found = means[0] + means[1] + means[2] - means[3]
    assert found.dtype == np.float32
    assert 5e-6 <= abs(float(found) - 4 / 7) <= certificate.formats["float32"]
