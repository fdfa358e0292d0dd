"""Expressions as immutable values, and the few simplifications made when they are built.

Equal expressions are one object: every node is looked up among the living ones when it is made,
so structural equality is identity, hashing is free, and shared parts are shared.
"""

from __future__ import annotations

import keyword
import math
import numbers
import threading
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Iterator
from fractions import Fraction
from typing import TypeVar
from weakref import WeakValueDictionary

from hardmax._errors import RequestError, SemanticsError
from hardmax.languages.expressions._print import to_text
from hardmax.numerics import FUNCTION_WORDS, FUNCTIONS, record_of

OF_SEVERAL = ("add", "multiply", "divide", "minimum", "maximum")
ARITY: dict[str, int | None] = dict.fromkeys(OF_SEVERAL)  # None: two or more
ARITY |= {"divide": 2, "power": 1} | dict.fromkeys(FUNCTIONS, 1)
CONSTANTS = {"pi": Fraction(math.pi), "e": Fraction(math.e)}
COMPOSED = ("min", "max", "clip", "sign", "norm", "softmax")  # words of their own
RESERVED = {*FUNCTION_WORDS, *CONSTANTS, *COMPOSED, "minimum", "maximum"}

_LARGEST_EXPONENT = 10**6
_SMALL_DENOMINATOR = 1000
_KNOWN: WeakValueDictionary[tuple[object, ...], Expression] = WeakValueDictionary()
_LOCK = threading.RLock()


class Expression:
    """A real function of named variables: a `Variable`, a `Number`, or an `Apply`.

    Build them with Python's operators and the functions of this module:

        >>> x, y = variables("x y")
        >>> str(x * x + exp(-y) / 3)
        'x**2 + exp(-y)/3'
    """

    __slots__ = ("__weakref__", "_variables", "arguments", "depth", "is_total", "operation")
    __array_ufunc__ = None  # a NumPy number on the left must hand the operation over to us

    operation: str
    arguments: tuple[Expression, ...]
    depth: int  # of nested operations; 0 for variables and numbers
    _variables: tuple[str, ...]
    is_total: bool  # whether it is defined everywhere, as far as its operations show

    def variables(self) -> tuple[str, ...]:
        """The names of the free variables, in the order of their first appearance."""
        return self._variables

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Expressions never change; build a new one.")

    def __str__(self) -> str:
        return to_text(self)

    def __repr__(self) -> str:
        return f"<{self}>"

    def __add__(self, other: Operand) -> Expression:
        return _operate(add, self, other)

    def __radd__(self, other: Operand) -> Expression:
        return _operate(add, other, self)

    def __sub__(self, other: Operand) -> Expression:
        return _operate(subtract, self, other)

    def __rsub__(self, other: Operand) -> Expression:
        return _operate(subtract, other, self)

    def __mul__(self, other: Operand) -> Expression:
        return _operate(multiply, self, other)

    def __rmul__(self, other: Operand) -> Expression:
        return _operate(multiply, other, self)

    def __truediv__(self, other: Operand) -> Expression:
        return _operate(divide, self, other)

    def __rtruediv__(self, other: Operand) -> Expression:
        return _operate(divide, other, self)

    def __pow__(self, other: Operand) -> Expression:
        return _operate(power, self, other)

    def __rpow__(self, other: Operand) -> Expression:
        return _operate(power, other, self)

    def __neg__(self) -> Expression:
        return multiply(MINUS_ONE, self)

    def __pos__(self) -> Expression:
        return self

    def __abs__(self) -> Expression:
        return function("abs", self)

    def __lt__(self, other: Operand) -> bool:
        raise SemanticsError("Expressions have no order; use minimum(x, y) and maximum(x, y).")

    __gt__ = __le__ = __ge__ = __lt__

    def __bool__(self) -> bool:
        raise SemanticsError("An expression is neither true nor false; use minimum or maximum.")


