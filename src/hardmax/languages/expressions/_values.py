"""What expressions are worth: one walk over the nodes, one table of operations per arithmetic.

"float"     NumPy arrays or numbers; outside the domain of definition nan or infinities
"interval"  `Interval`, outward rounded
"fraction"  Fractions or object arrays of them, where every operation is rational
"ball"      python-flint's `arb`, and `arb_series`: Taylor expansions for free
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hardmax._errors import DomainError, RequestError
from hardmax.languages.expressions._arithmetic import Arithmetic, floats, fractions, intervals
from hardmax.languages.expressions._balls import balls
from hardmax.languages.expressions._expression import Apply, Expression, Number, Variable, postorder

ARITHMETICS: dict[str, Callable[[], Arithmetic]] = {
    "float": floats,
    "interval": intervals,
    "fraction": fractions,
    "ball": balls,
}


def evaluate(expression: Expression, values: Mapping[str, Any], arithmetic: str = "float") -> Any:
    """The value where each variable has the value of its name; shared parts are computed once."""
    return evaluate_all([expression], values, arithmetic)[expression]


def evaluate_all(
    expressions: Sequence[Expression], values: Mapping[str, Any], arithmetic: str = "float"
) -> dict[Expression, Any]:
    """The values of the expressions and of everything inside them."""
    if arithmetic not in ARITHMETICS:
        raise RequestError(
            f"There is no arithmetic {arithmetic!r}; there are {', '.join(ARITHMETICS)}."
        )
    rules = ARITHMETICS[arithmetic]()
    given = {name: rules.given(value) for name, value in values.items()}
    known: dict[Expression, Any] = {}
    with np.errstate(all="ignore"):
        for node in postorder(*expressions):
            known[node] = _value(node, known, given, rules)
    return known


def _value(
    node: Expression, known: Mapping[Expression, Any], given: Mapping[str, Any], rules: Arithmetic
) -> Any:
    match node:
        case Variable(name):
            if name not in given:
                raise RequestError(f"The variable {name} has no value; give one.")
            return given[name]
        case Number(value):
            return rules.number(value)
        case Apply(operation, arguments, exponent):
            operands = [known[a] for a in arguments]
            if operation == "power":
                operands.append(exponent)
            try:
                return rules.operations[operation](*operands)
            except ZeroDivisionError:
                raise DomainError(f"{node} divides by 0 at this point; choose another.") from None
    raise AssertionError(node)
