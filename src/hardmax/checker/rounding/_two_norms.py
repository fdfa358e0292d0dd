"""Rounding by 2-norms: bounds that grow with spectral norms, not with sums of absolute values.

A sublayer is s + O (p * (V s)) with gates p = c + D r, |D| <= 1 (`_gates`), so that it is M + O D V
with the known matrix M = I + O c V. Write P(j, k) for the product of the M from before sublayer j
to before sublayer k. Multiplied out from either end,

    X s_k      =  X P(0, k) s_0  +  sum_{j<k} X P(j+1, k) (O_j D_j V_j s_j + e_j),
    R J_n..J_j =  R P(j, n)      +  sum_{k>=j} [R J_n..J_k+1 O_k D_k] V_k P(j, k),

e_j being local errors. What is known is multiplied as it is, with its signs; of what is not, only
|D u| <= |u| is used. So, with r put beside O,

    N_k  = sup |V_k s_k|            <=  |V_k P(0, k) s_0| + sum_j |V_k P(j+1, k) O_j r_j| N_j + ...,
    E_k  = sup |R J_n..J_k+1 O_k r_k|  <=  |R P(k+1, n) O_k r_k|
                                           + sum_{j>k} E_j |V_j P(k+1, j) O_k r_k|,

    the answer is off by  sum_j |R P(j+1, n) e_j| + sum_{k>j} E_k |V_k P(j+1, k) e_j|.

The first line, with weights for gates, says how large what is computed can be; the others, with
slopes, what a rounding does to the answer. For a chain of n x n Gaussian matrices the norms grow by
about 2 a layer where absolute row sums grow by sqrt(n).

Sums. k terms t_i, added in any order, err by at most u times the partial sums, each at most
(sum |t_i| + |sum t_i|)/2 = the larger one of what is positive and what is negative. Of terms
O_ij m_j that is |O| |m|, and a rectifier's |m| <= z/2 + |z|/2 + excess is half a known linear
map, half a norm.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from hardmax.checker.rounding._flow import Flow
from hardmax.checker.rounding._format import Stored
from hardmax.checker.rounding._gates import Factor, Gates, NoGates, Places, gates_of
from hardmax.core import Box, ReadOut, VectorInput
from hardmax.numerics import (
    TINY,
    Format,
    MidRadius,
    inflate,
    length_up,
    matmul_up,
    norm_up,
    product_up,
    stray,
    up,
)

_LEAKING = 2.0**-30  # radii of gates that are closed, or open, but for what leaks
_MOST_NUMBERS = 2**21  # of a matrix: beyond, nothing is said


class Known(NamedTuple):
    """A matrix within `off` of `middle`, in Frobenius' norm, hence entry by entry and in 2-norms.

    What rounding takes away from products of matrices is so little that one number says it.
    """

    middle: np.ndarray
    off: float

    @classmethod
    def point(cls, matrix: np.ndarray) -> Known:
        return cls(matrix, 0.0)

    @property
    def size(self) -> np.ndarray:
        return np.asarray(up(np.abs(self.middle) + self.off))

    def times(self, factor: Factor) -> Known:
        """|A B|_F <= |A|_F |B|; the product's entries stray by gamma_n (|A| |B|)_ij."""
        operands, columns = factor.matrix.shape
        whole = product_up(length_up(np.abs(self.middle).ravel()), factor.length)
        lost = len(self.middle) * columns * operands * TINY
        strayed = stray(operands, float(whole)) + lost
        off = inflate(product_up(self.off, factor.norm) + strayed, 3)
        return Known(self.middle @ factor.matrix, float(off))

    def scaled(self, factors: np.ndarray) -> Known:
        """Times factors, column by column."""
        middle = self.middle * factors
        strayed = stray(1, length_up(np.abs(middle).ravel())) + middle.size * TINY
        most = float(np.abs(factors).max(initial=0.0))
        return Known(middle, float(inflate(product_up(self.off, most) + strayed, 3)))

    def plus(self, other: Known) -> Known:
        total = self.middle + other.middle
        strayed = stray(1, length_up(np.abs(total).ravel()))
        return Known(total, float(inflate(self.off + other.off + strayed, 3)))


