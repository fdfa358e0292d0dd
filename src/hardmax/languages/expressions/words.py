"""The words for writing expressions in Python: variables, functions, and compositions of them.

Everything in `__all__` is a word of `hardmax`, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from hardmax._errors import RequestError
from hardmax.languages.expressions._expression import (
    Apply,
    Expression,
    Number,
    Operand,
    Variable,
    add,
    as_expression,
    divide,
    exact_number,
    function,
    multiply,
    power,
)
from hardmax.numerics import above_float

__all__ = [
    "atan",
    "clip",
    "cos",
    "cosh",
    "erf",
    "exp",
    "expm1",
    "gelu",
    "log",
    "log1p",
    "maximum",
    "minimum",
    "mish",
    "norm",
    "relu",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "softmax",
    "softplus",
    "sqrt",
    "tan",
    "tanh",
    "variable",
    "variables",
]


def variable(name: str) -> Variable:
    """The variable of that name; the same name is the same variable.

    >>> hm.Function(hm.variable("x") ** 2)(x=3.0)
    array([9.])
    """
    return Variable(name)


def variables(names: str) -> tuple[Variable, ...]:
    """Several at once: x, y = variables("x y").

    >>> x, y = hm.variables("x y")
    >>> hm.Function(x * y)(x=2.0, y=3.0)
    array([6.])
    """
    if not isinstance(names, str):
        raise RequestError('Give the names as one text, as in variables("x y z").')
    return tuple(Variable(name) for name in names.replace(",", " ").split())


def exp(x: Operand) -> Expression:
    """e**x.

    >>> hm.Function(hm.exp(hm.variable("x")))(x=0.0)
    array([1.])
    """
    return function("exp", x)


def log(x: Operand) -> Expression:
    """The natural logarithm, for x > 0.

    >>> hm.Function(hm.log(hm.variable("x")))(x=1.0)
    array([0.])
    """
    return function("log", x)


def sqrt(x: Operand) -> Expression:
    """The square root, for x >= 0.

    >>> hm.Function(hm.sqrt(hm.variable("x")))(x=4.0)
    array([2.])
    """
    return function("sqrt", x)


def sin(x: Operand) -> Expression:
    """The sine of x radians.

    >>> hm.Function(hm.sin(hm.variable("x")))(x=0.0)
    array([0.])
    """
    return function("sin", x)


def cos(x: Operand) -> Expression:
    """The cosine of x radians.

    >>> hm.Function(hm.cos(hm.variable("x")))(x=0.0)
    array([1.])
    """
    return function("cos", x)


def tan(x: Operand) -> Expression:
    """The tangent of x radians, away from odd multiples of pi/2.

    >>> hm.Function(hm.tan(hm.variable("x")))(x=0.0)
    array([0.])
    """
    return function("tan", x)


def tanh(x: Operand) -> Expression:
    """The hyperbolic tangent.

    >>> hm.Function(hm.tanh(hm.variable("x")))(x=0.0)
    array([0.])
    """
    return function("tanh", x)


def sigmoid(x: Operand) -> Expression:
    """1/(1 + exp(-x)).

    >>> hm.Function(hm.sigmoid(hm.variable("x")))(x=0.0)
    array([0.5])
    """
    return function("sigmoid", x)


def relu(x: Operand) -> Expression:
    """max(x, 0).

    >>> hm.Function(hm.relu(hm.variable("x")))(x=-1.0)
    array([0.])
    """
    return function("relu", x)


def expm1(x: Operand) -> Expression:
    """exp(x) - 1, without cancellation near 0.

    >>> hm.Function(hm.expm1(hm.variable("x")))(x=0.0)
    array([0.])
    """
    return function("expm1", x)


def log1p(x: Operand) -> Expression:
    """log(1 + x), without cancellation near 0, for x > -1.

    >>> hm.Function(hm.log1p(hm.variable("x")))(x=0.0)
    array([0.])
    """
    return function("log1p", x)


def sinh(x: Operand) -> Expression:
    """The hyperbolic sine, (exp(x) - exp(-x))/2.

    >>> hm.Function(hm.sinh(hm.variable("x")))(x=0.0)
    array([0.])
    """
    return function("sinh", x)


def cosh(x: Operand) -> Expression:
    """The hyperbolic cosine, (exp(x) + exp(-x))/2.

    >>> hm.Function(hm.cosh(hm.variable("x")))(x=0.0)
    array([1.])
    """
    return function("cosh", x)


def atan(x: Operand) -> Expression:
    """The angle in (-pi/2, pi/2) whose tangent is x.

    >>> hm.Function(hm.atan(hm.variable("x")))(x=0.0)
    array([0.])
    """
    return function("atan", x)


def erf(x: Operand) -> Expression:
    """The error function, 2/sqrt(pi) times the integral of exp(-t**2) from 0 to x.

    >>> hm.Function(hm.erf(hm.variable("x")))(x=0.0)
    array([0.])
    """
    return function("erf", x)


def softplus(x: Operand) -> Expression:
    """log(1 + exp(x)), a smooth relu.

    >>> hm.Function(hm.softplus(hm.variable("x")))(x=0.0)
    array([0.69314718])
    """
    return function("softplus", x)


def gelu(x: Operand) -> Expression:
    """x times the distribution function of the normal law, x*(1 + erf(x/sqrt(2)))/2.

    >>> hm.Function(hm.gelu(hm.variable("x")))(x=0.0)
    array([0.])
    """
    return function("gelu", x)


def silu(x: Operand) -> Expression:
    """x*sigmoid(x).

    >>> hm.Function(hm.silu(hm.variable("x")))(x=0.0)
    array([0.])
    """
    return function("silu", x)


def mish(x: Operand) -> Expression:
    """x*tanh(softplus(x)).

    >>> hm.Function(hm.mish(hm.variable("x")))(x=0.0)
    array([0.])
    """
    return function("mish", x)


def minimum(*arguments: Operand) -> Expression:
    """The smallest of one or more.

    >>> x, y = hm.variables("x y")
    >>> hm.Function(hm.minimum(x, y))(x=2.0, y=3.0)
    array([2.])
    """
    return _extreme("minimum", min, arguments)


def maximum(*arguments: Operand) -> Expression:
    """The largest of one or more.

    >>> x, y = hm.variables("x y")
    >>> hm.Function(hm.maximum(x, y))(x=2.0, y=3.0)
    array([3.])
    """
    return _extreme("maximum", max, arguments)


def _extreme(
    operation: str, choose: Callable[[list[Fraction]], Fraction], arguments: Iterable[Operand]
) -> Expression:
    """Without repetitions, and with one number, at the end, if there is any.

    Nested ones stay nested: max(max(x, y), z) may share max(x, y) with something else.
    """
    given = [as_expression(argument) for argument in arguments]
    numbers = [a.value for a in given if isinstance(a, Number)]
    parts = list(dict.fromkeys(a for a in given if not isinstance(a, Number)))
    if numbers:
        parts.append(Number(choose(numbers)))
    if not parts:
        raise RequestError(f"A {operation} needs at least one argument.")
    return parts[0] if len(parts) == 1 else Apply(operation, parts)


def clip(x: Operand, low: Operand, high: Operand) -> Expression:
    """min(max(x, low), high).

    >>> hm.Function(hm.clip(hm.variable("x"), 0, 1))(x=3.0)
    array([1.])
    """
    low, high = as_expression(low), as_expression(high)
    if isinstance(low, Number) and isinstance(high, Number) and low.value > high.value:
        raise RequestError(f"clip needs low <= high, but they are {low} and {high}.")
    return minimum(maximum(x, low), high)


def sign(x: Operand, *, gap: float | Fraction) -> Expression:
    """-1 for x <= -gap, 1 for x >= gap, and a straight line between: clip(k*x, -1, 1).

    The sign itself jumps at 0, and nothing continuous is near it there. So the claim is about this
    clamp, which is the sign wherever |x| >= gap; between, it claims the line and says nothing of
    the sign. k is the smallest float that is at least 1/gap, so the text holds it exactly.

        >>> x = variable("x")
        >>> str(sign(x, gap=0.5))
        'min(max(2*x, -1), 1)'
    """
    width = exact_number(gap)
    if width <= 0:
        raise RequestError(f"sign needs a gap > 0, but it is {gap}; give one, as in gap=0.01.")
    return clip(multiply(Number(above_float(1 / width)), x), -1, 1)


def softmax(*arguments: Operand) -> tuple[Expression, ...]:
    """exp(a), exp(b), ..., each over the sum of all: as many values as arguments.

    >>> x, y = variables("x y")
    >>> str(softmax(x, y)[0])
    'exp(x)/(exp(x) + exp(y))'
    """
    if not arguments:
        raise RequestError("A softmax needs at least one argument.")
    powers = [exp(argument) for argument in arguments]
    return tuple(divide(each, add(*powers)) for each in powers)


def norm(*arguments: Operand) -> Expression:
    """The Euclidean length, sqrt(x**2 + y**2 + ...); of one argument |x|.

    >>> x, y = variables("x y")
    >>> str(norm(x, y))
    'sqrt(x**2 + y**2)'
    """
    if not arguments:
        raise RequestError("A norm needs at least one argument.")
    if len(arguments) == 1:
        return function("abs", arguments[0])
    return sqrt(add(*(power(argument, 2) for argument in arguments)))
