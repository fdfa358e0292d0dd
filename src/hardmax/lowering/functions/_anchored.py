"""One head over tokens that the prompt lays down: anchors, grids of anchors, and softmaxes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hardmax.lowering.approximants import AnchorFit
from hardmax.lowering.functions._kinks import table_ends
from hardmax.lowering.functions._made import Made, Pair
from hardmax.lowering.graph import SoftmaxNode
from hardmax.lowering.stream import Chooser, Form, Program, attention_after
from hardmax.numerics import inflate, stray


def curve_by_anchors(
    program: Program, node: int, fit: AnchorFit, argument: Form, pair: Pair
) -> Made:
    """A smooth function as one softmax mean over anchors e_k with values v_k.

    With the argument and the anchors moved to the middle c of the anchors, the query (x - c, 1)
    and the keys (e_k - c, -(e_k - c)^2/2) score -(x - e_k)^2/2 up to a term that all anchors
    share: a Gaussian partition of unity. Every token of the prompt is an anchor, sink and data
    included, so nothing has to be masked. The keys are exact floats; see `fit_anchors` for the
    error. One head of key width 2 at any depth.
    """
    middle = Fraction(float(fit.anchors[len(fit.anchors) // 2]))
    places = [Fraction(float(e)) - middle for e in fit.anchors]
    halves = [-(e * e) / 2 for e in places]
    inputs = program.domain.dimension
    keys = tuple(constants([float(k) for k in ks], inputs) for ks in (places, halves))
    values = constants(fit.values, inputs)
    ends = [Fraction(end) - middle for end in pair]
    scores = np.array([[float(x * e - e * e / 2) for e in places] for x in ends])
    bound = float(np.abs(scores).max())
    chooser = Chooser(
        stage=attention_after(program.ready(argument)),
        query=(argument.plus(-middle), Form.of_number(1)),
        keys=keys,
        values=values,
        coldness=fit.coldness,
        node=node,
        gain=1.0,
        score_ends=(scores.min(axis=0), scores.max(axis=0)),
        value_range=(float(min(fit.values)), float(max(fit.values))),
    )
    row = program.row()
    program.write(row, program.choose(chooser), 1)
    # keys are rounded, and with them the logits, whose weights move by half of that
    slack = float(np.abs(fit.values).max()) * stray(4, fit.coldness * bound)
    return Made(Form.of_row(row), inflate(fit.error + slack, 2))


def softmax_by_head(program: Program, node: int, softmax: SoftmaxNode, tokens: int) -> Made:
    """sum_i v_i e^(l_i) / sum_i e^(l_i): a head with scores l_i and values v_i, and nothing else.

    Exact but for ln b_i and l_i rounded to floats, which moves each logit by four roundings of
    its size at most, and therefore the result by that times the spread of the values.
    Prompts that are longer repeat the first token and lower the copies' shares: n copies of a
    token with logits l - ln n weigh as much as one with l.
    """
    copies = tokens - len(softmax.values) + 1
    scores = [list(line) for line in softmax.scores]
    scores[0][-1] -= float(np.log(copies))
    table = np.array([*scores, *[scores[0]] * (copies - 1)])
    values = np.array([*softmax.values, *[softmax.values[0]] * (copies - 1)])
    low, high = program.domain.low, program.domain.high
    size = np.abs(table[:, :-1]) @ np.maximum(np.abs(low), np.abs(high)) + np.abs(table[:, -1])
    chooser = Chooser(
        stage=0,
        query=(Form.of_number(1),),
        keys=(table,),
        values=constants(values, program.domain.dimension),
        coldness=1.0,
        node=node,
        gain=1.0,
        score_ends=table_ends(program, table),
        value_range=(float(values.min()), float(values.max())),
    )
    row = program.row()
    program.write(row, program.choose(chooser), 1)
    spread = float(values.max() - values.min())
    moved = stray(8, 1.0 + float(size.max()))
    return Made(Form.of_row(row), inflate(moved * spread, len(low) + 4))


def constants(values: object, inputs: int) -> np.ndarray:
    """A table of constants: no input has weight."""
    column = np.asarray(values, dtype=float).reshape(-1, 1)
    return np.concatenate([np.zeros((len(column), inputs)), column], axis=1)
