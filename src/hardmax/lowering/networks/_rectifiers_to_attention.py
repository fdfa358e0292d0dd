"""A piecewise linear network: attention for the maxima, feed-forward layers for affine maps."""

from __future__ import annotations

from hardmax.core import Box, Steps, Transformer, Witness
from hardmax.lowering.gadgets import rectifier_head
from hardmax.lowering.networks._rectifier_stream import Addend, RectifierStream
from hardmax.lowering.networks._rectifiers import Held, Rectified
from hardmax.lowering.networks._steps_to_rectifiers import rectifier_form
from hardmax.lowering.sketch import PromptHead, UnitSketch, single


def rectifiers_to_attention(steps: Steps, domain: Box) -> tuple[Transformer, Witness]:
    """Attention turns z into max(z, 0) in place; the feed-forward layer is affine on what results.

    A head that reads -z and adds relu(-z) to the slot of z leaves z + relu(-z) = relu(z) there,
    so no second slot is needed. The feed-forward layer then reads h = relu(z) >= 0, on which its
    own ReLU is the identity, and adds W h to the slots of all units that read it, which hold the
    bias. On the sink h = 0 and nothing is added. Units that are never negative need no head.

    Some addends are heads with the weights in their output columns instead, as in the
    attention-only route: those that only the read-out's units want (no affine layer follows, and
    two weights a neuron are saved), those that a maximum wants, which are copied or compared,
    units whose slot must stay as it is, and units of either sign that are read as they are.

    Exact in the hard semantics on the whole domain. Nonzero weights of a ReLU network: its own,
    5 per switching neuron (1 per passing one), 3 in the last hidden layer.
    """
    form = rectifier_form(steps, domain)
    stream = RectifierStream(form)
    holdings = stream.holdings(0)
    for level in range(form.depth):
        addends = stream.addends(level)
        fed = {a: unit for a in addends if (unit := _unit_fed_forward(stream, a)) is not None}
        switching = [fed[a] for a in fed if isinstance(a.term, Rectified)]
        heads = [_in_place(stream, unit) for unit in dict.fromkeys(switching)]
        stream.sketch.attend(heads + stream.heads(a for a in addends if a not in fed))
        holdings += stream.holdings(level, rectified=fed.values())
        stream.sketch.feed(
            [UnitSketch("", single(stream.held[unit]), a.column) for a, unit in fed.items()]
        )
        holdings += stream.holdings(level + 1)
    return stream.transformer(), Witness(holdings)


def _unit_fed_forward(stream: RectifierStream, addend: Addend) -> int | None:
    """The unit whose slot the feed-forward layer can read, rectified in place; None if none can."""
    form, term = stream.form, addend.term
    unit = term.unit if isinstance(term, Held) else term.alone
    affine, last_read = form.are_affine_steps[addend.readers], form.last_read[addend.readers]
    if not affine.all() or (last_read < 0).all():
        return None
    if unit is None or form.continued[unit]:
        return None
    if isinstance(term, Held):
        return unit if form.nonnegative[unit] else None
    return unit if form.is_free_after(unit, form.level_of(term)) else None


def _in_place(stream: RectifierStream, unit: int) -> PromptHead:
    register = stream.held[unit]
    return rectifier_head(single(register, -1.0), {register: 1.0}, flag=stream.flag)
