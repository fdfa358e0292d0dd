"""Folders of stock classes, run as their users run them: tokenizer, class and config alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import hardmax as hm
from benchmarks._words import with_runs
from hardmax.core import Words

_AT_ONCE = 2_000  # words in one forward pass
Answers = list[list[str]]


@contextmanager
def quiet_host() -> Iterator[None]:
    """What transformers says while it loads, left out by module: progress bars and reports."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"transformers\.")
        yield
    logging.set_verbosity(before)


def answers(folder: Path, words: Sequence[Sequence[object]]) -> Answers:
    """What the stock class says to each symbol of each word: texts of labels or of tokens."""
    import torch
    import transformers

    with quiet_host():
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
        config = transformers.AutoConfig.from_pretrained(str(folder))
        host = getattr(transformers, config.architectures[0]).from_pretrained(str(folder)).eval()
    labelled = "TokenClassification" in config.architectures[0]
    apart = "" if all(len(str(one)) == 1 for word in words for one in word) else " "
    found: Answers = [[] for _ in words]
    by_length: dict[int, list[int]] = {}
    for i, word in enumerate(words):
        by_length.setdefault(len(word), []).append(i)
    for length, places in by_length.items():
        for first in range(0, len(places), _AT_ONCE):
            chosen = places[first : first + _AT_ONCE]
            texts = [apart.join(map(str, words[i])) for i in chosen]
            ids = torch.tensor(tokenizer(texts)["input_ids"])
            with torch.no_grad():
                best = host(input_ids=ids).logits[:, ids.shape[1] - length :].argmax(-1)
            for i, row in zip(chosen, best.tolist(), strict=True):
                found[i] = [
                    config.id2label[k] if labelled else tokenizer.convert_ids_to_tokens(k)
                    for k in row
                ]
    return found


def meant(program: hm.Program, words: Sequence[Sequence[object]]) -> Answers:
    """What the interpreter says to each symbol of each word, as texts of labels."""
    return [["<none>" if one is None else str(one) for one in program(word)] for word in words]


def wrong_words(folder: Path, words: Sequence[Sequence[object]], wanted: Answers) -> int:
    """How many words the folder answers otherwise."""
    return sum(a != b for a, b in zip(answers(folder, words), wanted, strict=True))


def awkward_words(words: Words, count: int, seed: int = 0) -> list[tuple[object, ...]]:
    """Extremes first (all equal, sorted, reversed), words of few runs, then random ones."""
    rng, n = np.random.default_rng(seed), words.longest
    symbols = words.alphabet
    places = [symbols[i * len(symbols) // n] for i in range(n)]
    found: list[tuple[object, ...]] = [(one,) * n for one in symbols]
    found += [tuple(places), tuple(places[::-1])]
    found += with_runs(words, count // 10, rng)
    while len(found) < count:
        length = n if len(found) % 4 else int(rng.integers(1, n + 1))
        found.append(tuple(symbols[k] for k in rng.integers(len(symbols), size=length)))
    return found


def worst_error(folder: Path, points: np.ndarray) -> float:
    """The largest distance of the stock class from the target, over points of the domain."""
    import torch

    read = hm.open_folder(folder)
    stored = hm.interop.read_huggingface(folder)
    with quiet_host():
        host = stored.load()
    tokens = torch.tensor(stored.embeddings(points)).to(host.dtype)
    with torch.no_grad():
        logits = host(inputs_embeds=tokens).logits.double().numpy()
    given = logits[:, read.construction.transformer.readout.token]
    wanted = np.array([read.construction.claim.target(row) for row in points]).reshape(given.shape)
    away = np.abs(given - wanted)
    return float("inf") if np.isnan(away).any() else float(away.max())
