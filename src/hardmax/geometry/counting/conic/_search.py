"""Which patterns of a tree have a point, and which cannot have any: a subdivision of the square.

A box holds the patterns that are still possible on it and have no witness yet. One that holds none
is settled, however many walls cross it. Others look for witnesses, then are halved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations

import numpy as np

from hardmax.geometry.counting.conic._boxes import Block, Chart, Point
from hardmax.geometry.counting.conic._tree import Tree, TreeNode, meeting
from hardmax.geometry.counting.conic._walls import ConicWall, Signs

Reduced = list[tuple[int, tuple[int, ...]]]  # signs of one factor, or of the product of two

_SEEDS = 2048  # points of the whole square that are tried first
_TRIES = 8  # points a box
_MANY = 256  # patterns that a box may hold; more, and it is halved first
_BLOW = 10  # halvings before many walls through one point are looked for
_DEEPEST = 80  # halvings: ends of boxes stay exact in floats


@dataclass(eq=False)
class ConicSearch:
    """The state: witnesses by pattern, and boxes with the leaves that may be there.

    Leaves None means that nothing is known yet. `sides` are the walls whose positive sides make
    the domain.
    """

    tree: Tree
    sides: tuple[ConicWall, ...]
    witnesses: dict[tuple, tuple[TreeNode, Point]] = field(default_factory=dict)
    boxes: int = 0
    _rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    _waiting: deque[tuple[Block, list[TreeNode] | None]] = field(default_factory=deque)
    _stuck: list[tuple[Block, list[TreeNode] | None]] = field(default_factory=list)
    _reached: list[TreeNode] = field(
        default_factory=list
    )  # by the last listing that became too long

    def run(self, budget: int, progress: Callable[[int], None] | None) -> None:
        """Look at `budget` boxes, or fewer if all patterns are settled before."""
        self._guess_anywhere()
        self._waiting.append((Block(Chart(self.tree.factors), 0.0, 1.0, 0.0, 1.0), None))
        while self._waiting and self.boxes < budget:
            self.boxes += 1
            self._look(*self._waiting.popleft())
            if progress is not None:
                progress(len(self.witnesses))

    @property
    def open(self) -> list[tuple[Block, list[TreeNode] | None]]:
        """Boxes that are not settled, with their leaves that have no witness."""
        left = [
            (box, None if leaves is None else self._unseen(leaves))
            for box, leaves in (*self._waiting, *self._stuck)
        ]
        return [(box, leaves) for box, leaves in left if leaves is None or leaves]

    def _unseen(self, leaves: Iterable[TreeNode]) -> list[TreeNode]:
        return [leaf for leaf in leaves if leaf.pattern not in self.witnesses]

    def _look(self, box: Block, leaves: list[TreeNode] | None) -> None:
        if leaves is None:
            leaves = self._possible(box)
        else:
            leaves = self._leaves_possible_in(box, self._unseen(leaves))
        if leaves is not None:
            leaves = self._unseen(leaves)
            if not leaves:
                return
        self._try(box, leaves)
        if leaves is not None:
            leaves = self._unseen(leaves)
            if not leaves:
                return
        if box.depth >= _DEEPEST:
            self._stuck.append((box, leaves))
            return
        centre = self._centre(box, leaves)
        parts = box.halves() if centre is None else box.blown_up(centre)
        self._waiting.extend((part, leaves) for part in parts)

    # ---- witnesses ---------------------------------------------------------------------------

    def _guess_anywhere(self) -> None:
        points = self._rng.random((_SEEDS, 2))
        self._guess(points[self._inside(points)])

    def _guess(self, points: np.ndarray) -> None:
        for point in self.tree.guesses(points) if len(points) else ():
            self._witness(point)

    def _inside(self, points: np.ndarray) -> np.ndarray:
        return self._holds(self.sides, points)

    def _holds(self, walls: Sequence[ConicWall], points: np.ndarray) -> np.ndarray:
        """In floats: the points at which all walls are positive."""
        numbers = sorted({number for wall in walls for number in wall.factors})
        place = {number: k for k, number in enumerate(numbers)}
        values = self.tree.factors.values(numbers, points)
        inside = np.ones(len(points), dtype=bool)
        for wall in walls:
            product = np.full(len(points), float(wall.sign))
            for number in wall.factors:
                product = product * values[place[number]]
            inside &= product > 0.0
        return inside

    def _witness(self, point: np.ndarray) -> None:
        """Enter the pattern at a point of floats, which are rationals, if all of it is strict."""
        exact = (Fraction(point[0]), Fraction(point[1]))
        if all(self._value(wall, exact) > 0 for wall in self.sides):
            leaf = self.tree.leaf_at(exact)
            if leaf is not None:
                self.witnesses.setdefault(leaf.pattern, (leaf, exact))

    def _value(self, wall: ConicWall, point: Point) -> Fraction:
        value = Fraction(wall.sign)
        for number in wall.factors:
            value *= _at(self.tree.factors.forms[number], point)
        return value

    def _try(self, box: Block, leaves: list[TreeNode] | None) -> None:
        points = box.sample(self._rng, _TRIES)
        points = points[self._inside(points)]
        if leaves is None:
            self._guess(points)
            return
        for leaf in leaves:
            for point in points[self._holds(leaf.walls, points)][:1]:
                self._witness(point)

    # ---- what is possible --------------------------------------------------------------------

    def _leaves_possible_in(self, box: Block, leaves: list[TreeNode]) -> list[TreeNode]:
        numbers = {number for leaf in leaves for wall in leaf.walls for number in wall.factors}
        numbers |= {number for wall in self.sides for number in wall.factors}
        signs = box.signs(sorted(numbers))
        possible = []
        for leaf in leaves:
            needed = _requirements((*self.sides, *leaf.walls), signs)
            if _agree(Signs(), needed) and not _is_excluded(box, needed or []):
                possible.append(leaf)
        return possible

    def _possible(self, box: Block) -> list[TreeNode] | None:
        """All leaves that no sign excludes; None if they are too many to list."""
        known = box.signs(sorted({n for wall in self.sides for n in wall.factors}))
        start = Signs()
        if not _agree(start, _requirements(self.sides, known)):
            return []
        level = [(self.tree.root, start)]
        for _ in range(self.tree.depth):
            deeper: list[tuple[TreeNode, Signs]] = []
            for node, signs in level:
                if not self._extend(box, node, signs, deeper):
                    self._reached = [one for one, _ in level]
                    return None
            level = deeper
        return [node for node, _ in level]

    def _extend(
        self, box: Block, node: TreeNode, start: Signs, found: list[tuple[TreeNode, Signs]]
    ) -> bool:
        """Add the children of a node that are possible; False if that becomes too many."""
        contests = self.tree.contests(node)
        numbers = {n for contest in contests for wall in contest.walls for n in wall.factors}
        known = box.signs(sorted(numbers))
        partial: list[tuple[tuple[int, ...], Signs]] = [((), start)]
        for contest in contests:
            rows = [_requirements(row.values(), known) for row in contest.beats]
            partial = [
                ((*chosen, p), after)
                for chosen, signs in partial
                for p, needed in enumerate(rows)
                if needed is not None and _agree(after := signs.copy() if needed else signs, needed)
            ]
            if len(partial) + len(found) > _MANY:
                return False
        found.extend((self.tree.child(node, chosen), signs) for chosen, signs in partial)
        return True

    # ---- where many walls meet ---------------------------------------------------------------

    def _centre(self, box: Block, leaves: list[TreeNode] | None) -> Point | None:
        """A rational point of a small box in which the most undecided walls meet, two at least."""
        if box.chart.centre is not None or box.depth < _BLOW or box.depth % 4:
            return None
        if leaves is None:
            nodes = _ancestors(self._reached)
            walls = [w for node in nodes for c in self.tree.contests(node) for w in c.walls]
        else:
            nodes = _ancestors(leaf.before for leaf in leaves)
            walls = [wall for leaf in leaves for wall in leaf.walls]
        numbers = sorted({number for wall in (*self.sides, *walls) for number in wall.factors})
        known = box.signs(numbers)
        forms = [self.tree.factors.forms[number] for number in numbers if not known[number]]
        lines = [form[:3] for form in forms if not any(form[3:])]
        points = {meeting(pair) for pair in combinations(lines, 2)}
        points |= {_node_of(form) for form in forms if any(form[3:])}
        points |= {point for node in nodes for point in self.tree.special(node)}
        inside = [point for point in points if point is not None and box.contains(point)]
        if not inside:
            return None
        best = max(sorted(inside), key=lambda point: _meet(forms, point))
        return best if _meet(forms, best) >= 2 else None


def _ancestors(nodes: Iterable[TreeNode | None]) -> list[TreeNode]:
    """The nodes themselves, and all above them."""
    found: dict[int, TreeNode] = {}
    for node in nodes:
        while node is not None and id(node) not in found:
            found[id(node)] = node
            node = node.before
    return list(found.values())


def _at(form: Sequence[int], point: Point) -> Fraction:
    f, d, e, a, b, c = form
    u, v = point
    return f + d * u + e * v + a * u * u + b * u * v + c * v * v


def _node_of(form: Sequence[int]) -> Point | None:
    """Where two lines cross that are one conic, and irrational: its gradient is 0 there."""
    _, d, e, a, b, c = form
    point = meeting([(d, 2 * a, b), (e, b, 2 * c)])
    return point if point is not None and _at(form, point) == 0 else None


def _meet(forms: Sequence[Sequence[int]], point: Point) -> int:
    """How many branches of curves go through the point."""
    return sum(
        1 + (_node_of(form) == point if any(form[3:]) else 0)
        for form in forms
        if _at(form, point) == 0
    )


def _requirements(walls: Iterable[ConicWall], known: dict[int, int]) -> Reduced | None:
    """What the walls require of undecided factors to be positive; None if one of them cannot be."""
    needed: dict[tuple[int, tuple[int, ...]], None] = {}
    for wall in walls:
        sign, left = wall.sign, []
        for number in wall.factors:
            if known[number]:
                sign *= known[number]
            else:
                left.append(number)
        if left:
            needed[sign, tuple(left)] = None
        elif sign < 0:
            return None
    return list(needed)


def _agree(signs: Signs, needed: Reduced | None) -> bool:
    """Whether all that is required can be added to what is known."""
    return needed is not None and all(signs.add(sign, left) for sign, left in needed)


def _is_excluded(box: Block, needed: Reduced) -> bool:
    """Whether two of the factors that are required alone cannot have their signs together."""
    alone = [(left[0], sign) for sign, left in needed if len(left) == 1]
    return any(box.excludes(one, other) for one, other in combinations(alone, 2))
