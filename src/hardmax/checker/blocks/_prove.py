"""The proof, block by block.

Theorem 4 (modular). Suppose that every component, for all numbers of its sources' closed sets, and
for sources that are as far from their codes as was shown before, makes its step's code to within
what is stated for its blocks; writes its own blocks alone; and leaves the start token as stated.
Then for every word up to the longest, and for every set of interventions on steps that are held
(overwriting the blocks of a step right after they are written, at some positions), wherever the
program with the same overwritten steps is defined, every block codes the program's value.

Proof. By induction over sublayers, for all tokens at once. A block that is overwritten holds a code
exactly. Any other is made from blocks that were written before (wiring), which code the values of
their steps, all in the closed sets; so it is one of the cases that were checked, and codes what the
step makes of these values, which is what the program makes of them. An aggregate looks at many
positions: a row depends on the case here and the multiset of cases there, and the theorem of rows
speaks of all of these. Nobody writes a block again (wiring). The answer is read off its block. A
mask goes by the true places, which is what the steps that it stands for go by as long as they, and
what they are made of, are not overwritten: these are no steps to intervene on (`_places`).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import groupby, pairwise

import numpy as np

from hardmax.checker.blocks._arithmetic import Balls, affine
from hardmax.checker.blocks._frame import taken_back
from hardmax.checker.blocks._heads import about_heads, bound_head
from hardmax.checker.blocks._holding import (
    Cases,
    Holdings,
    Question,
    code_of,
    rounding_of,
)
from hardmax.checker.blocks._places import has_mask, tied_by_place
from hardmax.checker.blocks._sets import ClosedSets, Unproved
from hardmax.checker.blocks._turned import Drift
from hardmax.checker.blocks._units import bound_units
from hardmax.checker.blocks._unrounded import about_storage
from hardmax.checker.blocks._wiring import check_wiring
from hardmax.core import (
    INDEX,
    SYMBOL,
    Attention,
    Circuit,
    Node,
    SequenceInput,
    SequenceSteps,
    Transformer,
    Words,
)
from hardmax.numerics import Format, inflate


class BlockProof:
    """One Transformer, its circuit and the steps of its target: bounds in one format after another.

    What no format changes is checked at birth: shapes, names, and who reads and writes what.
    """

    def __init__(
        self,
        transformer: Transformer,
        circuit: Circuit,
        steps: SequenceSteps,
        words: Words,
        ids: np.ndarray,
    ) -> None:
        sets = ClosedSets(steps, words)
        self.asked = Question(transformer, circuit, sets, ids)
        self.claimed_steps = steps
        self.taken = None if circuit.frame is None else taken_back(transformer, circuit.frame)
        if self.taken is not None:
            self.asked.transformer = transformer = self.taken.meant
        check_wiring(transformer, circuit, sets)
        source = transformer.input
        assert isinstance(source, SequenceInput)
        if source.longest < words.longest:
            raise Unproved("The Transformer reads no words as long as those of the claim.")

    @property
    def left(self) -> float:
        """The largest 2-norm of a row or column of weights that the circuit does not speak of."""
        return 0.0 if self.taken is None else self.taken.largest

    def bound(self, format: Format, tell: Callable[[str], None] | None = None) -> Holdings:
        """How far every block is from its code; a refusal where that is more than codes allow."""
        holdings = Holdings(format)
        drift = None if self.taken is None else Drift(self.asked, self.taken, format)
        self._embedded(holdings)
        if drift is not None:
            drift.embed(holdings)
            self._check_apart(self._there(-1), holdings)
        for sublayer, nodes in groupby(self.asked.circuit.nodes[2:-1], lambda n: n.sublayer):
            if drift is not None:
                drift.before(sublayer, holdings)
            for node in nodes:
                if tell is not None:
                    tell(f"block {node.step} in {format.name}")
                self._bound(node, holdings)
                self._check_apart(node.writes, holdings)
            if drift is not None:
                drift.after(sublayer, holdings)
                self._check_apart(self._there(sublayer), holdings)
        if drift is not None:
            drift.before(len(self.asked.transformer.sublayers), holdings)
        self._check_masks()
        return holdings

    def _check_masks(self) -> None:
        """Every head with a mask names the steps that it stands for, and nobody else names any."""
        circuit, layers = self.asked.circuit, self.asked.transformer.sublayers
        for node in circuit.nodes[2:-1]:
            layer = layers[node.sublayer]
            masked = isinstance(layer, Attention) and has_mask(layer.heads[node.first])
            step = circuit.blocks[node.writes[0]].step
            if node.masks != (tied_by_place(self.asked.sets, step).names if masked else ()):
                raise Unproved(
                    f"The node {node.name!r} names other steps than its mask stands for."
                )

    def _bound(self, node: Node, holdings: Holdings) -> None:
        if isinstance(self.asked.transformer.sublayers[node.sublayer], Attention):
            bound_head(self.asked, node, holdings)
        else:
            bound_units(self.asked, node, holdings)

    def _there(self, sublayer: int) -> tuple[int, ...]:
        """The blocks that have been written once a sublayer has run."""
        blocks = self.asked.circuit.blocks
        return tuple(k for k, block in enumerate(blocks) if block.sublayer <= sublayer)

    def _check_apart(self, writes: tuple[int, ...], holdings: Holdings) -> None:
        """A block says which number it codes: it is off by less than half the distance of codes."""
        for k in writes:
            block, away = self.asked.circuit.blocks[k], max(holdings.symbols[k])
            if not holdings.start[k] < 0.45:
                raise Unproved(
                    f"In {holdings.format.name} the start token does not hold in {block.name!r} "
                    f"what the circuit says: it is off by {holdings.start[k]:.3g}."
                )
            if block.form == "share":
                continue
            holdings.farthest = max(holdings.farthest, away)
            apart = min((float(b - a) for a, b in pairwise(sorted(block.items))), default=1.0)
            apart = apart if block.form == "number" else 1.0
            if not away < 0.45 * apart:
                raise Unproved(
                    f"In {holdings.format.name} the block {block.name!r} is off by {away:.3g}, "
                    f"while its codes are {apart:.3g} apart."
                )

    def _embedded(self, holdings: Holdings) -> None:
        """Blocks of the embedding hold the codes of what tokens and places make."""
        source = self.asked.transformer.input
        assert isinstance(source, SequenceInput)
        tables = (source.embedding[self.asked.ids], source.positions[1:])
        for node, origin, table in zip(
            self.asked.circuit.nodes[:2], (SYMBOL, INDEX), tables, strict=True
        ):
            for k in node.writes:
                self._embedded_block(k, origin, table, holdings)

    def _embedded_block(
        self, number: int, origin: int, table: np.ndarray, holdings: Holdings
    ) -> None:
        block, sets = self.asked.circuit.blocks[number], self.asked.sets
        if block.form == "share" or any(block.at_start):
            raise Unproved(f"The block {block.name!r} is not embedded as the circuit says.")
        if not set(sets.base(block.step, frozenset([origin]))) <= {origin}:
            raise Unproved(f"The block {block.name!r} is embedded, but depends on more.")
        rows = sets.rows(block.step, (origin,))
        if len(rows) < len(sets.numbers(origin)):
            raise Unproved(f"The step {block.name!r} is not defined for all tokens or places.")
        held = np.array([table[int(given[0]), block.first : block.stop] for given, _ in rows])
        wanted = np.array([code_of(block, answer) for _, answer in rows])
        format = holdings.format
        cast = np.where(format.holds(held), 0.0, np.abs(held) * 2.0 * format.unit + format.smallest)
        away = float(inflate((np.abs(held - wanted) + cast).max(initial=0.0), 4))
        holdings.symbols[number] = (away, away)
        holdings.start[number] = 0.0
        self._check_apart((number,), holdings)

    # ---- answers -------------------------------------------------------------------------------

    def answers(self, holdings: Holdings) -> float:
        """How far answers are from those of the target, at most."""
        asked, steps = self.asked, self.claimed_steps
        readout = asked.transformer.readout
        self._check_token(readout.token)
        read = dict(asked.circuit.nodes[-1].reads)["out"]
        worst = 0.0
        for row, step in enumerate(steps.outputs):
            own = [k for k in read if asked.circuit.blocks[k].step == step]
            columns = [p for k in own for p in asked.circuit.blocks[k].coordinates]
            weights = readout.weights[row]
            if set(np.flatnonzero(weights).tolist()) - set(columns):
                raise Unproved("The read-out answers with another step than the target.")
            worst = max(worst, self._answer(step, own, weights, float(readout.bias[row]), holdings))
        return worst

    def _answer(
        self, step: int, own: list[int], weights: np.ndarray, bias: float, holdings: Holdings
    ) -> float:
        numbers = self.asked.sets.numbers(step)
        cases = Cases(self.asked, (step,) if own else (), own)
        columns = cases.columns[:-2]
        if not own and len(numbers) > 1:
            raise Unproved("The read-out does not read the step that answers.")
        balls = cases.balls(holdings)
        x = Balls(balls.middle[:, :-2], balls.radius[:, :-2])
        found, spread, lost = affine(x, weights[None, columns], np.array([bias]), holdings.format)
        wanted = np.array([[float(Fraction(n))] for n in numbers])
        away = np.abs(found - wanted) + spread + lost + rounding_of(numbers)
        worst = float(inflate(away.max(initial=0.0), 8))
        apart = min((float(b - a) for a, b in pairwise(numbers)), default=1.0)
        if not worst < 0.49 * apart:
            raise Unproved(
                f"In {holdings.format.name} answers are off by {worst:.3g}, while they are "
                f"{apart:.3g} apart."
            )
        return worst

    def _check_token(self, token: int | None) -> None:
        at = self.claimed_steps.at
        wanted = None if at is None else at + 1 if at >= 0 else at
        if token != wanted:
            raise Unproved(f"The read-out reads token {token}, but the target answers at {at}.")


def statements(held: dict[str, Holdings], circuit: Circuit, left: float = 0.0) -> tuple[str, ...]:
    """What was established, for the certificate; `left` is what weights are beside those meant."""
    along = "" if circuit.frame is None else ", along the axes of its frame"
    beyond = f" beyond rows and columns of weights of length {left:.3g}" if left > 0.0 else ""
    rows = ", ".join(f"{one.rows:.3g} in {name}" for name, one in held.items())
    blocks = ", ".join(f"{one.farthest:.3g} in {name}" for name, one in held.items())
    said = (
        "Every answer is right on every word on which the program is defined.",
        f"Every attention row is within so much of its pattern, in its largest entry: {rows}.",
        f"Every intervention on any set of the steps {', '.join(circuit.steps)}, at any positions, "
        f"on which the interpreter is defined agrees with the program; blocks are off by at most "
        f"{blocks}.",
        f"The circuit's {len(circuit.nodes)} nodes and {len(circuit.edges)} edges are those of the "
        f"weights{along}, and there is no other edge{beyond}.",
    )
    heads = ", ".join(node.name for node in circuit.nodes if node.masks)
    named = ", ".join(circuit.masked)
    masks = (
        f"The masks of {heads} stand for {named}, by the true places: no intervention on {named} "
        f"is among those that agree."
    )
    return (*said, masks) if heads else said


def assumptions(held: dict[str, Holdings]) -> tuple[str, ...]:
    """What the proof takes for granted."""
    about = (about_heads, about_storage)
    return tuple(say(one.format) for one in held.values() for say in about)