Operand = Expression | numbers.Real | float
_Node = TypeVar("_Node", bound=Expression)


def _living(cls: type[_Node], *key: Hashable, **slots: object) -> _Node:
    """The one node of this class and key, made if there is none."""
    with _LOCK:
        node = _KNOWN.get((cls, *key))
        if node is None:
            node = object.__new__(cls)
            for name, value in slots.items():
                object.__setattr__(node, name, value)
            _KNOWN[(cls, *key)] = node
        assert isinstance(node, cls)
        return node


def _leaf(operation: str) -> dict[str, object]:
    return {"operation": operation, "arguments": (), "depth": 0, "is_total": True}


class Variable(Expression):
    """A name that stands for a real number."""

    __slots__ = ("name",)
    __match_args__ = ("name",)
    name: str

    def __new__(cls, name: str) -> Variable:
        check_name(name)
        return _living(cls, name, name=name, _variables=(name,), **_leaf("variable"))

    def __reduce__(self) -> tuple[type[Variable], tuple[str]]:
        return Variable, (self.name,)


class Number(Expression):
    """An exact rational.

    A float, and a literal such as 0.1, means the float64 nearest to it, as every reader of
    Python expects; whole numbers and their quotients are exact, so 1/3 is one third. Sums and
    products of numbers are folded without rounding.
    """

    __slots__ = ("value",)
    __match_args__ = ("value",)
    value: Fraction

    def __new__(cls, value: numbers.Real | float) -> Number:
        exactly = exact_number(value)
        if not is_admissible(exactly):
            raise RequestError(
                "A number of the expression is beyond 1e307, or its exact value has more than a "
                "thousand bits; scale it or round it."
            )
        return _living(cls, exactly, value=exactly, _variables=(), **_leaf("number"))

    def __reduce__(self) -> tuple[type[Number], tuple[Fraction]]:
        return Number, (self.value,)


class Apply(Expression):
    """An operation on expressions, taken as it is; `build` simplifies.

    Operations: add, multiply, minimum, maximum (of two or more), divide, power (with an exact
    `exponent`, otherwise 1), and every function of one variable that has a record.
    """

    __slots__ = ("exponent",)
    __match_args__ = ("operation", "arguments", "exponent")
    exponent: Fraction

    def __new__(
        cls, operation: str, arguments: Iterable[Expression], exponent: Fraction = Fraction(1)
    ) -> Apply:
        arguments = tuple(arguments)
        _check_application(operation, arguments, exponent)
        total = _is_total(operation, exponent)
        names = dict.fromkeys(name for a in arguments for name in a.variables())
        return _living(
            *(cls, operation, arguments, exponent),
            operation=operation,
            arguments=arguments,
            exponent=exponent,
            depth=1 + max(a.depth for a in arguments),
            is_total=total and all(a.is_total for a in arguments),
            _variables=tuple(names),
        )

    def __reduce__(self) -> tuple[type[Apply], tuple[str, tuple[Expression, ...], Fraction]]:
        return Apply, (self.operation, self.arguments, self.exponent)


def _is_total(operation: str, exponent: Fraction) -> bool:
    """Whether an operation is defined for all arguments."""
    if operation in OF_SEVERAL:
        return operation != "divide"
    return record_of(operation, exponent).condition is None


def _check_application(operation: str, arguments: tuple[object, ...], exponent: object) -> None:
    if operation not in ARITY:
        raise RequestError(f"There is no operation {operation!r}; there are {list(ARITY)}.")
    wanted = ARITY[operation]
    if len(arguments) != wanted and (wanted is not None or len(arguments) < 2):
        raise RequestError(
            f"{operation} takes {wanted or 'two or more'} arguments, not {len(arguments)}."
        )
    if not all(isinstance(argument, Expression) for argument in arguments):
        raise RequestError(f"The arguments of {operation} must be expressions.")
    if not isinstance(exponent, Fraction) or (exponent != 1 and operation != "power"):
        raise RequestError("An exponent is a Fraction, and only a power has one.")
    if abs(exponent) > _LARGEST_EXPONENT:
        raise RequestError(f"The exponent {exponent} is too large; stay below 1,000,000.")


