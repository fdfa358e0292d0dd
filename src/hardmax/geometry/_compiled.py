"""How kernels are compiled, and how their machine code is kept.

**The cache.** Numba keeps machine code beside the file of the function that Python calls and trusts
it as long as that file is the same; files from which it imports are not looked at, so kernels split
over several files, or a unit changed in `numerics`, would go stale without a word. An `entry`
therefore carries a stamp in its name, a hash of all files of its folder, of this file and of the
units: where any of them differs, so does the name, and the old code is not found. (A cache locator
of our own would do the same through private classes of Numba; the name of a function is public. One
long file per engine was the first answer.) Kernels that only kernels call are not cached but
compiled into the entries that use them. A folder's kernels import none of another folder.

**Arrays on loan.** Numba counts references to arrays with locked instructions. It leaves that out
of functions that take plain arrays, which is why kernels once had up to 25 arguments: with tuples
of arrays a 3-64-64 fell from 774,000 to 378,000 cells a second. `lent` takes the owners off all
arrays of a tuple instead, so that there is nothing to count, and kernels can take a few tuples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TypeVar, cast

from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from hardmax.numerics import FAINT, GROWN, STEP, TINY, UNIT

_Kernel = TypeVar("_Kernel", bound=Callable[..., object])
_Arrays = TypeVar("_Arrays", bound=tuple[object, ...])

_LETTERS = 12  # of a stamp: chance does not make two of them equal


@lru_cache
def _stamp(folder: Path) -> str:
    """A hash of all that may be compiled into a function of this folder."""
    known = hashlib.sha256(repr((FAINT, GROWN, STEP, TINY, UNIT)).encode())
    for file in (Path(__file__), *sorted(folder.glob("*.py"))):  # none in a zip archive
        known.update(file.name.encode())
        known.update(file.read_bytes())
    return known.hexdigest()[:_LETTERS]


def entry(function: _Kernel) -> _Kernel:
    """A kernel that Python calls: compiled once, and kept on disk."""
    return _kept(function, set())


def contracted_entry(function: _Kernel) -> _Kernel:
    """The same, where a product and a sum may be rounded once: for bounds that hold either way."""
    return _kept(function, {"contract"})


def _kept(function: _Kernel, freedoms: set[str]) -> _Kernel:
    function.__qualname__ += "_" + _stamp(Path(function.__code__.co_filename).parent)
    options = njit(cache=True, nogil=True, error_model="numpy", fastmath=freedoms)
    return cast("_Kernel", options(function))


def called(function: _Kernel) -> _Kernel:
    """A kernel that kernels call."""
    return cast("_Kernel", njit(nogil=True, error_model="numpy")(function))


def inlined(function: _Kernel) -> _Kernel:
    """A kernel that becomes part of those that call it: for what runs at every step."""
    return cast("_Kernel", njit(nogil=True, error_model="numpy", forceinline=True)(function))


def _without_owners(typing, arrays):  # type: ignore[no-untyped-def]
    def build(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        (value,) = arguments
        for place, kind in enumerate(signature.args[0].types):
            if isinstance(kind, types.Array):
                array = context.make_array(kind)(
                    context, builder, builder.extract_value(value, place)
                )
                array.meminfo = cgutils.get_null_value(array.meminfo.type)
                array.parent = cgutils.get_null_value(array.parent.type)
                value = builder.insert_value(value, array._getvalue(), place)
        return value

    return arrays(arrays), build


_lent = cast("Callable[[_Arrays], _Arrays]", intrinsic(_without_owners))


@inlined
def lent(arrays: _Arrays) -> _Arrays:
    """The same arrays without owners; whoever called the entry owns them until it returns."""
    return _lent(arrays)
