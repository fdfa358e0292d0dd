"""How a maximum of affine functions is written: in one line of a terminal."""

from __future__ import annotations

import numpy as np

_WIDTH = 88  # columns, with what stands around it


def maximum_text(slopes: np.ndarray, offsets: np.ndarray) -> str:
    """max(x1 + 2 x2 - 0.5, ...), as many terms as fit; the others are counted."""
    shown: list[str] = []
    for number, (slope, offset) in enumerate(zip(slopes, offsets, strict=True)):
        left = len(offsets) - number
        text = _affine(slope, float(offset))
        used = sum(len(one) + 2 for one in shown) + len(text)
        if used > _WIDTH - (24 if left > 1 else 5):
            noun = "term" if left == 1 else "terms"
            if not shown:
                variables = f"{slopes.shape[1]} variable" + "s" * (slopes.shape[1] > 1)
                return f"max({left:,} {noun} of {variables})"
            return f"max({', '.join(shown)}, ... {left:,} {noun} more)"
        shown.append(text)
    return f"max({', '.join(shown)})"


def _affine(slope: np.ndarray, offset: float) -> str:
    text = ""
    for number, factor in enumerate(slope.tolist(), start=1):
        if factor:
            size = "" if abs(factor) == 1.0 else f"{abs(factor):.6g} "
            text += _with_sign(factor, f"{size}x{number}", bool(text))
    if offset or not text:
        text += _with_sign(offset, f"{abs(offset):.6g}", bool(text))
    return text


def _with_sign(value: float, text: str, follows: bool) -> str:
    if follows:
        return f" - {text}" if value < 0.0 else f" + {text}"
    return f"-{text}" if value < 0.0 else text
