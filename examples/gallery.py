"""A gallery of sequence programs, each compiled, billed, and held against its interpreter.

    python examples/gallery.py                all of them
    python examples/gallery.py sort dyck_2    some of them

The programs are those of `hm.programs.GALLERY`, a function of a few lines each.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Sequence

import numpy as np

import hardmax as hm
from hardmax import programs as p
from hardmax.core import Words
from hardmax.programs import GALLERY
from hardmax.programs import is_free as is_free

EXHAUSTIVE = 3000  # so many words are all tried; of more, a sample


def words_to_try(words: Words, *, limit: int = EXHAUSTIVE, seed: int = 0) -> list[tuple]:
    """All words if they are few; otherwise awkward and random ones."""
    if words.count <= EXHAUSTIVE:
        return list(words)
    return words.sample(limit, np.random.default_rng(seed))


def wrong_answers(
    model: hm.Construction, program: p.Program, tried: Sequence[Iterable[p.Item]]
) -> list[tuple]:
    """Words that the Transformer answers differently from the interpreter."""
    return [
        tuple(word)
        for word, answer in zip(tried, model(tried), strict=True)
        if answer != program(word)
    ]


def show(name: str) -> bool:
    """Compile an entry, print its bill and a sample answer, and check it."""
    explanation = (inspect.getdoc(GALLERY[name]) or "").splitlines()[0]
    print(f"{name}: {explanation}")
    program, words = GALLERY[name]()
    try:
        model = hm.compile(program, on=words)
    except hm.RequestError as reason:
        print(f"  {reason}\n")
        return False
    tried = words_to_try(words, limit=500)
    wrong = wrong_answers(model, program, tried)
    sample = max(words.sample(40, np.random.default_rng(1))[-20:], key=len)
    print(f"  {model.bill}")
    print(f"  {written(sample)} -> {written(model(sample))}")
    print(f"  {len(tried) - len(wrong):,} of {len(tried):,} words answered right\n")
    return not wrong


def written(items: object) -> str:
    if not isinstance(items, Sequence) or isinstance(items, str):
        return str(items)
    wide = any(len(str(one)) > 1 for one in items)
    return (" " if wide else "").join(str(one) for one in items)


def main(names: Sequence[str]) -> int:
    right = [show(name) for name in names or GALLERY]
    return int(not all(right))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
