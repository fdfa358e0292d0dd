"""A Transformer on vectors, written out as forms over atoms, from its weights alone.

Nothing is approximated: weights are the rationals that they are. Only what the answer, or a
holding of the witness, depends on is ever looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from flint import fmpq

from hardmax.checker.forms._forms import ONE, Form, constant, rational, renamed, total
from hardmax.checker.forms._graph import Graph
from hardmax.core import Attention, FeedForward, Head, Transformer, VectorInput

Row = list[tuple[int, fmpq]]


def sparse_rows(matrix: np.ndarray) -> list[Row]:
    """The nonzero entries of each row, as rationals."""
    rows: list[Row] = [[] for _ in range(matrix.shape[0])]
    places = np.nonzero(matrix)
    for i, j, value in zip(*(p.tolist() for p in places), matrix[places].tolist(), strict=True):
        rows[i].append((j, rational(value)))
    return rows


class Unrolled:
    """The stream of a Transformer, coordinate by coordinate, as forms over a graph's atoms."""

    def __init__(self, transformer: Transformer, graph: Graph, inputs: list[Form]) -> None:
        assert isinstance(transformer.input, VectorInput)
        self.transformer = transformer
        self.graph = graph
        self.inputs = inputs
        self._source = transformer.input
        self._heads: dict[tuple[int, int], _HeadForms] = {}
        self._layers: dict[int, _LayerForms] = {}
        self._writers: dict[int, dict[int, list[tuple[int, int, fmpq]]]] = {}
        self._means: dict[tuple[int, int, int, int], Form] = {}
        self._stream: dict[tuple[int, int, int], Form] = {}
        self._names: dict[int, Form] = {}
        self._fresh: set[int] = set()
        self.swept: Callable[[Form], Form] = lambda form: form  # what becomes of new coordinates

    def name(self, atom: int, form: Form) -> None:
        """From here on, an atom is called by another name, in every coordinate.

        Atoms that exist keep their own arguments: name what a sublayer made before the next one
        is looked at.
        """
        self._names[atom] = form
        self._fresh.add(atom)

    def _rename(self) -> None:
        """Call what is known by its new names, all at once."""
        for place, known in self._stream.items():
            if not self._fresh.isdisjoint(known.atoms):
                self._stream[place] = renamed(known, self._names)
        self._fresh.clear()

    def outputs(self) -> list[Form]:
        """What is read out, one form per output."""
        readout = self.transformer.readout
        assert readout.token is not None
        token = readout.token % self.transformer.tokens
        last = len(self.transformer.sublayers) - 1
        return [
            total([(ONE, constant(rational(bias))), *self._read(row, last, token)])
            for row, bias in zip(sparse_rows(readout.weights), readout.bias, strict=True)
        ]

    def coordinate(self, sublayer: int, token: int, index: int) -> Form:
        """A coordinate of a token after a sublayer (-1: after the embedding)."""
        if self._fresh:
            self._rename()
        place = sublayer, token, index
        if place not in self._stream:
            self.graph.look()
            if sublayer < 0:
                self._stream[place] = self._embedded(token, index)
            else:
                changes = self._changes(sublayer, token, index)
                before = self.coordinate(sublayer - 1, token, index)
                made = total([(ONE, before), *changes]) if changes else before
                made = renamed(made, self._names)
                self._stream[place] = self.swept(made) if changes else made
        return self._stream[place]

    def _embedded(self, token: int, index: int) -> Form:
        row = self._source.maps[token, index]
        parts = [(rational(row[i]), self.inputs[i]) for i in np.flatnonzero(row)]
        return total([*parts, (ONE, constant(rational(self._source.offsets[token, index])))])

    def _read(self, row: Row, sublayer: int, token: int) -> list[tuple[fmpq, Form]]:
        return [(weight, self.coordinate(sublayer, token, c)) for c, weight in row]

    def _linear(self, row: Row, sublayer: int, token: int) -> Form:
        return self.graph.shared.form(total(self._read(row, sublayer, token)))

    def _changes(self, sublayer: int, token: int, index: int) -> list[tuple[fmpq, Form]]:
        layer = self.transformer.sublayers[sublayer]
        match layer:
            case FeedForward():
                if sublayer not in self._layers:
                    self._layers[sublayer] = _LayerForms(self, sublayer, layer)
                return self._layers[sublayer].change(token, index)
            case Attention():
                return [
                    (weight, self._mean(sublayer, layer, token, number, v))
                    for number, v, weight in self._writing(sublayer, layer).get(index, ())
                ]

    def _mean(self, sublayer: int, layer: Attention, token: int, number: int, v: int) -> Form:
        """Component v of what a head hands to a token."""
        place = sublayer, token, number, v
        if place not in self._means:
            head = self._head(sublayer, number, layer.heads[number])
            self._means[place] = head.mean(token, v)
        return self._means[place]

    def _writing(self, sublayer: int, layer: Attention) -> dict[int, list[tuple[int, int, fmpq]]]:
        """For each coordinate the heads that write it: head, component, weight."""
        if sublayer not in self._writers:
            writers: dict[int, list[tuple[int, int, fmpq]]] = {}
            for number, head in enumerate(layer.heads):
                places = np.nonzero(head.output)
                weights = head.output[places].tolist()
                for c, v, weight in zip(*(p.tolist() for p in places), weights, strict=True):
                    writers.setdefault(c, []).append((number, v, rational(weight)))
            self._writers[sublayer] = writers
        return self._writers[sublayer]

    def _head(self, sublayer: int, number: int, head: Head) -> _HeadForms:
        if (sublayer, number) not in self._heads:
            self._heads[sublayer, number] = _HeadForms(self, sublayer, head)
        return self._heads[sublayer, number]


