"""A Transformer on vectors and its target, written out as forms over atoms of one graph.

Nothing is approximated: weights are the rationals that they are. Only what the answer, or a
holding of the witness, depends on is ever looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from flint import fmpq

from hardmax.checker.forms._bodies import ONE, ZERO, rational
from hardmax.checker.forms._coefficients import nearest
from hardmax.checker.forms._columns import Columns, Row, sparse_rows
from hardmax.checker.forms._dominance import excess
from hardmax.checker.forms._forms import (
    NOTHING,
    Form,
    constant,
    direction_of,
    is_moderate,
    total,
)
from hardmax.checker.forms._graph import Graph
from hardmax.checker.forms._names import Names, renamed
from hardmax.core import (
    Affine,
    Attention,
    FeedForward,
    GatedFeedForward,
    Head,
    Maximum,
    Product,
    Steps,
    Transformer,
    Univariate,
    VectorInput,
)
from hardmax.numerics import Interval, stray

Place = tuple[int, ...]
_MOST_TERMS = 64  # of forms whose ranges are remembered


class _Renamed:
    """Forms by their places, in which atoms may be called by other names from some time on."""

    def __init__(self) -> None:
        self.forms: dict[Place, Form] = {}
        self.names = Names()
        self._fresh: set[int] = set()
        self._read: dict[Hashable, Columns] = {}

    def name(self, atom: int, form: Form) -> None:
        self.names[atom] = form
        self._fresh.add(atom)

    def columns(self, of: Hashable, make: Callable[[int], Form]) -> Columns:
        """What rows of one value add up: looked up once, until there are new names."""
        self.refresh()
        if of not in self._read:
            self._read[of] = Columns(make)
        return self._read[of]

    def refresh(self) -> None:
        """Call what is known by its new names, all at once."""
        if not self._fresh:
            return
        self._read.clear()
        for place, known in self.forms.items():
            if not self._fresh.isdisjoint(known.atoms):
                self.forms[place] = renamed(known, self.names)
        self._fresh.clear()


class Unrolled:
    """The stream of a Transformer, coordinate by coordinate, as forms over a graph's atoms."""

    def __init__(self, transformer: Transformer, graph: Graph, inputs: list[Form]) -> None:
        assert isinstance(transformer.input, VectorInput)
        self.transformer = transformer
        self.graph = graph
        self.inputs = inputs
        self._source = transformer.input
        self._units, self._head = cache(self._make_units), cache(self._make_head)
        self._writing, self._means = cache(self._find_writing), cache(self._make_means)
        self._given = Columns(inputs.__getitem__)
        self._stream = _Renamed()  # by sublayer, token and coordinate
        self.swept: Callable[[Form], Form] = lambda form: form  # what becomes of new coordinates

    def name(self, atom: int, form: Form) -> None:
        """From here on, an atom is called by another name, in every coordinate.

        Atoms that exist keep their own arguments: name what a sublayer made before the next one
        is looked at.
        """
        self._stream.name(atom, form)

    def outputs(self) -> list[Form]:
        """What is read out, one form per output."""
        readout = self.transformer.readout
        assert readout.token is not None
        token = readout.token % self.transformer.tokens
        last = len(self.transformer.sublayers) - 1
        return [
            self._columns(last, token).total(row, rational(bias))
            for row, bias in zip(sparse_rows(readout.weights), readout.bias, strict=True)
        ]

    def coordinate(self, sublayer: int, token: int, index: int) -> Form:
        """A coordinate of a token after a sublayer (-1: after the embedding)."""
        self._stream.refresh()
        stream, place = self._stream.forms, (sublayer, token, index)
        if place not in stream:
            self.graph.look()
            if sublayer < 0:
                stream[place] = self._embedded(token, index)
            else:
                change = self._change(sublayer, token, index)
                before = self.coordinate(sublayer - 1, token, index)
                made = before if change is None else change(before)
                made = renamed(made, self._stream.names)
                stream[place] = made if change is None else self.swept(made)
        return stream[place]

    def _embedded(self, token: int, index: int) -> Form:
        (row,) = sparse_rows(self._source.maps[token, index][None])
        return self._given.total(row, rational(self._source.offsets[token, index]))

    def _columns(self, sublayer: int, token: int) -> Columns:
        """The coordinates of a token after a sublayer."""
        return self._stream.columns((sublayer, token), partial(self.coordinate, sublayer, token))

    def _linear(self, row: Row, sublayer: int, token: int) -> Form:
        return self.graph.shared.form(self._columns(sublayer, token).total(row))

    def _change(self, sublayer: int, token: int, index: int) -> Callable[[Form], Form] | None:
        """What a sublayer makes of a coordinate, if it writes there; what it adds is made now."""
        if not isinstance(self.transformer.sublayers[sublayer], Attention):
            units = self._units(sublayer)
            columns, row, bias = units.hidden(token), units.outer[index], units.outer_bias(index)
            if not len(row) and not bias:
                return None
        else:
            found = self._writing(sublayer).rows.get(index)
            if found is None:
                return None
            columns, row, bias = self._means(sublayer, token), found, ZERO
        columns.look(row)
        return partial(columns.total, row, bias)

    def _make_units(self, sublayer: int) -> _LayerForms:
        layer = self.transformer.sublayers[sublayer]
        if isinstance(layer, GatedFeedForward):
            return _GatedForms(self, sublayer, layer)
        assert isinstance(layer, FeedForward)
        return _LayerForms(self, sublayer, layer)

    def _heads(self, sublayer: int) -> Sequence[Head]:
        layer = self.transformer.sublayers[sublayer]
        assert isinstance(layer, Attention)
        return layer.heads

    def _make_head(self, sublayer: int, number: int) -> _HeadForms:
        return _HeadForms(self, sublayer, self._heads(sublayer)[number])

    def _make_means(self, sublayer: int, token: int) -> Columns:
        """The components of what heads hand to a token."""
        sources = self._writing(sublayer).sources

        def mean(index: int) -> Form:
            number, v = sources[index]
            return self._head(sublayer, number).mean(token, v)

        return Columns(mean)

    def _find_writing(self, sublayer: int) -> _Writing:
        return _Writing.of(self._heads(sublayer))