class Norms:
    """Spectral norms from above; those of equal matrices are found once, for all formats."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, ...], bytes], float] = {}

    def of(self, known: Known) -> float:
        place = known.middle.shape, known.middle.tobytes()
        if place not in self._known:
            self._known[place] = norm_up(known.middle)
        return float(up(self._known[place] + known.off))

    @staticmethod
    def roughly(known: Known) -> float:
        """For what is multiplied by little."""
        return float(up(Factor(known.middle).norm + known.off))

    def scaled(self, known: Known, radius: np.ndarray) -> float:
        """Of a matrix whose columns are multiplied by radii; of those that only leak, roughly."""
        found = known.scaled(radius)
        return self.of(found) if _moves(radius) else self.roughly(found)


def _moves(radius: np.ndarray) -> bool:
    return bool(radius.max(initial=0.0) > _LEAKING)


class Step(NamedTuple):
    """M = I + O c V of a sublayer, multiplied out once: what it clears is 0, and stays so."""

    middle: Factor
    off: float  # within which M is of it, in Frobenius' norm

    @classmethod
    def of(cls, gates: Gates, centre: np.ndarray) -> Step:
        one = Known.point(np.eye(len(gates.writes.matrix)))
        moved = Known.point(gates.gated.matrix).scaled(centre).times(gates.reads)
        total = one.plus(moved)
        if gates.drift.any():  # a bias adds to what multiplies the constant 1
            last = np.zeros(total.middle.shape)
            last[:, -1] = gates.drift
            total = total.plus(Known.point(last))
        return cls(Factor(total.middle), total.off)


def through(x: Known, step: Step) -> Known:
    """X M."""
    after = x.times(step.middle)
    lost = product_up(up(length_up(np.abs(x.middle).ravel()) + x.off), step.off)
    return Known(after.middle, float(up(after.off + lost)))


class TwoNorms:
    """All sublayers as gates, and N_k for each of them."""

    def __init__(
        self, flow: Flow, source: VectorInput, domain: Box, places: Places, norms: Norms
    ) -> None:
        self.norms, self.places = norms, places
        self.gates = [gates_of(passed, places) for passed in flow.passed]
        if max((g.gated.matrix.size for g in self.gates), default=0) > _MOST_NUMBERS:
            raise NoGates
        self.start_off = places.vector(flow.start.off)
        at = places.tokens, places.coordinates
        self.offset = Factor(np.append(source.offsets[at], 1.0)[:, None])
        self.map = Factor(np.vstack([source.maps[at], np.zeros((1, source.inputs))]))
        self.inputs = MidRadius.between(domain.low.astype(float), domain.high.astype(float))
        self.steps = [Step.of(gates, gates.weights.centre) for gates in self.gates]
        self.read: list[float] = []  # N_k
        self.rounded: list[float] = []  # |local errors of the means|
        self.strayed: list[float] = []  # |e_k|, from what intervals say of it
        for k, gates in enumerate(self.gates):
            self.read.append(self.reach(k, Known.point(gates.reads.matrix)))
            grown = product_up(gates.growth.max(initial=0.0), self.read[k])
            by_norm = float(up(length_up(gates.steady) + grown))
            self.rounded.append(min(length_up(gates.rounded), by_norm))
            written = product_up(gates.writes.norm, self.rounded[k])
            self.strayed.append(float(up(length_up(gates.error) + written)))

    def reach(self, k: int, x: Known) -> float:
        """|X s_k| for every stream s_k that can be computed before sublayer k."""
        total = 0.0
        for j in range(k - 1, -1, -1):
            gates = self.gates[j]
            inner = self.norms.scaled(x.times(gates.gated), gates.weights.radius)
            uncertain = product_up(inner, self.read[j])
            lost = product_up(self.norms.roughly(x), self.strayed[j])
            total = inflate(total + uncertain + lost, 2)
            x = through(x, self.steps[j])
        return float(up(total + self._at_start(x)))

    def _at_start(self, x: Known) -> float:
        """|X s_0|: a known vector, an image of the box, whose corners are sqrt(d) away, and errors.

        The box may also be taken coordinate by coordinate.
        """
        fixed = x.times(self.offset)
        moved = x.times(self.map)
        middle = moved.times(Factor(self.inputs.middle[:, None]))
        spread = self.inputs.radius
        corner = product_up(self.norms.of(moved.scaled(spread)), length_up(np.ones(len(spread))))
        either = min(float(corner), length_up(matmul_up(moved.size, spread)))
        lost = product_up(self.norms.roughly(x), length_up(self.start_off))
        return float(inflate(length_up(fixed.plus(middle).size.ravel()) + either + lost, 3))

    def means(self, k: int, matrix: np.ndarray) -> float:
        """| G |m| | for the means m of sublayer k and a matrix G >= 0: by norms, or by halves."""
        gates, known = self.gates[k], Known.point(matrix)
        norm = self.norms.of(known)
        whole = float(product_up(norm, up(self.read[k] + self.rounded[k])))
        if not np.isfinite(gates.excess).all():
            return whole
        linear = self.reach(k, known.times(gates.own))
        over = length_up(matmul_up(matrix, gates.excess[:, None]).ravel())
        halves = inflate(0.5 * (linear + product_up(norm, self.read[k])) + over, 3)
        return min(whole, float(halves))


class Charges(NamedTuple):
    """|error_i| <= terms_i sum_j |O_ij m_j| + carried_i |x_i| + total_i |sum| + lost_i."""

    terms: np.ndarray
    carried: np.ndarray
    total: np.ndarray
    lost: np.ndarray


def charges_of(stored: Stored, rows: np.ndarray, some: np.ndarray) -> Charges:
    """What the sums O m + bias + x in some rows err by, in any order of their terms.

    As in `Sum.error`: with k terms, q = u/(1 - (k-1) u), base = b sum |O m| + t and partial sums of
    at most (sum |O m| + |x| + |total|)/2, the sum errs by
    base + q ((k-2) partial + |total| + (k-1) base) + (k-1) flushed.
    """
    format, u = stored.format, stored.format.unit
    size = np.where(stored.size > 0.0, stored.size, 1.0)
    doubt = (stored.moved / size).max(axis=1, initial=0.0)
    count = (stored.held > 0.0).sum(axis=1) + (stored.bias != 0.0) + 1.0
    inner = count - 1.0
    if (inner * u >= 0.5).any():
        raise NoGates
    q = u / (1.0 - inner * u)
    base = doubt + u * (1.0 + doubt)
    most = 0.5 * np.maximum(inner - 1.0, 0.0)
    t = format.smallest * count + stored.bias_moved + format.flushed * stored.held.sum(axis=1)
    lost = t * (1.0 + q * inner) + 2.0 * inner * format.flushed
    parts = base + q * (most + inner * base), q * most, q * (most + 1.0), lost
    terms = len(stored.columns) + 16
    return Charges(*(np.where(some, inflate(part, terms)[rows], 0.0) for part in parts))


class Later(NamedTuple):
    """A gate layer further on."""

    read: Known  # V_k P
    reach: np.ndarray  # E_k
    moves: bool  # or else it only leaks


class Backward:
    """What roundings do to the answer, collected from the end: R P, and for each gate layer V P."""

    def __init__(self, norms: Norms, answer: np.ndarray) -> None:
        self.norms = norms
        self.direct = Known.point(answer)  # R P
        self.doubt = np.zeros(answer.shape)  # within which R J_n..J_j is, entry by entry
        self.later: list[Later] = []
        self.total = np.zeros(len(answer))

    def add(
        self,
        through: Callable[[Known, np.ndarray], np.ndarray],
        size: Callable[[Known, bool], float],
    ) -> None:
        """An error e, |X e| <= through(X', D) for X within D of X', and |V P e| <= size(V P).

        Through R P and the norms of what comes later, or entry by entry.
        """
        more = [product_up(later.reach, size(later.read, later.moves)) for later in self.later]
        nothing = np.zeros(self.doubt.shape)
        by_norms = inflate(through(self.direct, nothing) + sum(more), len(more) + 1)
        by_entries = through(self.direct, self.doubt) if more else by_norms
        self.total = up(self.total + np.minimum(by_norms, by_entries))

    def add_means(self, known: TwoNorms, k: int) -> None:
        """The errors of a sublayer's means: entry by entry, or steady parts and a norm."""
        gates = known.gates[k]
        errors, steady = gates.rounded[:, None], gates.steady[:, None]

        def through(rows: Known, doubt: np.ndarray) -> np.ndarray:
            size = rows.times(gates.writes).size
            size = up(size + matmul_up(doubt, gates.writes.size)) if doubt.any() else size
            grown = [length_up(row) for row in product_up(size, gates.growth)]
            by_norm = inflate(matmul_up(size, steady)[:, 0] + product_up(grown, known.read[k]), 1)
            return np.asarray(np.minimum(matmul_up(size, errors)[:, 0], by_norm))

        def spread(read: Known, closely: bool) -> float:
            read = read.times(gates.writes)
            by_entries = length_up(matmul_up(read.size, errors).ravel())
            if not closely:
                return by_entries
            return min(by_entries, float(product_up(self.norms.of(read), known.rounded[k])))

        self.add(through, spread)

    def pass_gates(self, gates: Gates) -> None:
        """To before a sublayer."""
        slopes = gates.slopes
        direct = self.direct.times(gates.gated)
        inner = [later.read.times(gates.gated) for later in self.later]
        if slopes.radius.any():
            reach = np.array([length_up(row) for row in direct.scaled(slopes.radius).size])
            for known, later in zip(inner, self.later, strict=True):
                norm = self.norms.scaled(known, slopes.radius)
                reach = inflate(reach + product_up(later.reach, norm), 2)
        step = Step.of(gates, slopes.centre)
        held = [later._replace(read=through(later.read, step)) for later in self.later]
        doubt = matmul_up(self.doubt, gates.gated.size)
        most = inflate(np.abs(slopes.centre) + slopes.radius, 1)
        doubt = inflate(product_up(doubt, most) + product_up(direct.size, slopes.radius), 1)
        self.doubt = up(self.doubt + matmul_up(doubt, gates.reads.size))
        self.direct = through(self.direct, step)
        read = Known.point(gates.reads.matrix)
        fresh = [Later(read, reach, _moves(slopes.radius))] if slopes.radius.any() else []
        self.later = held + fresh

    def add_sums(self, known: Sums) -> None:
        """The errors of many sums: entry by entry as intervals say, or by norms."""

        def through(rows: Known, doubt: np.ndarray) -> np.ndarray:
            return np.array([known.effect(row) for row in up(rows.size + doubt)])

        def spread(read: Known, closely: bool) -> float:
            by_entries = length_up(matmul_up(read.size, known.error[:, None]).ravel())
            if not closely:
                return by_entries
            return min(by_entries, float(product_up(self.norms.of(read), known.length)))

        self.add(through, spread)


class Sums:
    """Sums O m + bias + x of one sublayer, and how far they err together."""

    def __init__(
        self,
        error: np.ndarray,
        charges: Charges,
        size: np.ndarray,
        carried: np.ndarray,
        total: float,
        means: Callable[[np.ndarray], float],
    ) -> None:
        self.error, self.charges, self.size, self.total = error, charges, size, total
        self.means = means  # |G |m| | for matrices G >= 0
        self.apart = inflate(product_up(charges.carried, carried) + charges.lost, 1)
        inside = product_up(charges.terms.max(initial=0.0), means(size[error > 0.0]))
        outside = product_up(charges.total.max(initial=0.0), total) + length_up(self.apart)
        self.length = min(length_up(error), float(inflate(inside + outside, 2)))  # |e|

    @classmethod
    def of(cls, known: TwoNorms, k: int) -> Sums:
        gates = known.gates[k]
        here = gates.error > 0.0
        bias = np.where(here, np.abs(gates.stored.bias)[gates.rows], 0.0)
        carried = np.where(here, up(gates.before + bias), 0.0)
        means = up(known.read[k] + known.rounded[k])
        written = product_up(known.norms.of(Known.point(gates.writes.matrix[here])), means)
        total = float(up(length_up(carried) + written))
        charges = charges_of(gates.stored, gates.rows, here)
        return cls(gates.error, charges, gates.writes.size, carried, total, partial(known.means, k))

    @classmethod
    def at_start(cls, known: TwoNorms, format: Format) -> Sums:
        """The embedding: means are the inputs themselves, and nothing is carried."""
        here = known.start_off > 0.0
        offset = known.offset.matrix[:, 0]
        stored = Stored.of(known.map.matrix, format, offset)
        rows, bias = np.arange(len(here)), np.where(here, np.abs(offset), 0.0)
        size = np.maximum(np.abs(known.inputs.low), np.abs(known.inputs.high))
        moved = np.where(here[:, None], known.map.matrix, 0.0)
        linear = Known.point(moved).times(Factor(known.inputs.middle[:, None])).size.ravel()
        corner = known.norms.of(Known.point(moved).scaled(known.inputs.radius))
        corner = product_up(corner, length_up(np.ones(len(size))))
        total = float(inflate(length_up(linear) + corner + length_up(bias), 2))
        return cls(
            known.start_off,
            charges_of(stored, rows, here),
            known.map.size,
            bias,
            total,
            lambda matrix: length_up(matmul_up(matrix, size[:, None]).ravel()),
        )

    def effect(self, row: np.ndarray) -> float:
        """|row| |e|."""
        charges = self.charges
        terms = matmul_up(product_up(row, charges.terms)[None], self.size)
        by_norm = self.means(terms) + float(matmul_up(row[None], self.apart[:, None])[0, 0])
        by_norm += float(product_up(length_up(product_up(row, charges.total)), self.total))
        by_entries = float(matmul_up(row[None], self.error[:, None])[0, 0])
        return min(by_entries, float(inflate(by_norm, 3)))


def two_norm_bound(
    flow: Flow,
    source: VectorInput,
    domain: Box,
    readout: ReadOut,
    read: int,
    format: Format,
    norms: Norms,
) -> np.ndarray:
    """A bound on the deviation of what is read off a token; infinite where there are no gates."""
    places = Places(flow, readout, [read])
    try:
        known = TwoNorms(flow, source, domain, places, norms)
        backward = Backward(norms, places.columns(readout.weights, read))
        for k in range(len(known.gates) - 1, -1, -1):
            backward.add_sums(Sums.of(known, k))
            backward.add_means(known, k)
            backward.pass_gates(known.gates[k])
        backward.add_sums(Sums.at_start(known, format))
    except NoGates:
        return np.full(readout.outputs, np.inf)
    return backward.total
