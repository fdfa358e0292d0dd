"""What `hardmax run` finds: a model at points or on words, beside what its target says there.

These are values; `_tables` and `_trace_tables` show them, `_run` and `_words` make them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax import Claim, Construction
from hardmax.core import Circuit, Legend, SequenceInput, Transformer, Word, evaluate
from hardmax.interop import StoredConstruction


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A model at some points, beside its target."""

    claim: Claim
    points: np.ndarray
    outputs: np.ndarray
    targets: np.ndarray
    inside: np.ndarray  # whether the claim covers the point

    @classmethod
    def of(cls, construction: Construction, points: np.ndarray) -> Evaluation:
        claim = construction.claim
        inside = claim.domain.contains(points)
        outputs = construction(points)
        return cls(claim, points, outputs, claim.target(points), inside)

    @property
    def differences(self) -> np.ndarray:
        """The largest difference over the outputs, for every point."""
        return np.abs(self.outputs - self.targets).max(axis=1)

    def record(self) -> dict[str, object]:
        rows = zip(
            self.points, self.outputs, self.targets, self.differences, self.inside, strict=True
        )
        return {
            "claim": {"error": self.claim.error, "domain": str(self.claim.domain)},
            "points": [
                {
                    "input": point.tolist(),
                    "output": output.tolist(),
                    "target": target.tolist(),
                    "difference": float(difference),
                    "inside": bool(inside),
                }
                for point, output, target, difference, inside in rows
            ],
        }


@dataclass(frozen=True, eq=False)
class WordModel:
    """A model of words; without a claim where its file does not hold what it computes."""

    transformer: Transformer
    legend: Legend | None
    claim: Claim | None
    circuit: Circuit | None = None

    @classmethod
    def of(cls, model: Construction | StoredConstruction) -> WordModel:
        claim = model.claim if isinstance(model, Construction) else None
        return cls(model.transformer, model.legend, claim, model.circuit)

    @property
    def alphabet(self) -> Word:
        source = self.transformer.input
        assert isinstance(source, SequenceInput)
        return source.alphabet  # type: ignore[return-value]  # symbols are texts or whole numbers

    def answer(self, word: Word) -> WordAnswer:
        """What the model says, and what its target says where the claim covers the word."""
        outputs = np.atleast_2d(evaluate(self.transformer, [word])[0])
        if self.claim is None:
            return WordAnswer(word, outputs, outputs.tolist())
        target = self.claim.target
        decode = getattr(target, "decode", _numbers)
        if not self.claim.domain.contains(word):
            return WordAnswer(word, outputs, decode(outputs))
        rows = target(word)
        true = np.array(rows, dtype=np.float64).reshape(outputs.shape)
        away = float(np.abs(outputs - true).max(initial=0.0))
        return WordAnswer(word, outputs, decode(outputs), decode(rows), away)


@dataclass(frozen=True, eq=False)
class WordAnswer:
    """The answer to a word beside the target's own; the last two are None without a promise."""

    word: Word
    outputs: np.ndarray
    found: object
    wanted: object = None
    difference: float | None = None

    def record(self) -> dict[str, object]:
        return {
            "word": list(self.word),
            "answer": _plain(self.found),
            "outputs": self.outputs.tolist(),
            "target": _plain(self.wanted),
            "difference": self.difference,
            "inside": self.difference is not None,
        }


def shown_items(items: object) -> str:
    """An answer as a word would be typed: cab, or 1,2,1 where not all are single characters."""
    if not isinstance(items, list | tuple):
        return _item_text(items)
    if not len(items):
        return "(empty)"
    texts = [_item_text(item) for item in items]
    single = all(isinstance(item, str) and len(item) == 1 for item in items)
    return ("" if single else ",").join(texts)


def _item_text(item: object) -> str:
    if isinstance(item, list | tuple):
        parts = [_item_text(part) for part in item]
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
    if isinstance(item, float):
        return f"{item:.6g}"
    return "nothing" if item is None else str(item)


def _numbers(rows: Iterable[Iterable[float]]) -> list[list[float]]:
    return [[float(number) for number in row] for row in rows]


def _plain(item: object) -> object:
    """For JSON, which has no fractions: 1/2 is a text."""
    if isinstance(item, list | tuple):
        return [_plain(part) for part in item]
    return str(item) if isinstance(item, Fraction) else item