@dataclass(frozen=True, eq=False)
class _Writing:
    """Which components of which heads are written to each coordinate, and with what weights."""

    sources: list[tuple[int, int]]  # head and component
    rows: dict[int, Row]

    @classmethod
    def of(cls, heads: Sequence[Head]) -> _Writing:
        sources, places, numbers, weights = list[tuple[int, int]](), [], [], []
        for number, head in enumerate(heads):
            where, component = np.nonzero(head.output)
            places.append(where)
            numbers.append(len(sources) + component)
            weights.append(head.output[where, component])
            sources += [(number, v) for v in range(head.output.shape[1])]
        if not heads:
            return cls(sources, {})
        every = np.concatenate(places)
        order = np.argsort(every, kind="stable")
        source, weight = np.concatenate(numbers)[order], np.concatenate(weights)[order]
        chosen, starts = np.unique(every[order], return_index=True)
        ends = [*starts[1:].tolist(), len(every)]
        spans = zip(chosen.tolist(), starts.tolist(), ends, strict=True)
        return cls(sources, {c: Row(source[a:b], weight[a:b]) for c, a, b in spans})


class _LayerForms:
    """A feed-forward sublayer."""

    def __init__(
        self, owner: Unrolled, sublayer: int, layer: FeedForward | GatedFeedForward
    ) -> None:
        self.owner, self.sublayer, self.layer = owner, sublayer, layer
        self.inner, self.outer = sparse_rows(layer.inner), sparse_rows(layer.outer)
        self.hidden = cache(lambda token: Columns(partial(self._hidden, token)))

    def outer_bias(self, index: int) -> fmpq:
        return rational(self.layer.outer_bias[index])

    def _hidden(self, token: int, unit: int) -> Form:
        read = self._affine(self.inner[unit], self.layer.inner_bias[unit], token)
        return self.owner.graph.relu(read)

    def _affine(self, row: Row, bias: float, token: int) -> Form:
        before = self.owner._columns(self.sublayer - 1, token)
        return self.owner.graph.shared.form(before.total(row, rational(bias)))


class _GatedForms(_LayerForms):
    """A gated one, term by term: pairs of units that multiply are a product of two forms."""

    def __init__(self, owner: Unrolled, sublayer: int, layer: GatedFeedForward) -> None:
        super().__init__(owner, sublayer, layer)
        self.gate, self.gate_bias = sparse_rows(layer.gate), layer.gate_bias
        self.is_exact = layer.is_exact
        units, multiplies = layer.terms
        self.multiplies = dict(zip(units.tolist(), multiplies.tolist(), strict=True))
        outer = np.zeros_like(layer.outer)
        outer[:, units] = layer.outer[:, units]
        self.outer = sparse_rows(outer)

    def _hidden(self, token: int, unit: int) -> Form:
        graph = self.owner.graph
        gate = self._affine(self.gate[unit], self.gate_bias[unit], token)
        if not self.multiplies[unit]:
            gate = graph.relu(gate) if self.is_exact else graph.gate(gate, gate)
        return graph.times(gate, self._affine(self.inner[unit], self.layer.inner_bias[unit], token))


