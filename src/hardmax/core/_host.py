"""What a stock architecture does to a model that it carries: norms, activations, casts.

A Transformer of the waist has no layer norm and exact ReLUs. A host has both kinds of trouble, and
is still one: columns of its stream that nobody writes keep the norm's divisor nearly constant, and
a steep activation is nearly a ReLU. What is left over is said here, as the numbers that the
host's own files hold; whoever certifies derives from them, and from ranges of its own, how far the
host can be from the Transformer. Nothing here is a bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from hardmax._errors import RequestError, ShapeError
from hardmax.numerics import FORMATS

NORMS = ("rms", "layer")
ACTIVATIONS = ("silu", "gelu", "gelu_tanh")


@dataclass(frozen=True)
class Norm:
    """What stands between the host's stream and the matrices that read it.

    The host's stream h has `width` columns: ours, x, and `constants`, pairs (value, how many) of
    columns that no sublayer ever writes. With C the sum of their squares, S that of ours, and m
    the mean of all columns (0 for an RMS norm, which subtracts none), what is read of column i is

        gain (h_i - m) / sqrt((C + S)/width - m^2 + epsilon).

    The weights of the Transformer are those of the host times `scale`, a power of two near
    gain / sqrt(C/width + epsilon), and constant columns are biases there. So where the Transformer
    reads W x + b, the host reads F W x + b for one factor F of each token,

        F = gain / (scale sqrt((C + S)/width - m^2 + epsilon)),

    which is near 1 as long as S is small beside C; if `biases_normed`, F (W x + b). A "layer" norm
    needs rows whose entries add up to exactly 0 over all columns of the host, columns that hold 0
    included: then w . (h - m) = w . h for every m. At most `zeros` of those columns are read by one
    row, and their weights' sizes add up to no more than 65/64 of the sizes of its other weights.

    `computes_in` is a format that the norm is cast to whatever the stream's own is, and
    `variance_in` one in which the mean of squares alone is taken.

    >>> from hardmax.core import Norm
    >>> Norm("rms", width=4, epsilon=1e-5, gain=1024.0, scale=1.0, constants=((2048.0, 1),)).ballast
    Fraction(4194304, 1)
    """

    kind: str
    width: int
    epsilon: float
    gain: float
    scale: float
    constants: tuple[tuple[float, int], ...] = ()
    computes_in: str | None = None
    variance_in: str | None = None
    biases_normed: bool = False
    zeros: int = 1

    def __post_init__(self) -> None:
        pairs = tuple((float(value), int(count)) for value, count in self.constants)
        object.__setattr__(self, "constants", pairs)
        if self.kind not in NORMS:
            raise RequestError(f"A norm is one of {', '.join(NORMS)}, not {self.kind!r}.")
        numbers = (self.epsilon, self.gain, self.scale, *(value for value, _ in pairs))
        if not all(math.isfinite(number) for number in numbers):
            raise RequestError("A norm's numbers must be finite.")
        if not (self.epsilon >= 0.0 and self.gain > 0.0 and self.scale > 0.0):
            raise RequestError("A norm needs an epsilon from 0 on, and a gain and a scale above 0.")
        if math.frexp(self.scale)[0] != 0.5:
            raise RequestError(f"A norm's scale is a power of two, not {self.scale!r}.")
        if any(count < 1 for _, count in pairs) or self.still > self.width:
            raise ShapeError(
                f"A norm over {self.width} columns cannot have {self.still} constant ones."
            )
        if self.zeros < 0:
            raise ShapeError(f"A norm's rows cannot read {self.zeros} columns that hold 0.")
        if not {self.computes_in, self.variance_in} <= {None, *FORMATS}:
            raise RequestError(f"A norm computes in one of {', '.join(FORMATS)}.")

    @property
    def still(self) -> int:
        """How many columns are constants."""
        return sum(count for _, count in self.constants)

    @property
    def ballast(self) -> Fraction:
        """The sum of the squares of all constant columns."""
        return sum((Fraction(v) ** 2 * count for v, count in self.constants), Fraction(0))

    @property
    def level(self) -> Fraction:
        """The sum of all constant columns."""
        return sum((Fraction(v) * count for v, count in self.constants), Fraction(0))


@dataclass(frozen=True)
class Activation:
    """What a host has where the Transformer has a ReLU: act(steepness z) / steepness.

    The steepness is a power of two, which is part of the host's weights on both sides.

    >>> from hardmax.core import Activation
    >>> Activation("silu", steepness=2.0**30)
    Activation(kind='silu', steepness=1073741824.0)
    """

    kind: str
    steepness: float

    def __post_init__(self) -> None:
        if self.kind not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise RequestError(f"An activation is one of {known}, not {self.kind!r}.")
        if not (math.isfinite(self.steepness) and math.frexp(self.steepness)[0] == 0.5):
            raise RequestError(f"A steepness is a power of two, not {self.steepness!r}.")


@dataclass(frozen=True)
class Rotary:
    """Rotary positions: plane i of a head turns by t theta^(-i/planes) at token t.

    The Transformer's heads use the first coordinate of each plane from `first` on and nothing
    else, so that a product q k of theirs becomes q k cos((t - s) theta^(-i/planes)).

    >>> from hardmax.core import Rotary
    >>> Rotary(theta=10000.0, planes=32, first=30)
    Rotary(theta=10000.0, planes=32, first=30)
    """

    theta: float
    planes: int
    first: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.theta) and self.theta >= 1.0):
            raise RequestError(f"Rotary positions need a finite theta from 1 on, not {self.theta}.")
        if not 0 <= self.first < self.planes:
            raise RequestError(f"Plane {self.first} is none of {self.planes} rotary planes.")


@dataclass(frozen=True)
class Host:
    """An architecture that carries a Transformer: what it does to every read.

    `norms` has an entry for each sublayer of the Transformer and a last one for the read-out;
    `activations` one for each sublayer. None is nothing. `softmax_in` is a format in which
    attention takes its weights, whatever the stream's own is: scores are cast to it. `score_scale`
    is a power of two by which sums of products of queries and keys are multiplied; before, they
    are so much larger. `rotary` is what all heads' queries and keys go through. `mask` is what
    scores are lowered by where a causal head looks at a later token, if that is a number and not
    infinity. `classes` are the codes c_v of the classes, if the host does not compute the answer y
    but one logit 2 c_v y - c_v^2 for each of them, of which the largest one counts.

    >>> from hardmax.core import Host
    >>> Host("t5", norms=(None, None), activations=(None,)).norms
    (None, None)
    """

    architecture: str
    norms: tuple[Norm | None, ...]
    activations: tuple[Activation | None, ...]
    softmax_in: str | None = None
    rotary: Rotary | None = None
    mask: float | None = None
    classes: tuple[float, ...] = ()
    score_scale: float = 1.0

    def __init__(
        self,
        architecture: str,
        norms: Iterable[Norm | None],
        activations: Iterable[Activation | None],
        softmax_in: str | None = None,
        rotary: Rotary | None = None,
        mask: float | None = None,
        classes: Iterable[float] = (),
        score_scale: float = 1.0,
    ) -> None:
        object.__setattr__(self, "architecture", architecture)
        object.__setattr__(self, "norms", tuple(norms))
        object.__setattr__(self, "activations", tuple(activations))
        object.__setattr__(self, "softmax_in", softmax_in)
        object.__setattr__(self, "rotary", rotary)
        object.__setattr__(self, "mask", mask)
        object.__setattr__(self, "classes", tuple(map(float, classes)))
        object.__setattr__(self, "score_scale", float(score_scale))
        if len(self.norms) != len(self.activations) + 1:
            raise ShapeError(
                f"A host has a norm for each of {len(self.activations)} sublayers and one for the "
                f"read-out, but {len(self.norms)} were given."
            )
        if mask is not None and not 0.0 < mask < math.inf:
            raise RequestError(f"A mask lowers scores by a finite number above 0, not {mask!r}.")
        if len(set(self.classes)) < len(self.classes) or not all(map(math.isfinite, self.classes)):
            raise RequestError("Classes have codes that are finite and all different.")
        if not (0.0 < score_scale < math.inf and math.frexp(score_scale)[0] == 0.5):
            raise RequestError(f"Scores are scaled by a power of two, not by {score_scale!r}.")
        if softmax_in is not None and softmax_in not in FORMATS:
            raise RequestError(f"A softmax is taken in one of {', '.join(FORMATS)}.")
