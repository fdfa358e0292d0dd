"""How kernels are compiled, and how their machine code is kept.

**The cache.** Numba keeps machine code beside the file of the function that Python calls and trusts
it as long as that file is the same; files from which it imports are not looked at, so kernels split
over several files, or a unit changed in `numerics`, would go stale without a word. An `entry`
therefore carries a stamp in its name, a hash of all files of its folder, of this file and of the
units: where any of them differs, so does the name, and the old code is not found. (A cache locator
of our own would do the same through private classes of Numba; the name of a function is public. One
long file per engine was the first answer.) Kernels that only kernels call are not cached but
compiled into the entries that use them. A folder's kernels import none of another folder.

**The first compilation** takes seconds an engine. LLVM optimises a kernel by itself and again in
every kernel that holds it: what is rare is better a `subroutine` than `inline`. Kernels that only
kernels call are no functions for Python: unpacking all arrays of all tuples took a third of the
time in the plane, and a literal among the arguments made one more copy of the kernel. Rows are
copied by `copy_row`, since Numba compiles a message about shapes, with all that strings need, for
`a[i] = b[j]` of arrays: a third of the time of sums of polytopes. Numba's own inlining
(`inline="always"`) was no faster to compile, and ran at two thirds of the speed.

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

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload, register_jitable

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
    return _compile_entry(function, set())


def contracted_entry(function: _Kernel) -> _Kernel:
    """The same, where a product and a sum may be rounded once: for bounds that hold either way."""
    return _compile_entry(function, {"contract"})


def _compile_entry(function: _Kernel, freedoms: set[str]) -> _Kernel:
    function.__qualname__ += "_" + _stamp(Path(function.__code__.co_filename).parent)
    options = njit(cache=True, nogil=True, error_model="numpy", fastmath=freedoms)
    return cast("_Kernel", options(function))


def subroutine(function: _Kernel) -> _Kernel:
    """A kernel that kernels call, and that stays a function of its own: for what is rare."""
    return _part(function, forceinline=False)


def inline(function: _Kernel) -> _Kernel:
    """A kernel that becomes part of those that call it: for what runs at every step."""
    return _part(function, forceinline=True)


def _part(function: _Kernel, *, forceinline: bool) -> _Kernel:
    """The function itself, which Python may run as it stands; kernels compile it into themselves.

    Unless it is said, `forceinline` is that of the caller.
    """
    options = register_jitable(error_model="numpy", forceinline=forceinline, no_cfunc_wrapper=True)
    return options(function)


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


_take_owners_off = cast("Callable[[_Arrays], _Arrays]", intrinsic(_without_owners))


def lent(arrays: _Arrays) -> _Arrays:
    """The same arrays without owners; whoever called the entry owns them until it returns.

    In Python, where kernels may run as they stand, the arrays themselves.
    """
    return arrays


def _lent_in_kernels(arrays):  # type: ignore[no-untyped-def]
    return lambda arrays: _take_owners_off(arrays)


_options = {"forceinline": True, "no_cfunc_wrapper": True}
overload(lent, jit_options=_options)(_lent_in_kernels)  # type: ignore[arg-type]  # it takes more


@inline
def copy_row(target: np.ndarray, source: np.ndarray) -> None:
    """The numbers of `source` into the first places of `target`."""
    for place in range(len(source)):
        target[place] = source[place]


@inline
def copy_rows(target: np.ndarray, source: np.ndarray) -> None:
    """The same for the rows of a matrix."""
    for row in range(source.shape[0]):
        for place in range(source.shape[1]):
            target[row, place] = source[row, place]
