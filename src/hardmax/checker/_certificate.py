"""What an independent checker established about one model: a verdict, and a value to store."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from itertools import pairwise
from typing import Required, TypedDict, Unpack

import numpy as np

from hardmax._errors import FileError, HardmaxError, RequestError
from hardmax._shown import Shown, shortened
from hardmax.core import Circuit, Construction, Target, Transformer, fingerprint
from hardmax.numerics import FORMATS, about_underflow, format_named


class Verdict(Enum):
    """The outcome of a check; only PROVED is success.

    >>> hm.certify(hm.compile("x", on="[0,1]")).verdict is hm.Verdict.PROVED
    True
    """

    PROVED = "The claim holds for every input of the domain."
    REFUTED = "The claim is false: the counterexample breaks it."
    UNDECIDED = "The enclosures are too wide to decide. Undecided is not success."

    def __str__(self) -> str:
        return self.name.lower()


INTERRUPTED = "The check was interrupted"  # how the advice begins when Ctrl-C ended the search
_NOT_FINITE = {math.inf: "infinity", -math.inf: "-infinity"}
_NUMBERS = ("claimed", "certified", "measured", "seconds", "asked")
_TEXTS = (
    "circuit",
    "fingerprint",
    "target",
    "target_digest",
    "domain",
    "method",
    "advice",
    "version",
    "format",
)
_PARTS = {
    "weights": ("fingerprint",),
    "target": ("target", "target_digest"),
    "domain": ("domain",),
    "claim": ("claimed", "format"),
    "circuit": ("circuit",),
}


Point = tuple[float | str, ...]  # numbers, or the symbols of a word


class Subject(TypedDict):
    """What a certificate is about."""

    fingerprint: str
    target: str
    target_digest: str
    domain: str
    claimed: float
    format: str
    asked: float
    circuit: str


class Established(TypedDict, total=False):
    """What was found out about it: the other fields of a certificate."""

    verdict: Required[Verdict]
    certified: Required[float]
    measured: Required[float]
    worst: Required[Point | None]
    method: Required[str]
    boxes: int
    formats: Mapping[str, float]
    assumptions: tuple[str, ...]
    advice: str
    seconds: float
    version: str
    work: int
    statements: tuple[str, ...]


@dataclass(frozen=True)
class Certificate(Shown):
    """measured <= certified <= claimed, for exactly these weights, this target and this domain.

    A claim is about a float `format`, float64 unless it was compiled for another one. `certified`
    bounds the error over the whole domain: that over the reals, of the weights as they are stored,
    plus what rounding adds in the claim's format and in float64; `measured` is an error that is
    attained, over the reals, at the point `worst`. `formats` gives the same bound for each float
    format (weights cast to it, inputs already in it, any order of summation; where tiny numbers may
    be taken for 0, inputs are none of these), found without looking at the format that is claimed.
    Proved is that the claim holds in its format. `holds_in` are all formats in which it does,
    `asked_holds_in` those in which the error does that somebody asked for. A refuted claim has
    `worst` as counterexample, confirmed in exact or ball arithmetic (against values that are taken
    as exact, if the target has no steps).

    >>> model = hm.compile("x * y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2)
    >>> certificate = hm.certify(model)
    >>> certificate.verdict.name, certificate.certified <= certificate.claimed
    ('PROVED', True)
    >>> certificate.asked_holds_in
    ('float64', 'float32')
    """

    verdict: Verdict
    claimed: float
    certified: float
    measured: float
    worst: Point | None
    fingerprint: str  # of the weights
    target: str  # text of the target
    target_digest: str  # SHA-256 of the encoded target
    domain: str
    method: str  # boxes | steps | identity | enumeration | value sets
    boxes: int = 0
    formats: Mapping[str, float] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    advice: str = ""  # what would help, if undecided
    seconds: float = 0.0
    version: str = ""
    work: int = 0  # units that were spent: see Budget
    format: str = "float64"  # that the claim is about
    circuit: str = ""  # SHA-256 of the circuit of a legible model, which is proved, too
    statements: tuple[str, ...] = ()  # what else was established: of legible models, their circuit
    asked: float = math.inf  # the error that was asked for; not known of older ones: the claimed

    def __post_init__(self) -> None:
        object.__setattr__(self, "formats", dict(self.formats))
        object.__setattr__(self, "format", format_named(self.format).name)
        if self.asked == math.inf:
            object.__setattr__(self, "asked", self.claimed)
        if any(math.isnan(getattr(self, name)) for name in _NUMBERS) or self.asked < 0:
            raise RequestError("A certificate holds numbers, and one of them is nan, or negative.")
        if self.verdict is Verdict.PROVED and not self.measured <= self.certified <= self.claimed:
            raise RequestError(
                f"A proved claim needs measured <= certified <= claimed, but they are "
                f"{self.measured!r}, {self.certified!r} and {self.claimed!r}."
            )
        if self.verdict is Verdict.REFUTED and not (
            self.measured > self.claimed and self.worst is not None
        ):
            raise RequestError(
                f"A refuted claim needs a point where the error exceeds {self.claimed!r}, but "
                f"{self.measured!r} was measured at {self.worst}."
            )

    @classmethod
    def about(cls, construction: Construction, **findings: Unpack[Established]) -> Certificate:
        """The findings about a construction, with what tells it from every other one."""
        return cls(**subject(construction), **findings)

    @property
    def holds_in(self) -> tuple[str, ...]:
        """The float formats in which the claim is proved to hold."""
        if self.verdict is not Verdict.PROVED:
            return ()
        return tuple(name for name, bound in self.formats.items() if bound <= self.claimed)

    @property
    def asked_holds_in(self) -> tuple[str, ...]:
        """The float formats in which the error asked for is proved to hold."""
        if self.verdict is not Verdict.PROVED:
            return ()
        return tuple(name for name, bound in self.formats.items() if bound <= self.asked)

    @property
    def counterexample(self) -> Point | None:
        """The input that breaks a refuted claim."""
        return self.worst if self.verdict is Verdict.REFUTED else None

    @property
    def was_interrupted(self) -> bool:
        """Whether Ctrl-C ended the search: the verdict is the best so far."""
        return self.advice.startswith(INTERRUPTED)

    def altered(self, construction: Construction) -> tuple[str, ...]:
        """Which of weights, target, domain and claim are not those that this is about."""
        now = subject(construction)
        return tuple(
            part
            for part, names in _PARTS.items()
            if any(getattr(self, name) != value for name, value in now.items() if name in names)
        )

    def as_dict(self) -> dict[str, object]:
        """Plain data for JSON, which has no infinities.

        What an older certificate does not say is left out where it would be the same: one that was
        read from an older file is written as it was.
        """
        record = {f.name: getattr(self, f.name) for f in fields(self)}
        usual = {"format": "float64", "asked": self.claimed, "statements": (), "circuit": ""}
        record = {k: v for k, v in record.items() if k not in usual or v != usual[k]}
        record |= {"verdict": self.verdict.name, "formats": dict(self.formats)}
        record |= {"worst": None if self.worst is None else list(self.worst)}
        return {name: _plain(value) for name, value in record.items()}

    @classmethod
    def from_dict(cls, record: Mapping[str, object]) -> Certificate:
        """The inverse of `as_dict`; whatever is missing or of the wrong kind is refused."""
        try:
            older = {"work": 0, "format": "float64", "asked": record["claimed"]}  # do not say
            older |= {"statements": [], "circuit": ""}
            given = older | dict(record)
            numbers = [_number(given[name]) for name in _NUMBERS]
            texts = [_text(given[name]) for name in _TEXTS]
            claimed, certified, measured, seconds, asked = numbers
            circuit, fingerprint, target, target_digest, domain, method, *rest = texts
            advice, version, format = rest
            worst = given["worst"]
            return cls(
                verdict=Verdict[_text(given["verdict"])],
                claimed=claimed,
                certified=certified,
                measured=measured,
                worst=None if worst is None else tuple(map(_coordinate, _list(worst))),
                fingerprint=fingerprint,
                target=target,
                target_digest=target_digest,
                domain=domain,
                method=method,
                boxes=_count(given["boxes"]),
                formats={str(k): _number(v) for k, v in _table(given["formats"]).items()},
                assumptions=tuple(_text(line) for line in _list(given["assumptions"])),
                advice=advice,
                seconds=seconds,
                version=version,
                work=_count(given["work"]),
                format=format,
                asked=asked,
                circuit=circuit,
                statements=tuple(_text(line) for line in _list(given["statements"])),
            )
        except HardmaxError as reason:
            raise FileError(f"has a certificate that cannot be true: {reason}") from reason
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as reason:
            raise FileError(f"has a certificate that cannot be read ({reason!r}).") from reason

    def __repr__(self) -> str:
        return f"Certificate({self}; by {self.method}, on {shortened(self.domain)})"

    def __str__(self) -> str:
        """The three numbers in their order, as inequalities, and what follows."""
        named = [(getattr(self, name), name) for name in ("measured", "certified", "claimed")]
        named.sort(key=lambda pair: pair[0])  # equal ones keep the order of a proof
        digits = 6
        for (less, name), (more, _) in pairwise(named):
            while name == "claimed" and f"{less:.{digits}g}" == f"{more:.{digits}g}":
                digits += 1  # a claim that is exceeded is shown to be
        line = "".join(
            f"{value:.{digits}g} {name}{' < ' if name == 'claimed' else ' <= '}"
            for value, name in named
        )
        at = "" if self.counterexample is None else f" at {_point(self.counterexample)}"
        where = "" if self.format == "float64" else f" in {self.format}"
        return f"{line.removesuffix(' < ').removesuffix(' <= ')}{where}: {self.verdict}{at}"


def about_floats(transformer: Transformer, bounds: Mapping[str, float]) -> tuple[str, ...]:
    """What is assumed of the formats of which something is said: exp, and what is tiny.

    Hard heads take no exponentials.
    """
    spoken_of = [FORMATS[name] for name, bound in bounds.items() if bound < math.inf]
    exponentials = [] if transformer.is_hard else [format.assumption for format in spoken_of]
    return (*exponentials, *([about_underflow()] if spoken_of else []))


def subject(construction: Construction) -> Subject:
    """What a certificate is about: the fields that tell these weights and this claim from others.

    Two constructions with the same subject have the same Transformer bit by bit, the same target
    (kind, text and tensors), the same domain (its text has every digit), and the same error,
    claimed and asked for, in the same format.
    """
    claim = construction.claim
    text, digest = _identity(claim.target)
    return {
        "fingerprint": fingerprint(construction.transformer),
        "target": text,
        "target_digest": digest,
        "domain": str(claim.domain),
        "claimed": claim.error,
        "format": claim.format,
        "asked": claim.asked,
        "circuit": _circuit_digest(construction.circuit),
    }


def _circuit_digest(circuit: Circuit | None) -> str:
    return "" if circuit is None else hashlib.sha256(circuit.to_json().encode()).hexdigest()


def _identity(target: Target) -> tuple[str, str]:
    """Text and digest of a target; an opaque one, which no file can hold, has no digest."""
    encoded = target.encode()
    if encoded is None:
        return f"opaque {type(target).__name__}", ""
    digest = hashlib.sha256(f"{encoded.kind}\n{encoded.text}".encode())
    for name in sorted(encoded.tensors):
        array = np.asarray(encoded.tensors[name])
        array = array.astype(array.dtype.newbyteorder("<"))
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return encoded.text, digest.hexdigest()


def _plain(value: object) -> object:
    match value:
        case float():
            return _NOT_FINITE.get(value, float(value))
        case np.generic():
            return _plain(value.item())
        case tuple() | list():
            return [_plain(v) for v in value]
        case dict():
            return {k: _plain(v) for k, v in value.items()}
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, float | int | str):
        raise TypeError(f"{value!r} is no number")
    if isinstance(value, str) and value not in _NOT_FINITE.values():
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"{value!r} is no count")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value


def _table(value: object) -> Mapping[object, object]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r} is no table")
    return value


def _coordinate(value: object) -> float | str:
    if not isinstance(value, float | int | str):
        raise TypeError(f"{value!r} is no number and no symbol")
    return value


def _point(point: Point) -> str:
    words = [f"{v:.6g}" if isinstance(v, float) else str(v) for v in point[:4]]
    return f"({', '.join(words)}{', ...' if len(point) > 4 else ''})"
