"""Sorting as a function: a network of comparators, each a minimum and a maximum."""

from __future__ import annotations

from collections.abc import Iterator

from hardmax._errors import RequestError
from hardmax.languages.expressions._expression import Expression, Variable
from hardmax.languages.expressions._function import Function
from hardmax.languages.expressions.words import maximum, minimum


def sorting_network(count: int) -> Function:
    """x0, ..., x(n-1) in ascending order, by Batcher's odd-even merge sort.

    About n (log2 n)^2 / 4 comparators in log2 n (log2 n + 1)/2 rounds. A comparator is a minimum
    and a maximum of the same two numbers, a + b - max(a, b) and max(a, b): one ReLU does both.

    >>> hm.sorting_network(3)([3.0, 1.0, 2.0])
    array([1., 2., 3.])
    """
    if not isinstance(count, int) or count < 1:
        raise RequestError(f"A sorting network needs a number of inputs >= 1, not {count!r}.")
    wires: list[Expression] = [Variable(f"x{i}") for i in range(count)]
    for low, high in _comparators(count):
        a, b = wires[low], wires[high]
        wires[low], wires[high] = minimum(a, b), maximum(a, b)
    return Function(wires, [f"x{i}" for i in range(count)])


def _comparators(count: int) -> Iterator[tuple[int, int]]:
    """Pairs of wires, round after round (Knuth, The Art of Computer Programming 3, 5.2.2M)."""
    width = 1
    while width < count:
        step = width
        while step >= 1:
            for start in range(step % width, count - step, 2 * step):
                for i in range(start, min(start + step, count - step)):
                    if i // (2 * width) == (i + step) // (2 * width):
                        yield i, i + step
            step //= 2
        width *= 2
