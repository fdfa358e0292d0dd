"""What names stand for in the target: the ranges of its own values, which names do not widen."""

from __future__ import annotations

from hardmax.checker.forms import (
    ONE,
    Body,
    Bounds,
    Form,
    direction_of,
    is_moderate,
    nearest,
    renamed,
)
from hardmax.numerics import stray


class TrueValues:
    """What the names stand for in the target: ranges, and forms where several stand for one."""

    def __init__(self) -> None:
        self.bounds = Bounds()
        self.known: dict[Form, tuple[float, float]] = {}
        self._forms: dict[int, Form] = {}
        self._spelled: dict[int, tuple[Body, Form]] = {}  # bodies by identity, as spelled out

    def set(self, name: Form, form: Form) -> None:
        """The true value behind a name is that of a form of others."""
        (atom,) = name.atoms
        self._forms[atom] = self.form(form)
        self._spelled.clear()

    def form(self, form: Form) -> Form:
        """A form over names that stand for themselves."""
        known = self._spelled.get(id(form.body))
        if known is None:
            plain = Form.of(form.body, ONE)
            known = self._spelled[id(form.body)] = form.body, renamed(plain, self._forms)
        spelled = known[1].scaled(form.scale)
        return Form.of(spelled.body, spelled.scale, spelled.constant + form.constant)

    def range(self, form: Form) -> tuple[float, float]:
        """From the names' ranges, and from what the target's own steps say of this direction."""
        form = self.form(form)
        low, high = self.bounds.range(form)
        if form.is_constant or not low < 0.0 < high or not self.known:
            return low, high
        direction, lead = direction_of(form)
        if direction not in self.known:
            return low, high
        scale, shift = nearest(lead), nearest(form.constant)
        if not is_moderate(scale):
            return low, high
        ends = sorted(scale * end for end in self.known[direction])
        # both numbers, the product, the sum and the step outward are rounded
        slack = float(stray(4, abs(shift) + max(map(abs, ends))))
        return max(low, ends[0] + shift - slack), min(high, ends[1] + shift + slack)
