"""Archives of named arrays, as numpy.savez writes them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hardmax import FileError
from hardmax._archives import arrays_in, is_archive
from hardmax._reading import naming, read_file


def read_archive(place: str, needed: Iterable[str]) -> dict[str, np.ndarray]:
    """All arrays of an .npz file, which must have the needed ones; nothing is unpickled."""
    with naming(place):
        data = read_file(place)
        if not is_archive(data):
            raise FileError("holds one array without a name. Use numpy.savez.")
        arrays = arrays_in(data)
    missing = [name for name in needed if name not in arrays]
    if missing:
        held = ", ".join(sorted(arrays)) or "nothing"
        raise FileError(
            f"{place} must hold {' and '.join(missing)}, but it holds {held}. Save arrays by these "
            f"names with numpy.savez."
        )
    return arrays
