"""A piecewise linear network as attention alone: no feed-forward layer anywhere."""

from __future__ import annotations

from hardmax.core import Box, Holding, Steps, Transformer, Witness
from hardmax.lowering.networks._rectifier_stream import RectifierStream
from hardmax.lowering.networks._rectifiers import RectifierForm
from hardmax.lowering.networks._rectifiers_to_pair import PairStream, is_chain
from hardmax.lowering.networks._steps_to_rectifiers import rectifier_form

_SMALL = 5_000  # parameters: whose size hardly matters, and who fits architectures without biases


def rectifiers_to_attention_only(steps: Steps, domain: Box) -> tuple[Transformer, Witness]:
    """One head per rectifier, one attention layer per level.

    The prompt is (sink, data), all heads are causal. The data token starts with what the inputs
    give each unit, and with all biases, each in a slot of its own. The head of a rectifier
    (`rectifier_head`) computes relu(z), and its output column holds the weights of *all* units
    that read it, so that layer l as a whole completes the units of level l + 1: the next
    pre-activations of a ReLU network, and the far end of every skip connection. Units that are
    read as they are, those that never switch among them, share one `averaging_head` per layer.

    A maximum of k units is a tournament: one head turns the slot of a into a + relu(b - a), in
    place if nobody reads a later; pairs are independent, so ceil(log2 k) layers and k - 1 heads
    leave the maximum in one slot. Differences are taken between slots, never between weights.

    Exact in the hard semantics for every point of the domain: weights are copied or doubled,
    never added. Nonzero weights of a ReLU network: its own, 3 per switching and 1 per passing
    neuron, 2 flags and one read-out weight per output; 6 per head of a tournament.

    Every unit has a slot of its own for good, so that the dense size of a chain of L layers grows
    with L^2. Where that is at least twice as much, and not small, a chain is drawn on two data
    tokens, whose slots are used again (`PairStream`): about 4 times the network's own size at any
    depth.

    Soft error of a tournament: max is 1-Lipschitz in the largest deviation, so each round adds
    `softmax_gap(2)`/beta, ceil(log2 k) times in all, and not once for every head.
    """
    form = rectifier_form(steps, domain)
    stream, holdings = _in_own_slots(form)
    dense = stream.sketch.attention_parameters
    if dense > _SMALL and is_chain(form):
        pair = PairStream(form, domain)
        if 2 * pair.sketch.attention_parameters <= dense:
            return pair.transformer(), Witness(pair.holdings)
    return stream.transformer(), Witness(holdings)


def rectifiers_in_own_slots(steps: Steps, domain: Box) -> tuple[Transformer, Witness]:
    """The same, where no slot is used again whatever the dense size: for coarse formats.

    What clears a slot leaves the rounding of what it takes away, which a coarse format makes large.
    """
    stream, holdings = _in_own_slots(rectifier_form(steps, domain))
    return stream.transformer(), Witness(holdings)


def _in_own_slots(form: RectifierForm) -> tuple[RectifierStream, list[Holding]]:
    stream = RectifierStream(form)
    holdings = stream.holdings(0)
    for level in range(form.depth):
        stream.sketch.attend(stream.heads(stream.addends(level)))
        holdings += stream.holdings(level + 1)
    return stream, holdings
