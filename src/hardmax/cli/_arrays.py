"""Archives of named arrays, as numpy.savez writes them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hardmax import FileError


def read_archive(place: str, needed: Iterable[str]) -> dict[str, np.ndarray]:
    """All arrays of an .npz file, which must have the needed ones; nothing is unpickled."""
    try:
        with open(place, "rb") as file:  # np.load alone leaves a damaged archive open
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise FileError(f"{place} holds one array without a name. Use numpy.savez.")
            with archive:
                found = {name: np.asarray(archive[name]) for name in archive.files}
    except FileError:
        raise
    except OSError as reason:
        raise FileError(f"{place} could not be read ({reason.strerror or reason}).") from reason
    except Exception as reason:  # a foreign or damaged file may trip its parser anywhere
        raise FileError(f"{place} could not be read as arrays of numbers.") from reason
    missing = [name for name in needed if name not in found]
    if missing:
        held = ", ".join(sorted(found)) or "nothing"
        raise FileError(
            f"{place} must hold {' and '.join(missing)}, but it holds {held}. Save arrays by these "
            f"names with numpy.savez."
        )
    return found