def check_name(name: object) -> None:
    """Refuse what cannot name a variable."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise RequestError(f"{name!r} cannot name a variable; use letters, digits and _, as in x1.")
    if name in RESERVED:
        raise RequestError(f"{name} has a meaning already; choose another name for the variable.")
    if unicodedata.normalize("NFKC", name) != name:
        raise RequestError(f"{name!r} cannot name a variable; write it in plain letters.")


def is_admissible(value: Fraction) -> bool:
    """Whether it is a float below 2^1023, or a quotient of whole numbers below 2^1000.

    Both can be written and read back. A sum of floats such as 1 + 1e-310 is neither: its quotient
    would hold a whole number that no text may hold.
    """
    if abs(value) >= 2**1023:
        return False
    if max(abs(value.numerator), value.denominator) < 2**1000:
        return True
    return Fraction(float(value)) == value


def exact_number(value: object) -> Fraction:
    """What a Python or NumPy number means; anything but a finite real is refused."""
    if isinstance(value, numbers.Rational):  # int, bool, Fraction and NumPy's integers
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, numbers.Real) and math.isfinite(value):  # float and NumPy's floats
        return Fraction(float(value))
    raise RequestError(f"{value!r} is not a finite real number; give one, or an expression.")


def as_expression(value: object) -> Expression:
    """An expression itself, or the number that a Python or NumPy number means."""
    return value if isinstance(value, Expression) else Number(exact_number(value))


def _operate(maker: Callable[..., Expression], *operands: object) -> Expression:
    if not all(isinstance(operand, Expression | numbers.Real) for operand in operands):
        return NotImplemented
    return maker(*operands)


def postorder(*roots: Expression) -> Iterator[Expression]:
    """Every node below the roots once, arguments before what they are arguments of."""
    seen: set[Expression] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(node.arguments) if a not in seen)


def split_coefficient(expression: Expression) -> tuple[Fraction, Expression]:
    """c and f with expression = c f, where f has no number in front of it."""
    if isinstance(expression, Number):
        return expression.value, ONE
    if expression.operation == "multiply" and isinstance(expression.arguments[0], Number):
        rest = expression.arguments[1:]
        return expression.arguments[0].value, rest[0] if len(rest) == 1 else Apply("multiply", rest)
    return Fraction(1), expression


def _flat(operation: str, operands: Iterable[object]) -> Iterator[Expression]:
    for operand in map(as_expression, operands):
        yield from operand.arguments if operand.operation == operation else (operand,)


def add(*terms: Operand) -> Expression:
    """The sum, flat, with equal terms collected and one number, at the end, if it is not 0.

    A term that cancels is kept as 0*f unless f is defined everywhere: log(x) - log(x) still
    needs a positive x.
    """
    coefficients: dict[Expression, Fraction] = {}
    for term in _flat("add", terms):
        coefficient, rest = split_coefficient(term)
        coefficients[rest] = coefficients.get(rest, Fraction(0)) + coefficient
    constant = coefficients.pop(ONE, Fraction(0))
    parts = [multiply(Number(c), f) for f, c in coefficients.items() if c or not f.is_total]
    if any(part.operation == "add" for part in parts):
        return add(*parts, Number(constant))
    if constant or not parts:
        parts.append(Number(constant))
    return parts[0] if len(parts) == 1 else Apply("add", parts)


def subtract(a: Operand, b: Operand) -> Expression:
    """a - b as a sum."""
    return add(a, multiply(MINUS_ONE, b))


def multiply(*factors: Operand) -> Expression:
    """The product, flat, with equal factors collected and one number, in front, if it is not 1.

    Only natural powers are collected: x * x**-1 is not defined at 0, and 1 is.
    """
    coefficient, exponents = Fraction(1), dict[Expression, Fraction]()
    for factor in _flat("multiply", factors):
        if isinstance(factor, Number):
            coefficient *= factor.value
            continue
        base, times = _natural_power(factor)
        exponents[base] = exponents.get(base, Fraction(0)) + times
    parts = [power(base, exponent) for base, exponent in exponents.items()]
    if not parts or (coefficient == 0 and all(part.is_total for part in parts)):
        return Number(coefficient)
    if coefficient != 1:
        parts.insert(0, Number(coefficient))
    return parts[0] if len(parts) == 1 else Apply("multiply", parts)


def _natural_power(factor: Expression) -> tuple[Expression, Fraction]:
    if isinstance(factor, Apply) and factor.operation == "power" and _is_natural(factor.exponent):
        return factor.arguments[0], factor.exponent
    return factor, Fraction(1)


def _is_natural(n: Fraction) -> bool:
    return n > 0 and n.denominator == 1


def divide(a: Operand, b: Operand) -> Expression:
    """a/b; the number in front of a moves in front, as does the sign of b.

    Division by a whole number, or a quotient of small ones, multiplies by its exact reciprocal.
    """
    a, b = as_expression(a), as_expression(b)
    if isinstance(b, Number):
        if b.value == 0:
            raise RequestError(f"{a} is divided by 0; nothing is.")
        if isinstance(a, Number) or b.value.denominator <= _SMALL_DENOMINATOR:
            return multiply(Number(1 / b.value), a)
    over, a = split_coefficient(a)
    under, _ = split_coefficient(b)
    if under < 0:
        over, b = -over, multiply(MINUS_ONE, b)
    return multiply(Number(over), Apply("divide", (a, b)))


def power(base: Operand, exponent: Operand) -> Expression:
    """base**exponent for a constant rational exponent.

    x**-1 is 1/x and x**(1/2) is sqrt(x); natural powers of integer powers are one power.
    """
    base, exponent = as_expression(base), as_expression(exponent)
    if not isinstance(exponent, Number):
        raise RequestError(
            f"The exponent {exponent} is not a constant; write exp(({exponent})*log({base}))."
        )
    n = exponent.value
    if n == 1 or (n == 0 and base.is_total):
        return base if n == 1 else ONE
    if isinstance(base, Number):
        return _power_of_number(base, n)
    if n == -1:
        return divide(ONE, base)
    if n == Fraction(1, 2):
        return function("sqrt", base)
    if n.denominator == 1:
        coefficient, rest = split_coefficient(base)
        if coefficient == -1:
            return multiply(Number((-1) ** int(n)), power(rest, exponent))
        inner = base.exponent if isinstance(base, Apply) and base.operation == "power" else None
        if n > 0 and inner and inner.denominator == 1:
            return power(base.arguments[0], Number(inner * n))
    return Apply("power", (base,), n)


def _power_of_number(base: Number, n: Fraction) -> Expression:
    value = base.value
    if value == 0 and n < 0:
        raise RequestError(f"0 to the power {n} is not defined; the base must not be 0.")
    if value in (0, 1):
        return base
    if n.denominator != 1:
        return function("sqrt", base) if n == Fraction(1, 2) else Apply("power", (base,), n)
    if n == -1:
        return Number(1 / value)
    size = max(abs(value.numerator), value.denominator).bit_length() * abs(n)
    if size > 10_000 or not is_admissible(value ** int(n)):
        return Apply("power", (base,), n)  # exact as it stands, and too long to be written out
    return Number(value ** int(n))


def function(name: str, argument: Operand) -> Expression:
    """A function of one variable of an argument; rational values at numbers are folded."""
    inner = as_expression(argument)
    value = record_of(name).folds(inner.value) if isinstance(inner, Number) else None
    return Apply(name, (inner,)) if value is None else Number(value)


ONE = Number(1)
MINUS_ONE = Number(-1)
