"""Faults of logic that no other test sees, found by `make mutants`: exported weights."""

from __future__ import annotations

import numpy as np
import pytest

import hardmax as hm


def test_a_refusal_names_the_largest_weight():
    torch = pytest.importorskip("torch")
    from hardmax.interop._torch_tensors import tensor

    with pytest.raises(hm.PrecisionError, match=r"reach 1e\+30 once .* ends at 6\.55e\+04"):
        tensor(np.array([1e-3, -1e30, 1.0]), torch.float16)
