"""Hard heads become softmax heads, as warm as the error allows."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real

import numpy as np

from hardmax._errors import RequestError, SemanticsError
from hardmax.analysis import Flow, follow
from hardmax.core import MARGIN, Claim, Construction, Share, Transformer, Witness, with_margin
from hardmax.numerics import Format, format_named
from hardmax.passes._solver import Solver

_JUST_BELOW = 1.0 - 1e-12  # of the budget: the claim, with its margin, is to be below the error
_ROOM = 1.05  # for whoever verifies a row in the middle, adding up in another order


def soften(
    construction: Construction, *, error: float | None, float: str = "float64"
) -> Construction:
    """Replace every hardmax by a softmax so that the total error stays within `error`.

    Let head h have score radius R_h on the domain. At coldness Lambda / R_h no logit exceeds
    Lambda, and every bound on the deviation decreases as a head gets colder; so for a given
    largest logit it is best to let all heads reach it, and the smallest Lambda whose deviation
    fits the error is optimal among all choices of coldness (for the bound at hand). For ReLU
    networks of one or two hidden layers it is Lambda = c sum_h A_h R_h / error, with
    c = `softmax_gap(2)`/2 and A_h the larger of the sums of positive and of negative path weights
    from head h to the output: noises of one head cancel where paths have opposite signs (see
    `Deviation`). In deeper ones the bound is close to that without feed-forward layers; with them
    it grows, because a hidden unit that cuts off what is below 0 forgets where its noise came
    from. Heads whose scores are constants are routing: their coldness comes from their gap alone.

    Softmax means fall short of maxima, never beyond: the deviation is one-sided, and a constant
    added where the target's affine values are stored (where a bias is stored anyway) centres it.
    That halves the coldness and costs no weight unless a bias was 0.

    The claim grows by the deviation of the evaluation in the format `float` from the hard skeleton,
    layer by layer, rounding apart, and by the margin. The witness's errors grow likewise. With
    `error=None` the heads stay hard, and only rounding enters the ledger. Weights stay those of
    the source, bit by bit: in a format that does not hold them their rounding is part of the claim.

    >>> network = hm.ReluNetwork([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])  # |x|
    >>> hard = hm.compile(network, on="[-1,1]", error=None)
    >>> hm.soften(hard, error=1e-2).claim.error <= 1e-2
    True
    """
    error, format = None if error is None else _checked(error), format_named(float)
    if not isinstance(construction, Construction):
        raise RequestError(
            f"A hard model is softened, as hm.compile(network, on=..., error=None) makes it, not "
            f"a {type(construction).__name__}."
        )
    if not construction.transformer.is_hard:
        raise SemanticsError("This construction is soft already; soften its hard skeleton instead.")
    if error is None:
        return _keep_hard(construction, format)
    solver = Solver.of(construction, format)
    budget = error / (1.0 + MARGIN) * _JUST_BELOW - construction.claim.error
    found = solver.solve(budget)
    shares = [*construction.claim.ledger, *found.parts]
    return _with(construction, found.transformer, found.flow, shares, format, error)


def _checked(error: float) -> float:
    """The error as a float: any real number > 0 that float64 can hold."""
    try:
        number = float(error) if isinstance(error, Real) and not isinstance(error, bool) else 0.0
    except OverflowError:
        number = math.inf
    if not 0 < number < math.inf:
        raise RequestError(f"The error must be a number > 0, but it is {_short(error)}.")
    return number


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _keep_hard(construction: Construction, format: Format) -> Construction:
    transformer, claim = construction.transformer, construction.claim
    flow = follow(transformer, claim.domain, skeleton=transformer, format=format)
    shares = [*claim.ledger, Share("rounding", f"{format.name} evaluation", flow.error)]
    return _with(construction, transformer, flow, shares, format)


def _with(
    construction: Construction,
    transformer: Transformer,
    flow: Flow,
    shares: list[Share],
    format: Format,
    asked: float | None = None,
) -> Construction:
    claim = construction.claim
    return Construction(
        transformer,
        Claim(claim.target, claim.domain, with_margin(shares), format=format.name, asked=asked),
        _widened(construction.witness, flow),
        construction.route,
    )


def _widened(witness: Witness | None, flow: Flow) -> Witness | None:
    if witness is None:
        return None
    holdings = []
    for holding in witness.holdings:
        deviation = flow.places[holding.sublayer + 1].deviation.magnitude
        more = deviation[holding.token, holding.coordinates]
        if holding.weights is not None:
            more = np.abs(holding.weights) @ more
        holdings.append(replace(holding, errors=holding.errors + more * _ROOM))
    return Witness(holdings)
