"""Certificates that were altered in one field, or that are held against other bytes.

A certificate stands for one Transformer, one target, one domain and one error. Whether two
constructions are the same is decided here from all bytes that they hold, not by fingerprints.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from hardmax import FileError
from hardmax.checker import Certificate, Verdict
from hardmax.core import Construction, ReadOut
from hardmax.testing import mutate, zoo

SPECIMENS = (
    "x*y (direct, 0.01)",
    "max(x, y, z) (direct, 0.01)",
    "exp(x) (feedforward, 0.01)",
    "ReLU 2-8-1 (attention, 0.001)",
    "maxout 2-3-2 (attention, hard)",
    "zigzag (attention, 0.001)",
)
KINDS = (  # those that need no search
    "weight nudged",
    "weight replaced",
    "sign flipped",
    "bias dropped",
    "query or key row zeroed",
    "heads swapped",
    "coldness changed",
    "weighting changed",
    "causal flag flipped",
    "position bias changed",
    "layer dropped",
    "claim tightened",
    "domain widened",
    "target altered",
    "head rescaled",
    "token added",
)
ABOUT = ("fingerprint", "target", "target_digest", "domain", "claimed")
_COUNTED = ("cases", "false", "tracebacks", "refused", "named", "untouched")


def certificates_part(start: int, count: int, seed: int) -> dict[str, Any]:
    """Cases number `start` and after: models are altered in turn with records."""
    counts = Counter(dict.fromkeys(_COUNTED, 0))
    failures: list[tuple[int, str]] = []
    for number in range(start, start + count):
        rng = np.random.default_rng([seed, number])
        case = _other_model if number % 2 else _other_record
        outcome, said = case(SPECIMENS[rng.integers(len(SPECIMENS))], rng)
        counts["cases"] += 1
        counts[outcome] += 1
        if outcome in ("false", "tracebacks"):
            failures.append((number, said))
    return {**counts, "failures": failures}


@cache
def proved(name: str) -> Certificate:
    """A certificate of the right form; no checker is asked."""
    construction = zoo()[name].construction
    error = construction.claim.error
    return Certificate.about(
        construction,
        verdict=Verdict.PROVED,
        certified=error * 0.75,
        measured=error * 0.5,
        worst=tuple(construction.claim.domain.low.tolist()),
        method="boxes",
        formats={"float64": error * 0.75, "float32": math.inf},
    )


def _other_model(name: str, rng: np.random.Generator) -> tuple[str, str]:
    """The certificate of one model beside another, which differs from it in a bit at the least."""
    construction, certificate = zoo()[name].construction, proved(name)
    if rng.random() < 0.3:
        kind, other = "one ulp", _nudged(construction, rng)
    else:
        kind = KINDS[rng.integers(len(KINDS))]
        mutant = mutate(construction, kind, int(rng.integers(2**31)))
        other = construction if mutant is None else mutant.construction
    parts = certificate.altered(other)
    if bool(parts) != (essence(other) != essence(construction)):
        return "false", f"{name}, {kind}: altered in {parts or 'nothing'}"
    return "named" if parts else "untouched", ""


def _nudged(construction: Construction, rng: np.random.Generator) -> Construction:
    """One number of the read-out one ulp further; of all bytes, those that a glance overlooks."""
    readout = construction.transformer.readout
    weights, bias = readout.weights.copy(), readout.bias.copy()
    array = (weights, bias)[rng.integers(2)].reshape(-1)
    place = rng.integers(array.size)
    array[place] = np.nextafter(array[place], rng.choice([-np.inf, np.inf]))
    changed = ReadOut(weights, bias, readout.token)
    return replace(construction, transformer=replace(construction.transformer, readout=changed))


def _other_record(name: str, rng: np.random.Generator) -> tuple[str, str]:
    """One field of the stored record is something else: refused, or named, or no lie."""
    record = proved(name).as_dict()
    field = str(rng.choice([*ABOUT, *record]))
    edited = record | {field: _edited(record[field], rng)}
    what = f"{name}, {field}: {record[field]!r} -> {edited[field]!r}"
    try:
        loaded = Certificate.from_dict(edited)
    except FileError:
        return "refused", ""
    except Exception as reason:  # the tree of errors has one for files
        return "tracebacks", f"{what}: {type(reason).__name__}: {reason}"
    return _judged(loaded, field in ABOUT and edited[field] != record[field], name, what)


def _judged(loaded: Certificate, is_about_another: bool, name: str, what: str) -> tuple[str, str]:
    named = loaded.altered(zoo()[name].construction)
    if is_about_another and not named:
        return "false", f"{what}: still about the same model"
    is_proved = loaded.verdict is Verdict.PROVED
    if is_proved and not loaded.measured <= loaded.certified <= loaded.claimed:
        return "false", f"{what}: PROVED without measured <= certified <= claimed"
    if any(loaded.formats[format] > loaded.claimed for format in loaded.holds_in):
        return "false", f"{what}: holds in a format whose bound exceeds the claim"
    return "named" if named else "untouched", ""


def _edited(value: Any, rng: np.random.Generator) -> Any:
    """Something else: near where there is a near, else of another kind."""
    nonsense = [None, True, -1, "x", "nan", "infinity", [], {}, 1e308, -0.5, 10**400, "PROVED"]
    match value:
        case str() if value and rng.random() < 0.6:
            place = int(rng.integers(len(value)))
            return value[:place] + chr(33 + int(rng.integers(90))) + value[place + 1 :]
        case float() if rng.random() < 0.6:
            factor = float(rng.choice([0.5, 1 - 2.0**-52, 1 + 2.0**-52, 2.0, -1.0]))
            return value * factor
        case dict() if rng.random() < 0.6:
            return value | {"float32": float(rng.choice([0.0, 1.0, -1.0]))}
    return nonsense[rng.integers(len(nonsense))]


def essence(value: Any) -> Any:
    """All that a construction holds, as plain data that compares bit by bit; no witness, no words.

    A claim is what it says: its target as a file holds it, its domain, and its error as a sum.
    """
    match value:
        case Construction():
            claim = value.claim
            told = (claim.target.encode(), claim.domain, claim.error)
            return essence(value.transformer), *map(essence, told)
        case np.ndarray():
            return value.dtype.str, value.shape, value.tobytes()
        case tuple() | list():
            return tuple(map(essence, value))
        case dict():
            return tuple((key, essence(value[key])) for key in sorted(value))
        case _ if is_dataclass(value):
            own = tuple(essence(getattr(value, field.name)) for field in fields(value))
            return type(value).__name__, own
    return type(value).__name__, repr(value)
