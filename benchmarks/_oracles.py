"""The gallery's programs in NumPy, many words at once; tests hold them against the interpreter.

An oracle takes a table of symbol numbers (words x places) and the alphabet's size, and answers a
table of numbers, or of symbol numbers with -1 for nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hardmax.core import Words
from hardmax.languages.programs import Code

NOTHING = -1
Oracle = Callable[[np.ndarray, int], np.ndarray]
SYMBOLS = frozenset(  # programs that answer symbols, not numbers
    ("reverse", "shift", "sort", "sort_by_frequency", "most_frequent", "if_else", "substitution")
)
_WORDS_AT_ONCE = 2**24  # pairs of places


def wanted(name: str, table: np.ndarray, words: Words, code: Code) -> np.ndarray:
    """The numbers that the compiled program should answer with."""
    size = len(words.alphabet)
    step = max(1, _WORDS_AT_ONCE // table.shape[1] ** 2)
    parts = [ORACLES[name](table[i : i + step], size) for i in range(0, len(table), step)]
    answers = np.concatenate(parts)
    if name not in SYMBOLS:
        return answers.astype(float)
    numbers = [float(code.number_or(symbol, np.nan)) for symbol in words.alphabet]
    return np.array([*numbers, float(code.number_or(None, np.nan))])[answers]


def _same(t: np.ndarray) -> np.ndarray:
    """Whether place i (axis 1) and place j (axis 2) hold the same."""
    return t[:, :, None] == t[:, None, :]


def _often(t: np.ndarray) -> np.ndarray:
    return _same(t).sum(axis=2)


def _sorted_by(t: np.ndarray, key: np.ndarray) -> np.ndarray:
    return np.take_along_axis(t, np.argsort(key, axis=1, kind="stable"), axis=1)


def _shifted(t: np.ndarray, by: int, default: int) -> np.ndarray:
    front = np.full((len(t), min(by, t.shape[1])), default)
    return np.concatenate([front, t[:, : max(t.shape[1] - by, 0)]], axis=1)


def _everywhere(one: np.ndarray, t: np.ndarray) -> np.ndarray:
    return np.broadcast_to(one[:, None], t.shape)


def _gather(t: np.ndarray, size: int) -> np.ndarray:
    n = t.shape[1]
    found = np.take_along_axis(t, np.minimum(t, n - 1), axis=1)
    return np.where(t < n, found, 0)


def _most_frequent(t: np.ndarray, size: int) -> np.ndarray:
    first = _often(t).argmax(axis=1)
    return _everywhere(t[np.arange(len(t)), first], t)


def _fraction_so_far(t: np.ndarray, size: int) -> np.ndarray:
    return (t == 0).cumsum(axis=1) / (np.arange(t.shape[1]) + 1.0)


def _seen_before(t: np.ndarray, size: int) -> np.ndarray:
    return (_same(t) & np.tri(t.shape[1], k=-1, dtype=bool)).any(axis=2)


def _last_occurrence(t: np.ndarray, size: int) -> np.ndarray:
    return t.shape[1] - 1 - _same(t)[:, :, ::-1].argmax(axis=2)


def _ternary_map(t: np.ndarray, size: int) -> np.ndarray:
    return (t + 2 * _shifted(t, 1, 0) + _shifted(t, 2, 0)) % size


ORACLES: dict[str, Oracle] = {
    "reverse": lambda t, size: t[:, ::-1],
    "shift": lambda t, size: _shifted(t, 1, NOTHING),
    "gather": _gather,
    "sort": lambda t, size: np.sort(t, axis=1),
    "sort_by_key": lambda t, size: _sorted_by(t, t % 2),
    "sort_by_frequency": lambda t, size: _sorted_by(t, -_often(t)),
    "histogram": lambda t, size: _often(t),
    "duplicates": lambda t, size: _often(t) > 1,
    "most_frequent": _most_frequent,
    "rare": lambda t, size: _everywhere((_often(t) <= 2).sum(axis=1), t),
    "prefix_sum": lambda t, size: t.cumsum(axis=1),
    "fraction_so_far": _fraction_so_far,
    "modular_counter": lambda t, size: (t == 0).cumsum(axis=1) % 3,
    "seen_before": _seen_before,
    "first_occurrence": lambda t, size: _same(t).argmax(axis=2),
    "last_occurrence": _last_occurrence,
    "detect": lambda t, size: (t == 1) & (_shifted(t, 1, NOTHING) == 0),
    "palindrome": lambda t, size: _everywhere((t == t[:, ::-1]).all(axis=1), t),
    "ternary_map": _ternary_map,
    "if_else": lambda t, size: np.where(t == 0, _shifted(t, 1, 0), t),
    "substitution": lambda t, size: (t + 1) % size,
}