class _HeadForms:
    """A head, as every token that asks it sees it."""

    def __init__(self, owner: Unrolled, sublayer: int, head: Head) -> None:
        self.owner, self.before, self.head = owner, sublayer - 1, head
        self.queries, self.keys = sparse_rows(head.query), sparse_rows(head.key)
        self.values = sparse_rows(head.value)
        self.coldness = None if np.isinf(head.coldness) else rational(head.coldness)
        self._means: dict[tuple[int, int], Form] = {}
        self.key, self.value = cache(self._key), cache(self._value)
        self.scores, self._asked = cache(self._scores), cache(self._scores_of)

    def seen(self, token: int) -> range:
        return range(token + 1 if self.head.causal else self.owner.transformer.tokens)

    def _key(self, k: int, token: int) -> Form:
        return self.owner._linear(self.keys[k], self.before, token)

    def _value(self, v: int, token: int) -> Form:
        return self.owner._linear(self.values[v], self.before, token)

    def _scores(self, token: int) -> list[Form]:
        """The scores of all tokens seen, times the coldness."""
        coldness = self.coldness or ONE
        queries = [
            self.owner._linear(row, self.before, token).scaled(coldness) for row in self.queries
        ]
        asker = token if self.head.position_bias is not None else -1
        return self._asked(tuple(queries), self.seen(token), asker)

    def _scores_of(self, queries: tuple[Form, ...], seen: range, token: int) -> list[Form]:
        """What queries score; the token that asks has a say in position biases alone."""
        graph, coldness = self.owner.graph, self.coldness or ONE
        asking = [(k, query) for k, query in enumerate(queries) if not query.is_zero]
        scores = []
        for j in seen:
            parts = [(ONE, graph.times(query, self.key(k, j))) for k, query in asking]
            if self.head.position_bias is not None:
                bias = rational(self.head.position_bias[token, j])
                parts.append((coldness, constant(bias)))
            scores.append(total(parts))
        return scores

    def mean(self, token: int, v: int) -> Form:
        values = [self.value(v, j) for j in self.seen(token)]
        if all(value == values[0] for value in values):
            return values[0]
        scores = self.scores(token)
        asked = id(scores), v  # tokens that ask alike get the same list, which is kept
        if self.coldness is None and self.head.position_bias is not None:
            ahead = self._not_trailing(token)
            scores, values = [scores[j] for j in ahead], [values[j] for j in ahead]
        if asked not in self._means:
            join = self.owner.graph.hard_mean if self.coldness is None else self.owner.graph.mean
            self._means[asked] = join(scores, values)
        return self._means[asked]

    def _not_trailing(self, token: int) -> list[int]:
        """A hard head never takes a token whose key is another's and whose bias is less."""
        assert self.head.position_bias is not None
        best: dict[tuple[Form, ...], float] = {}
        keys = [tuple(self.key(k, j) for k in range(len(self.keys))) for j in self.seen(token)]
        biases = self.head.position_bias[token].tolist()
        for key, bias in zip(keys, biases, strict=False):
            best[key] = max(bias, best.get(key, bias))
        return [j for j in self.seen(token) if biases[j] == best[keys[j]]]


