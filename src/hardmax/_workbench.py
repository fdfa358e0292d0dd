"""The story in the order it happens: plan, compile, measure, certify, save, load."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import wraps
from numbers import Integral
from typing import ParamSpec, TypeVar, overload

import numpy as np

from hardmax import checker
from hardmax._errors import FileError, RequestError
from hardmax._version import __version__
from hardmax.checker import Budget, Certificate, Progress
from hardmax.core import (
    Box,
    Construction,
    SequenceTrace,
    Target,
    Word,
    Words,
    evaluate,
    trace_sequence,
)
from hardmax.interop import StoredConstruction, read_safetensors, write_safetensors
from hardmax.languages import Expression, Function, decode_target
from hardmax.languages.programs import Program
from hardmax.lowering import (
    Plan,
    ProgramPlan,
    as_target,
    domain_of,
    is_function,
    lower,
    lower_function,
    lower_program,
    plan_function,
    plan_network,
    words_for,
)
from hardmax.lowering import plan_program as lower_plan
from hardmax.numerics import FORMATS, Format, Interval, format_named
from hardmax.passes import soften

Source = str | Expression | Sequence[Expression] | Target | Program
Domain = Box | Words | str | Mapping[str, tuple[float, float]] | Sequence[object] | np.ndarray
File = str | os.PathLike[str]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_CHUNK = 4096
_WORDS = 256


def _shallow(door: Callable[_P, _R]) -> Callable[_P, _R]:
    """The same, with a refusal instead of Python's own where something is nested too deeply.

    Programs and expressions are trees, and many parts walk them from the root; all of them come
    through these doors.
    """

    @wraps(door)
    def safe(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return door(*args, **kwargs)
        except RecursionError:
            raise RequestError(
                "This is nested too deeply for Python's stack; split it up, or write it with "
                "fewer steps that wait for each other."
            ) from None

    return safe


@_shallow
def compile(
    source: Source,
    *,
    on: Domain | None = None,
    error: float | None = 1e-3,
    route: str | None = None,
    prefer: str | None = None,
    float: str | None = None,
    alphabet: Iterable[str | int] | None = None,
    length: int | None = None,
    positions: str | None = None,
) -> Construction:
    """A Transformer that computes `source` on the domain `on` to within `error`.

    `source` is a function (text such as "x*y", expressions, a `Function`, or a `CallableFunction`),
    a network or a piecewise linear function. `on` names a range for each variable,
    {"x": (-1, 1), "y": (0, 2)}; for networks it is a `Box`, a pair (low, high) for all
    coordinates, or a text such as "[-1,1]^8".

    For a function the planner picks the route with the fewest parameters, or by `prefer`
    (parameters, layers, heads, logit); `plan` shows them all. Feed-forward routes are taken by name
    alone: "feedforward", and "gated", where hidden units multiply exactly. For a network `route`
    is "attention" (the default), "attention-only", or "feedforward" for ReLU networks, and
    `error=None` keeps the hard skeleton, which is exact over the rationals.

    `float` is the format that the claim is about: "float64" (the default), "float32", "float16" or
    "bfloat16". The error then holds for an evaluation in that format, weights cast to it, inputs
    that are numbers of it; its rounding is in the ledger, and fits are made for it. A function's
    weights are numbers of the format themselves; a network's stay as they were given. An error
    that the format cannot reach is refused with one that it can. `prefer="float32"` says
    float="float32", too.

    For a sequence program give an `alphabet` (a text or a list of symbols) and the largest
    `length`, or on=hm.Words(...): the decoded answer is the interpreter's for every such word.
    `positions` are "scalar" (the index and functions of it), "one-hot", "sinusoidal", "relative"
    (biases only) or "none"; `route` is "shallow" (the default) or "parallel", for machines, or
    "legible": one step, one component, one named block, with `model.circuit` to read it by, and
    positions that are "one-hot" (the default there), "relative" (masks and position biases compare
    places) or "scalar" (masks for order; the index is a number). What a mask stands for cannot be
    intervened on.

    >>> import hardmax as hm
    >>> product = hm.compile("x * y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2)
    >>> product.claim.error <= 1e-2
    True
    >>> hm.compile(hm.programs.sort, alphabet="abc", length=4)("cab")
    ['a', 'b', 'c']
    >>> hm.certify(hm.compile("1/x", on={"x": (0.1, 1)}, float="float32")).holds_in
    ('float64', 'float32')
    """
    format, prefer = _format_of(float, prefer)
    if isinstance(source, Program):
        words = words_for(source, on, alphabet, length)
        if route is not None and prefer is not None:
            raise RequestError(
                "Give a route or a preference, not both: a route leaves nothing to pick."
            )
        if prefer is not None:
            whole_plan = lower_plan(source, words, positions=positions, format=format)
            return whole_plan.build(prefer)
        return lower_program(source, words, positions=positions, route=route, format=format)
    target = as_target(source)
    if on is None:
        raise RequestError('Say on which domain: on={"x": (-1, 1)}, or on="[-1,1]^2".')
    if is_function(target):
        if error is None:
            raise RequestError("A function needs an error > 0, for example error=1e-3.")
        box = domain_of(target, on)
        return lower_function(target, box, error, route=route, prefer=prefer, format=format)
    domain = Box.of(on, target.inputs)
    if prefer is not None:
        return plan_network(target, domain, error, format=format).build(prefer)
    return soften(lower(target, domain, route, format=format), error=error, float=format.name)


def _format_of(float: str | None, prefer: str | None) -> tuple[Format, str | None]:
    """The format that claims are about, and what else is preferred.

    A preference for float32 is older than `float`, and says the same.
    """
    if prefer != "float32":
        return format_named("float64" if float is None else float), prefer
    if float not in (None, "float32"):
        raise RequestError(
            f'prefer="float32" is another word for float="float32"; it cannot go with {float!r}.'
        )
    return FORMATS["float32"], "parameters"


@overload
def plan(
    source: Program,
    *,
    on: Domain | None = None,
    error: float | None = 1e-3,
    prefer: str | None = None,
    float: str | None = None,
    alphabet: Iterable[str | int] | None = None,
    length: int | None = None,
    positions: str | None = None,
) -> ProgramPlan: ...


@overload
def plan(
    source: str | Expression | Sequence[Expression] | Target,
    *,
    on: Domain | None = None,
    error: float | None = 1e-3,
    prefer: str | None = None,
    float: str | None = None,
) -> Plan: ...


@_shallow
def plan(
    source: Source,
    *,
    on: Domain | None = None,
    error: float | None = 1e-3,
    prefer: str | None = None,
    float: str | None = None,
    alphabet: Iterable[str | int] | None = None,
    length: int | None = None,
    positions: str | None = None,
) -> Plan | ProgramPlan:
    """Every route for `source` side by side: what each costs and what it would claim.

    The arguments are those of `compile`. For functions nothing is built. The routes of networks
    and programs are lowered to be counted; a program's say why they can be taken, too.

    >>> import hardmax as hm
    >>> plan = hm.plan("x * y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2)
    >>> plan.choose().route, plan.choose().resources["heads"]
    ('direct', 1)
    >>> hm.plan(hm.programs.reverse, alphabet="ab", length=3).choose().route
    'shallow'
    """
    format, _ = _format_of(float, prefer)
    if isinstance(source, Program):
        words = words_for(source, on, alphabet, length)
        return lower_plan(source, words, positions=positions, format=format)
    target = as_target(source)
    if on is None:
        raise RequestError('Say on which domain: on={"x": (-1, 1)}, or on="[-1,1]^2".')
    if is_function(target):
        if error is None:
            raise RequestError("A function needs an error > 0, for example error=1e-3.")
        return plan_function(target, domain_of(target, on), error, format=format)
    return plan_network(target, Box.of(on, target.inputs), error, format=format)


def plan_program(
    program: Program,
    *,
    on: Domain | None = None,
    alphabet: Iterable[str | int] | None = None,
    length: int | None = None,
    positions: str | None = None,
) -> ProgramPlan:
    """The same as `plan`, which takes programs too: this name stays for one release.

    >>> import hardmax as hm
    >>> len(hm.plan_program(hm.programs.copy, alphabet="ab", length=2).offers)
    2
    """
    return plan(program, on=on, alphabet=alphabet, length=length, positions=positions)


@dataclass(frozen=True)
class Measurement:
    """The largest error seen among sampled points, or words: a lower bound of the true one.

    >>> import hardmax as hm
    >>> seen = hm.measure(hm.compile("x + y", on="[0,1]^2"), 100)
    >>> len(seen.at), seen.points
    (2, 100)
    """

    error: float
    at: tuple[float | str, ...]
    points: int

    def __str__(self) -> str:
        return f"{self.error:.6g} measured on {self.points:,} points"


@_shallow
def measure(
    construction: Construction,
    points: int = 100_000,
    *,
    seed: int = 0,
    progress: Callable[[int], object] | None = None,
) -> Measurement:
    """Sample the domain, corners and faces included, and report the largest error seen.

    A domain of words that has no more than `points` is gone through. `progress` is called with
    the number of points done since the last call.

    >>> import hardmax as hm
    >>> model = hm.compile("x * y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2)
    >>> hm.measure(model, 1000).error <= model.claim.error
    True
    """
    construction = _given_model(construction, "measure(model)")
    if isinstance(points, bool) or not isinstance(points, Integral) or points < 1:
        raise RequestError(f"At least one point must be measured, not {points!r}.")
    rng = np.random.default_rng(seed)
    claim = construction.claim
    if isinstance(claim.domain, Words):
        few = claim.domain.count <= points
        words = list(claim.domain) if few else claim.domain.sample(points, rng)
        return _measure_words(construction, words, progress)
    worst, where = -1.0, np.zeros(claim.domain.dimension)
    for start in range(0, points, _CHUNK):
        sample = claim.domain.sample(min(_CHUNK, points - start), rng)
        errors = _distances(construction(sample), claim.target, sample).max(axis=1)
        errors = np.where(np.isnan(errors), np.inf, errors)
        if errors.max() > worst:
            worst, where = float(errors.max()), sample[errors.argmax()]
        if progress is not None:
            progress(len(sample))
    return Measurement(worst, tuple(float(v) for v in where), points)


def _measure_words(
    construction: Construction, words: list[Word], progress: Callable[[int], object] | None
) -> Measurement:
    """The largest distance of a number read out to the target's own."""
    target, worst, where = construction.claim.target, -1.0, words[0]
    for start in range(0, len(words), _WORDS):
        chunk = words[start : start + _WORDS]
        for word, outputs in zip(chunk, evaluate(construction.transformer, chunk), strict=True):
            true = np.array(target(word), dtype=np.float64).reshape(outputs.shape)
            error = float(np.abs(outputs - true).max(initial=0.0))
            error = np.inf if np.isnan(error) else error
            worst, where = (error, word) if error > worst else (worst, where)
        if progress is not None:
            progress(len(chunk))
    return Measurement(worst, where, len(words))


def _distances(outputs: np.ndarray, target: Target, points: np.ndarray) -> np.ndarray:
    """How far outputs are from the target; a function's own rounding is not held against them."""
    if not isinstance(target, Function):
        return np.abs(outputs - target(points))
    true = target(Interval.point(points.T))
    below, above = true.lo.T - outputs, outputs - true.hi.T
    return np.maximum(np.maximum(below, above), 0.0)


@_shallow
def trace(construction: Construction, word: Iterable[str | int] | None = None) -> SequenceTrace:
    """How a model of sequences gets to its answer: attention and stream, told by its legend.

    `trace.heads` are the heads with the program's steps that they do, `trace.streams` what every
    token holds after every sublayer, `trace.coordinates` what that means; of a legible model
    `trace.in_words` is all of it as a text.

    >>> import hardmax as hm
    >>> model = hm.compile(hm.programs.reverse, alphabet="abc", length=3)
    >>> hm.trace(model, "ab").word
    ('a', 'b')
    """
    construction = _given_model(construction, 'trace(model, "abc")')
    if word is None:
        if isinstance(construction.claim.domain, Words):
            raise RequestError('Say which word to follow, for example hm.trace(model, "abc").')
        word = ()  # which a model of numbers refuses, as it does every word
    if not isinstance(word, Iterable):
        raise RequestError(f"A word is a text or a list of symbols, not {word!r}.")
    return trace_sequence(construction.transformer, word, construction.legend, construction.circuit)


@_shallow
def certify(
    construction: Construction,
    *,
    tolerance: float | None = None,
    budget: Budget | str | float | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Certificate:
    """What an independent checker establishes about the claim, from the weights alone.

    It stops as soon as the claim is proved or refuted; with a `tolerance` it goes on until
    certified <= (1 + tolerance) measured. `budget` is a text such as "1e8 work" or "1e6 boxes",
    for which the verdict is the same on every machine, or a time such as "30s", or a `Budget`: 6e7
    units of work, about a minute, are the default. `executor` is any
    `concurrent.futures.Executor`, on which large proofs are spread; `progress` is called with a
    `Standing` now and then. Ctrl-C ends the search with the best verdict so far.

    Only a certificate whose verdict is PROVED is success: undecided is not.

    >>> import hardmax as hm
    >>> model = hm.compile("x * y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2)
    >>> certificate = hm.certify(model)
    >>> certificate.verdict.name
    'PROVED'
    >>> certificate.measured <= certificate.certified <= model.claim.error
    True
    """
    certificate = checker.certify(
        _given_model(construction, "certify(model)"),
        tolerance=tolerance,
        budget=budget,
        executor=executor,
        progress=progress,
    )
    return replace(certificate, version=__version__)


@_shallow
def save(construction: Construction, path: File, certificate: Certificate | None = None) -> None:
    """Write one safetensors file that holds weights, structure, target, claim and witness.

    A certificate goes into the same file, with what it is about; one about anything else than
    this construction is refused.

    >>> import hardmax as hm, tempfile
    >>> model = hm.compile("x + y", on="[0,1]^2")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hm.save(model, f"{folder}/sum.safetensors", hm.certify(model))
    ...     hm.load(f"{folder}/sum.safetensors").claim.error == model.claim.error
    True
    """
    construction = _given_model(construction, "save(model, path)")
    _check_path(path, "save(model, path)")
    if certificate is None:
        return write_safetensors(construction, path)
    if not isinstance(certificate, Certificate):
        raise RequestError(
            f"What goes beside a model is its certificate, hm.certify(model), not a "
            f"{type(certificate).__name__}."
        )
    other = certificate.altered(construction)
    if other:
        raise RequestError(
            f"The certificate is about another {' and '.join(other)}. Certify this construction: "
            f"save(construction, path, certify(construction))."
        )
    write_safetensors(construction, path, certificate=certificate.as_dict())


@_shallow
def load(path: File) -> Construction:
    """Read back what `save` wrote; a truncated, foreign or altered file is refused.

    >>> import hardmax as hm, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hm.save(hm.compile("x + y", on="[0,1]^2"), f"{folder}/sum.safetensors")
    ...     print(hm.load(f"{folder}/sum.safetensors").claim.target)
    x, y -> x + y
    """
    _check_path(path, "load(path)")
    return _with_target(path, read_safetensors(path))


@_shallow
def load_certificate(path: File) -> Certificate | None:
    """The certificate stored with a model, or None: what was once established, not confirmed.

    `certificate.altered(load(path))` names what it is not about, if anything was changed since.

    >>> import hardmax as hm, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hm.save(hm.compile("x + y", on="[0,1]^2"), f"{folder}/sum.safetensors")
    ...     print(hm.load_certificate(f"{folder}/sum.safetensors"))
    None
    """
    _check_path(path, "load_certificate(path)")
    return _certificate(path, read_safetensors(path))


@_shallow
def load_certified(path: File) -> tuple[Construction, Certificate | None]:
    """The model and its stored certificate from one reading of the file.

    >>> import hardmax as hm, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = hm.compile("x + y", on="[0,1]^2")
    ...     hm.save(model, f"{folder}/sum.safetensors", hm.certify(model))
    ...     model, certificate = hm.load_certified(f"{folder}/sum.safetensors")
    >>> certificate.altered(model)
    ()
    """
    _check_path(path, "load_certified(path)")
    stored = read_safetensors(path)
    return _with_target(path, stored), _certificate(path, stored)


def _given_model(given: object, call: str) -> Construction:
    """A model as it is; anything else that a first guess may hold is told what to do instead."""
    if isinstance(given, Construction):
        return given
    if isinstance(given, str | os.PathLike):
        advice = f"the text {str(given)[:60]!r} came first; hm.compile(text, on=...) makes a model"
        advice += " of a function, and hm.load(path) reads one from a file"
    else:
        advice = f"a {type(given).__name__} came first; hm.compile(source, on=...) makes a model"
    raise RequestError(f"Write hm.{call} with a model: {advice}.")


def _check_path(path: object, call: str) -> None:
    if not isinstance(path, str | os.PathLike):
        raise RequestError(
            f"Write hm.{call}: the path of a file was needed, but a {type(path).__name__} came."
        )


def _with_target(path: File, stored: StoredConstruction) -> Construction:
    if stored.encoded_target is None:
        raise FileError(
            f"{path} has an opaque target: a Python function, which no file can hold, so the claim "
            f"cannot be verified from the file. Certify it in Python, where the function is known."
        )
    return stored.join(decode_target(stored.encoded_target))


def _certificate(path: File, stored: StoredConstruction) -> Certificate | None:
    if stored.certificate is None:
        return None
    try:
        return Certificate.from_dict(stored.certificate)
    except FileError as reason:
        raise FileError(
            f"{path} {reason} The model itself loads; hm.save(hm.load(path), path) drops it."
        ) from reason
