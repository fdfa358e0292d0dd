"""The functions that are measured: text, domain and error."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hardmax._workbench import plan
from hardmax.core import Box
from hardmax.languages import Function
from hardmax.lowering import Plan

Range = tuple[float, float]
UNIT: Range = (-1.0, 1.0)


@dataclass(frozen=True)
class Case:
    """One request. Its plan, every route's offer, is made once."""

    text: str
    ranges: tuple[Range, ...]  # in the order in which the variables appear
    error: float
    prefer: str | None = None

    @property
    def name(self) -> str:
        short = self.text if len(self.text) <= 32 else f"{self.text[:29]}..."
        return f"{short} on {self.domain}, {self.error:g}" + (
            f", {self.prefer}" if self.prefer else ""
        )

    @cached_property
    def function(self) -> Function:
        return Function.parse(self.text)

    @cached_property
    def domain(self) -> Box:
        return self.function.domain(self.on)

    @property
    def on(self) -> dict[str, Range]:
        return dict(zip(self.function.variables, self.ranges, strict=True))

    @cached_property
    def plan(self) -> Plan:
        return plan(self.text, on=self.on, error=self.error, prefer=self.prefer)


PRODUCT = ("x*y", (UNIT, UNIT))
PRODUCTS = {  # route, and heads in one layer
    Case(*PRODUCT, 1e-3): ("direct", 1),
    Case(*PRODUCT, 1e-9): ("direct", 1),
    Case(*PRODUCT, 2e-12): ("direct-2", 2),
}
FLOAT32_PRODUCT = Case(*PRODUCT, 2e-5, prefer="float32")
RECIPROCALS = {  # route, and heads in one layer
    Case("1/x", ((0.1, 1.0),), 1e-5): ("direct", 6),
    Case("1/x", ((0.01, 1.0),), 1e-4): ("direct", 9),
}
WIDEST = 16
MAXIMUM = Case(f"max({', '.join(f'x{i}' for i in range(WIDEST))})", (UNIT,) * WIDEST, 1e-3)
COMPOSITES = [
    Case("sin(x)*exp(-y)/(1+x**2)", ((-2.0, 2.0), (0.0, 1.0)), 1e-3),
    Case("max(x,y,z)*min(x,y)", (UNIT,) * 3, 1e-2),
    Case("16*x**5-20*x**3+5*x", (UNIT,), 1e-6),
    Case("exp(x)/(exp(x)+exp(y)+exp(z))", ((-2.0, 2.0),) * 3, 1e-4),
    Case("u*v*w*x*y*z", (UNIT,) * 6, 1e-2),
]
PRIMITIVES = [
    Case(text, ranges, 1e-3)
    for text, ranges in [
        PRODUCT,
        ("x**2", (UNIT,)),
        ("x**3", (UNIT,)),
        ("x**0.5", ((1.0, 2.0),)),
        ("x**1.5", ((0.0, 1.0),)),
        ("x**-2", ((1.0, 2.0),)),
        ("1/x", ((0.1, 1.0),)),
        ("x/y", (UNIT, (1.0, 2.0))),
        ("exp(x)", ((0.0, 1.0),)),
        ("log(x)", ((1.0, 2.0),)),
        ("sqrt(x)", ((0.0, 1.0),)),
        ("sin(x)", (UNIT,)),
        ("cos(x)", (UNIT,)),
        ("tan(x)", (UNIT,)),
        ("tanh(x)", (UNIT,)),
        ("sigmoid(x)", (UNIT,)),
        ("abs(x)", (UNIT,)),
        ("relu(x)", (UNIT,)),
        ("min(x,y)", (UNIT, UNIT)),
        ("max(x,y)", (UNIT, UNIT)),
        ("max(x,y,z)", (UNIT,) * 3),
    ]
]
