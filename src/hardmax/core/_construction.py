"""What crosses the waist: a Transformer with the promise made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._errors import ShapeError
from hardmax.core._batched import evaluate
from hardmax.core._bill import Bill, count_bill, counted
from hardmax.core._claim import Claim
from hardmax.core._domain import Box
from hardmax.core._inputs import SequenceInput, VectorInput
from hardmax.core._legend import Legend
from hardmax.core._reference import reference
from hardmax.core._target import Named
from hardmax.core._transformer import Transformer
from hardmax.core._witness import Witness
from hardmax.core._words import Words


@dataclass(frozen=True, eq=False)
class Construction:
    """A Transformer, the claim made of it, the witness behind the claim, and the route taken.

    The legend, if there is one, says in words what its parts are for.

    >>> model = hm.compile("x * y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2)
    >>> abs(float(model(x=0.5, y=0.5)[0]) - 0.25) <= model.claim.error
    True
    >>> model.route, model.bill.layers
    ('direct', 1)
    """

    transformer: Transformer
    claim: Claim
    witness: Witness | None
    route: str
    legend: Legend | None = None

    def __post_init__(self) -> None:
        target = self.claim.target
        source = self.transformer.input
        if isinstance(self.claim.domain, Words):
            _check_words(self.transformer, self.claim)
        elif isinstance(source, SequenceInput):
            raise ShapeError(
                f"The Transformer reads sequences of symbols, but its claim is about "
                f"{self.claim.domain}: a claim about sequences has Words as its domain."
            )
        elif isinstance(source, VectorInput) and (
            (source.inputs, self.transformer.outputs) != (target.inputs, target.outputs)
            or source.inputs != self.claim.domain.dimension
        ):
            raise ShapeError(
                f"The Transformer maps {source.inputs} reals to {self.transformer.outputs}, but "
                f"its target maps {target.inputs} to {target.outputs} on a domain of dimension "
                f"{self.claim.domain.dimension}."
            )

    @cached_property
    def bill(self) -> Bill:
        """What it costs, counted from the weights."""
        domain = self.claim.domain if isinstance(self.claim.domain, Box) else None
        return count_bill(self.transformer, domain, source_parameters=self.claim.target.parameters)

    def __call__(self, x: Any = None, /, *more: object, **variables: Any) -> Any:
        """The outputs at x: one vector, or a batch with one row per input.

        Inputs can also be named, x=0.3, y=0.5 (x0, x1, ... for a network). Floats go through the
        batched evaluator; Fractions are evaluated exactly, which needs hard heads. A model of
        sequences takes a text, a list of symbols, or a list of sequences; where its target can
        decode numbers, it answers with items.
        """
        if isinstance(self.transformer.input, SequenceInput):
            if x is None or more or variables:
                raise ShapeError("Give a sequence of symbols, or a list of sequences.")
            answer = evaluate(self.transformer, x)
            decode = getattr(self.claim.target, "decode", None)
            return answer if decode is None else self._decoded(answer, decode)
        if more:
            raise ShapeError(
                f"Give the inputs as one list, model([{', '.join(self.names[:8])}]), or by their "
                f"names, but {1 + len(more)} arguments came one by one."
            )
        if x is None or variables:
            x = self._named(x, variables)
        array = np.asarray(x)
        if array.dtype == object and any(isinstance(v, Fraction) for v in array.flat):
            if array.ndim != 1:
                raise ShapeError("Exact evaluation takes one vector of Fractions at a time.")
            return np.array(reference(self.transformer, array, Fraction), dtype=object)
        return evaluate(self.transformer, x)

    def _decoded(self, answer: Any, decode: Callable[[Any], Any]) -> Any:
        """The items of one sequence, or of each in a list."""
        if isinstance(answer, list):
            return [self._decoded(one, decode) for one in answer]
        return decode(answer if answer.ndim == 2 else answer[None])

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs' names: a function's variables, x0, x1, ... otherwise."""
        target = self.claim.target
        if isinstance(target, Named):
            return target.variables
        return tuple(f"x{i}" for i in range(target.inputs))

    def _named(self, x: object, variables: dict[str, Any]) -> np.ndarray:
        names = self.names
        if x is not None or set(variables) != set(names):
            wanted = ", ".join(names) if len(names) <= 8 else f"{names[0]} to {names[-1]}"
            raise ShapeError(f"Give the inputs as one array, or by their names {wanted}.")
        return np.stack(np.broadcast_arrays(*[variables[name] for name in names]), axis=-1)

    def __repr__(self) -> str:
        return (
            f"Construction({self.route}: {counted(self.bill.layers, 'layer')}, "
            f"{counted(self.bill.heads, 'head')}, width {self.bill.width}; "
            f"error <= {self.claim.error:.6g} on {self.claim.domain})"
        )


def _check_words(transformer: Transformer, claim: Claim) -> None:
    """The words must be readable, and the read-out must answer as the target does."""
    source, readout = transformer.input, transformer.readout
    words, target = claim.domain, claim.target
    if not isinstance(source, SequenceInput):
        raise ShapeError(f"The claim is about {words}, but the Transformer reads no sequences.")
    foreign = [symbol for symbol in words.alphabet if symbol not in source.alphabet]
    if foreign or words.longest > source.longest:
        raise ShapeError(
            f"The Transformer reads up to {source.longest} of {list(source.alphabet)}, but its "
            f"claim is about {words}."
        )
    each = readout.token is None
    if (each, readout.outputs) != (target.each_symbol, target.outputs):
        raise ShapeError(
            f"The Transformer answers {readout.outputs} numbers {_per(each)}, but its target "
            f"{target.outputs} {_per(target.each_symbol)}."
        )
    tokens = words.shortest + (source.start is not None)
    if readout.token is not None and not -tokens <= readout.token < tokens:
        raise ShapeError(
            f"The read-out reads token {readout.token}, which the shortest words do not have."
        )


def _per(each_symbol: bool) -> str:
    return "per symbol" if each_symbol else "per word"