class TargetForms:
    """Every component of every value of a program, made when it is asked for.

    Atoms can be named: from then on variables that stand for coordinates of the stream take their
    place. So can the maximum of several components of one value. Rectifiers whose argument keeps
    its sign on the true domain are resolved by the program's own ranges, which names do not widen.
    """

    def __init__(
        self, steps: Steps, graph: Graph, inputs: Sequence[Form], domain: Interval | None = None
    ) -> None:
        self.steps, self.graph, self.domain = steps, graph, domain
        self._known = _Renamed()  # by value and component
        self._known.forms = {(0, i): form for i, form in enumerate(inputs)}
        self._noted: dict[tuple[int, int], Form] = {}
        self.known: dict[Form, tuple[float, float]] = {}  # ranges of directions
        self._maxima: dict[int, list[tuple[frozenset[int], Form]]] = {}
        self._rows = cache(self._sparse)
        self.ranges = None if domain is None else steps.values(domain)

    def outputs(self) -> list[Form]:
        last = len(self.steps.steps)
        return [self.component(last, i) for i in range(self.steps.size(last))]

    def component(self, value: int, index: int) -> Form:
        self._known.refresh()
        known = self._known.forms
        if (value, index) not in known:
            known[value, index] = renamed(self._made(value, index), self._known.names)
        form = known[value, index]
        if self.ranges is not None and self._noted.get((value, index)) is not form:
            self._noted[value, index] = form
            self._note(form, self.ranges[value][index])
        return form

    def _note(self, form: Form, ends: Interval) -> None:
        """Remember the range of a component by its direction: c u + b, up to c and b."""
        if form.is_constant or form.body.count > _MOST_TERMS:
            return
        direction, lead = direction_of(form)
        shift, scale = nearest(form.constant), nearest(lead)
        if not is_moderate(scale) or not (shift == 0.0 or is_moderate(shift)):
            return
        low, high = sorted((float(end) - shift) / scale for end in (ends.lo, ends.hi))
        # both numbers, their difference, the quotient and the step outward are rounded
        slack = float(stray(5, max(abs(low), abs(high)) + 2.0 * abs(shift / scale)))
        low, high = low - slack, high + slack
        before = self.known.get(direction, (-np.inf, np.inf))
        self.known[direction] = max(low, before[0]), min(high, before[1])

    def largest(self, value: int, indices: Iterable[int]) -> Form:
        """The maximum of some components, by way of maxima that have been cut, if any fit."""
        left, parts = set(indices), []
        joined: list[Form] = []
        for chosen, form in sorted(self._maxima.get(value, []), key=lambda m: -len(m[0])):
            if chosen <= left:
                parts.append(form)
                left -= chosen
                joined += [self.component(value, i) for i in sorted(chosen)]
        rest = [self.component(value, i) for i in sorted(left)]
        if joined:  # those that never lead are in what has been cut, too
            rest = [form for form in rest if excess(form, joined, self.graph.range) > 0.0]
        parts += rest
        return renamed(
            parts[0] if len(parts) == 1 else self.graph.maximum(parts), self._known.names
        )

    def name(self, atom: int, form: Form) -> None:
        """From here on, an atom is called by another name, in every component."""
        self._known.name(atom, form)

    def cut(self, value: int, indices: Iterable[int], form: Form) -> None:
        """The maximum of several components is called by another name."""
        chosen = frozenset(indices)
        if len(chosen) > 1:
            self._maxima.setdefault(value, []).append((chosen, form))

    def range(self, value: int, indices: Iterable[int]) -> tuple[float, float]:
        """The range of the maximum of some components on the true domain."""
        assert self.ranges is not None
        known = self.ranges[value]
        chosen = list(indices)
        return float(known.lo[chosen].max()), float(known.hi[chosen].max())

    def _sparse(self, number: int) -> list[Row]:
        step = self.steps.steps[number]
        assert isinstance(step, Affine)
        return sparse_rows(step.weights)

    def _made(self, value: int, index: int) -> Form:
        self.graph.look()
        step = self.steps.steps[value - 1]
        match step:
            case Affine():
                row = self._rows(value - 1)[index]
                columns = self._known.columns(value, partial(self._read, step))
                return self.graph.shared.form(columns.total(row, rational(step.bias[index])))
            case Maximum():
                return self._maximum(step, index)
            case Product():
                first, second = step.pairs[index]
                return self.graph.times(self._read(step, first), self._read(step, second))
            case Univariate():
                return self._univariate(step, value, index)

    def _source(self, step: Affine | Maximum | Product | Univariate, index: int) -> tuple[int, int]:
        for source in step.sources:
            size = self.steps.size(source)
            if index < size:
                return source, int(index)
            index -= size
        raise AssertionError("steps check what they read")

    def _read(self, step: Affine | Maximum | Product | Univariate, index: int) -> Form:
        return self.component(*self._source(step, index))

    def _maximum(self, step: Maximum, index: int) -> Form:
        places = [self._source(step, i) for i in step.groups[index] if i >= 0]
        sources = {source for source, _ in places}
        if len(sources) == 1:
            return self.largest(sources.pop(), [i for _, i in places])
        return self.graph.maximum([self.component(*place) for place in places])

    def _univariate(self, step: Univariate, value: int, index: int) -> Form:
        source = self._source(step, index)
        if step.name == "relu" and self.ranges is not None:
            known = self.ranges[source[0]]
            if known.hi[source[1]] <= 0.0:
                return NOTHING
            if known.lo[source[1]] >= 0.0:
                return self.component(*source)
        return self.graph.apply(step.name, self.component(*source), step.exponent)


def is_defined(ranges: list[Interval]) -> bool:
    """Whether the ranges of all values are finite."""
    return all(bool(np.isfinite(r.lo).all() and np.isfinite(r.hi).all()) for r in ranges)