class _LayerForms:
    """A feed-forward sublayer."""

    def __init__(self, owner: Unrolled, sublayer: int, layer: FeedForward) -> None:
        self.owner, self.sublayer, self.layer = owner, sublayer, layer
        self.inner, self.outer = sparse_rows(layer.inner), sparse_rows(layer.outer)
        self.hidden = cache(self._hidden)

    def change(self, token: int, index: int) -> list[tuple[fmpq, Form]]:
        parts = [(weight, self.hidden(token, unit)) for unit, weight in self.outer[index]]
        bias = self.layer.outer_bias[index]
        return [*parts, (ONE, constant(rational(bias)))] if bias else parts

    def _hidden(self, token: int, unit: int) -> Form:
        before = self.owner._read(self.inner[unit], self.sublayer - 1, token)
        bias = constant(rational(self.layer.inner_bias[unit]))
        graph = self.owner.graph
        return graph.relu(graph.shared.form(total([*before, (ONE, bias)])))


class _HeadForms:
    """A head, as every token that asks it sees it."""

    def __init__(self, owner: Unrolled, sublayer: int, head: Head) -> None:
        self.owner, self.before, self.head = owner, sublayer - 1, head
        self.queries, self.keys = sparse_rows(head.query), sparse_rows(head.key)
        self.values = sparse_rows(head.value)
        self.coldness = None if np.isinf(head.coldness) else rational(head.coldness)
        self.scores = cache(self._scores)
        self.key, self.value = cache(self._key), cache(self._value)

    def seen(self, token: int) -> range:
        return range(token + 1 if self.head.causal else self.owner.transformer.tokens)

    def _key(self, k: int, token: int) -> Form:
        return self.owner._linear(self.keys[k], self.before, token)

    def _value(self, v: int, token: int) -> Form:
        return self.owner._linear(self.values[v], self.before, token)

    def _scores(self, token: int) -> list[Form]:
        """The scores of all tokens seen, times the coldness."""
        graph, coldness = self.owner.graph, self.coldness or ONE
        queries = [
            self.owner._linear(row, self.before, token).scaled(coldness) for row in self.queries
        ]
        asking = [(k, query) for k, query in enumerate(queries) if not query.is_zero]
        scores = []
        for j in self.seen(token):
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
        join = self.owner.graph.hard_mean if self.coldness is None else self.owner.graph.mean
        return join(self.scores(token), values)
