"""Disguise: legible models whose insides are as hard to find as somebody likes, and still known.

What is drawn is drawn in `languages`, what becomes of the weights is decided in `passes`, and what
holds of them is proved in `checker`; here it is asked for, in order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hardmax import checker
from hardmax._errors import RequestError
from hardmax.checker import Verdict
from hardmax.core import Construction, Words, fingerprint
from hardmax.languages.programs import Program, ProgramTarget, with_distractors
from hardmax.lowering import lower_program
from hardmax.numerics import format_named
from hardmax.passes import add_noise, legible_circuit
from hardmax.passes import rotate as rotated


class Disguise(NamedTuple):
    """What is asked for."""

    rotate: int = 0
    distractors: int = 0
    noise: float = 0.0


LEVELS = (Disguise(), Disguise(3), Disguise(3, 4), Disguise(3, 4, 2.0**-12))
_FAINTEST = 1e-14  # of the noise that is tried
_POSITIONS = ("one-hot", "relative", "scalar")
_ROTATE, _DISTRACTORS, _NOISE = range(3)  # each draws for itself


def disguise(
    model: Construction,
    *,
    level: int | None = None,
    rotate: int | None = None,
    distractors: int | None = None,
    noise: float | None = None,
    seed: int = 0,
) -> Construction:
    """A legible model in disguise: the same program, known inside, no longer aligned with the axes.

    - `rotate`: so many rounds of exactly orthogonal reflections turn the stream, so that a step
      lies along directions, `model.circuit.projection(step)`, instead of coordinates;
    - `distractors`: so many more steps that are true of a word and that no answer reads;
      `model.circuit.relevant` are the nodes that do reach the answer;
    - `noise`: every weight is moved by up to so much. What the claim does not bear is refused.

    A `level` is a ladder: 0 legible, 1 rotated (3 rounds), 2 with distractors (4), 3 with as much
    noise as is borne, up to 2^-12; what is given besides replaces its part. Without a level, what
    is not given is left as it is; with nothing given it is level 1.

    The result is a Construction like any other: `certify` proves it again from its own weights, and
    `intervene` overwrites steps through their projections.

    >>> import hardmax as hm
    >>> model = hm.compile(hm.programs.reverse, alphabet="ab", length=3, route="legible")
    >>> hidden = hm.disguise(model, rotate=2, seed=1)
    >>> hm.certify(hidden).verdict.name, hidden("abb")
    ('PROVED', ['b', 'b', 'a'])
    >>> hm.intervene(hidden, "abb", {"tokens": {0: "b"}})
    ['b', 'b', 'b']
    >>> tokens = hidden.circuit.projection("tokens")
    >>> (hm.trace(hidden, "abb").streams[0] @ tokens.T).round().tolist()[1:]
    [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    """
    if not isinstance(model, Construction):
        raise RequestError(f"disguise takes a model, not a {type(model).__name__}.")
    legible_circuit(model)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise RequestError(f"A seed is a whole number from 0 on, not {seed!r}.")
    nothing = rotate is None and distractors is None and noise is None
    wanted = _level(level, 1 if nothing else 0)
    wanted = Disguise(
        wanted.rotate if rotate is None else rotate,
        wanted.distractors if distractors is None else distractors,
        wanted.noise if noise is None else noise,
    )
    if wanted.distractors:
        model = _with_distractors(model, wanted.distractors, _source(seed, _DISTRACTORS))
    model = rotated(model, wanted.rotate, _source(seed, _ROTATE))
    if not wanted.noise:
        return add_noise(model, wanted.noise, _source(seed, _NOISE))
    return _with_noise(model, wanted.noise, seed, as_borne=noise is None)


def _source(seed: int, part: int) -> np.random.Generator:
    return np.random.default_rng([seed, part])


def _level(level: int | None, otherwise: int) -> Disguise:
    if level is None:
        return LEVELS[otherwise]
    if isinstance(level, bool) or not isinstance(level, int) or not 0 <= level < len(LEVELS):
        raise RequestError(f"A level of disguise is from 0 to {len(LEVELS) - 1}, not {level!r}.")
    return LEVELS[level]


def _with_distractors(model: Construction, many: int, chance: np.random.Generator) -> Construction:
    """The program compiled again, with more steps beside it."""
    target = model.claim.target
    if not isinstance(target, ProgramTarget):
        raise RequestError("Distractors stand beside sequence programs; this is the model of none.")
    for positions in _POSITIONS:
        again = _compiled(model, target.program, positions)
        if again is not None and fingerprint(again.transformer) == fingerprint(model.transformer):
            program = with_distractors(target.program, target.words, many, chance)
            found = _compiled(model, program, positions)
            assert found is not None
            return found
    raise RequestError(
        "Distractors are compiled together with the program, but the weights of this model are not "
        'those of its program, compiled with route="legible".'
    )


def _compiled(model: Construction, program: Program, positions: str) -> Construction | None:
    """The program on the model's words, if positions can be held like that."""
    words, format = model.claim.domain, format_named(model.claim.format)
    assert isinstance(words, Words)
    try:
        return lower_program(program, words, positions=positions, route="legible", format=format)
    except RequestError:
        if positions == _POSITIONS[0]:
            raise
        return None


def _with_noise(model: Construction, noise: float, seed: int, as_borne: bool) -> Construction:
    """The noise that was asked for, or of a level as much as is borne."""
    found = add_noise(model, noise, _source(seed, _NOISE))
    if _is_proved(found):
        return found
    borne = noise / 4
    while borne >= _FAINTEST:
        less = add_noise(model, borne, _source(seed, _NOISE))
        if _is_proved(less):
            if as_borne:
                return less
            raise RequestError(
                f"Noise of {noise:g} is more than the claim bears; noise of {borne:g} is borne."
            )
        borne /= 4
    raise RequestError(f"The claim bears no noise of {_FAINTEST:g} or more.")


def _is_proved(model: Construction) -> bool:
    return checker.certify(model).verdict is Verdict.PROVED
