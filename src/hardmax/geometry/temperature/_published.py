"""Published statements about finite temperature that fail, beside what is true."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hardmax.geometry.temperature._curvature import hessian_bound
from hardmax.geometry.temperature._lemmas import weight_bound


@dataclass(frozen=True)
class PublishedExample:
    """Example VI.2 of arXiv 2604.14727: N = 512 tokens, keys of width 64, a gap of 2.

    It takes "temperature 1/sqrt(64)" = 1/8, where its Hessian bound (N-1) e^{-gap/temperature} /
    temperature lies below the attained supremum. And logits divided by sqrt(64) have the
    temperature 8, where the bound says nothing: no Hessian of log-sum-exp exceeds
    1/(2 temperature), as the variance of a unit vector's entries is at most 1/2, and nearly all
    of the weight may lie outside the winner.
    """

    tokens: int = 512
    width: int = 64
    gap: float = 2.0

    def published_hessian(self, temperature: float) -> float:
        """(N-1) e^{-gap/temperature}/temperature, as printed."""
        return (self.tokens - 1) * math.exp(-self.gap / temperature) / temperature

    def true_hessian(self, temperature: float) -> float:
        """The exact supremum."""
        return float(hessian_bound(self.gap, self.tokens, 1.0 / temperature))

    def weights(self, temperature: float) -> float:
        """The most weight outside the winner, attained."""
        return float(weight_bound(self.gap, self.tokens, 1.0 / temperature))

    def __str__(self) -> str:
        lines = [f"Example VI.2: N = {self.tokens}, width {self.width}, gap {self.gap:g}"]
        readings = {
            "1/sqrt(width), as printed": 1.0 / math.sqrt(self.width),
            "sqrt(width), as attention divides": math.sqrt(self.width),
        }
        for name, temperature in readings.items():
            lines.append(
                f"temperature {temperature:g} ({name}): Hessian published "
                f"{self.published_hessian(temperature):.3e}, true supremum "
                f"{self.true_hessian(temperature):.3e}, never above {0.5 / temperature:.3g}; "
                f"weight outside the winner up to {self.weights(temperature):.3g}"
            )
        return "\n".join(lines)
