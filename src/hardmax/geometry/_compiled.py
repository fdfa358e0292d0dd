"""How kernels are run: interpreted at first, compiled when that pays, their machine code kept.

**The first minute.** To compile an engine takes 3 to 20 seconds, and most first questions are
small: the 232 regions of a 2-16-16-1 take 14 s of compiling, or half a second of Python, since
kernels are Python and mean the same either way, bit for bit (a product and a sum that may be
rounded once aside). So an `Entry` interprets until its folder has used up its `PATIENCE`, or until
it is handed `MANY` numbers at once; then it compiles, and says so in one line. Walks that stop and
go on take short strides meanwhile (`stride`). A machine code that is kept is used at once.
(Compiling in a thread or a process beside was the other way: it starves the two cores of a small
machine, outlives short commands, or is killed and never gets done.) `HARDMAX_LOOPS=compiled` or
`interpreted` is for those who know; `hardmax warm` compiles everything ahead.

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
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Generic, ParamSpec, TypeVar, cast, final

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload, register_jitable

from hardmax.numerics import FAINT, GROWN, STEP, TINY, UNIT

_Kernel = TypeVar("_Kernel", bound=Callable[..., object])
_P = ParamSpec("_P")
_R = TypeVar("_R")
_Arrays = TypeVar("_Arrays", bound=tuple[object, ...])

_LETTERS = 12  # of a stamp: chance does not make two of them equal
PATIENCE = 2.0  # seconds of a folder's kernels in Python before they are compiled
MANY = 20_000  # numbers handed to a kernel at once: a second of Python or more
_spent: dict[Path, float] = {}  # seconds interpreted so far, by folder
_told: set[Path] = set()
_wished: list[str] = []  # by `at_once`


@lru_cache
def _stamp(folder: Path) -> str:
    """A hash of all that may be compiled into a function of this folder."""
    known = hashlib.sha256(repr((FAINT, GROWN, STEP, TINY, UNIT)).encode())
    for file in (Path(__file__), *sorted(folder.glob("*.py"))):  # none in a zip archive
        known.update(file.name.encode())
        known.update(file.read_bytes())
    return known.hexdigest()[:_LETTERS]


@final
class Entry(Generic[_P, _R]):
    """A kernel that Python calls: interpreted at first, compiled once it pays, and kept on disk."""

    def __init__(self, function: Callable[_P, _R], freedoms: set[str], resumable: bool) -> None:
        self.folder = Path(function.__code__.co_filename).parent
        function.__qualname__ += "_" + _stamp(self.folder)
        options = njit(cache=True, nogil=True, error_model="numpy", fastmath=freedoms)
        self.py_func = function
        self.dispatcher = options(function)
        self._resumable = resumable
        self._is_compiled = False

    def __call__(self, *arguments: _P.args, **named: _P.kwargs) -> _R:
        if self._is_compiled or self._must_compile(arguments):
            return self.dispatcher(*arguments, **named)
        begun = time.process_time()
        try:
            with np.errstate(all="ignore"):  # as compiled code has it
                return self.py_func(*arguments, **named)
        finally:
            _spent[self.folder] = _spent.get(self.folder, 0.0) + time.process_time() - begun

    def stride(self, steps: int, few: int) -> int:
        """How many steps a walk should ask for at once: `few` as long as it is interpreted."""
        return steps if self._is_compiled else min(steps, few)

    def _must_compile(self, arguments: Iterable[object]) -> bool:
        wish = _wished[-1] if _wished else os.environ.get("HARDMAX_LOOPS")
        if wish == "interpreted" or not hasattr(self.dispatcher, "stats"):  # Numba is switched off
            return False
        kept = self._is_kept
        impatient = _spent.get(self.folder, 0.0) > PATIENCE
        large = not self._resumable and _size(arguments) > MANY
        self._is_compiled = wish == "compiled" or kept or impatient or large
        if self._is_compiled and not (kept or wish):
            _tell(self.folder)
        return self._is_compiled

    @cached_property
    def _is_kept(self) -> bool:
        """Whether machine code lay on disk when the kernel was first asked for."""
        place = self.dispatcher.stats.cache_path
        return place is not None and any(Path(place).glob(f"*.{self.py_func.__qualname__}-*.nbi"))


@contextmanager
def at_once() -> Iterator[None]:
    """Kernels that are called meanwhile are compiled, however little there is to do."""
    _wished.append("compiled")
    try:
        yield
    finally:
        _wished.pop()


def _size(arguments: Iterable[object]) -> int:
    """How many numbers there are in arrays, and in tuples of arrays."""
    return sum(
        one.size if isinstance(one, np.ndarray) else _size(one) if isinstance(one, tuple) else 0
        for one in arguments
    )


def _tell(folder: Path) -> None:
    if folder not in _told:
        _told.add(folder)
        sys.stderr.write(
            f"hardmax compiles the loops of {folder.parent.name}/{folder.name}, once on this "
            f"machine, in 3 to 20 seconds (hardmax warm does it ahead)\n"
        )


def entry(function: Callable[_P, _R]) -> Entry[_P, _R]:
    """A kernel that does all it is asked for at once."""
    return Entry(function, set(), resumable=False)


def contracted_entry(function: Callable[_P, _R]) -> Entry[_P, _R]:
    """The same, where a product and a sum may be rounded once: for bounds that hold either way."""
    return Entry(function, {"contract"}, resumable=False)


def resumable_entry(function: Callable[_P, _R]) -> Entry[_P, _R]:
    """A kernel that works in rooms, whose size says nothing, and goes on where it was.

    How much it does at once is what it is told: see `Entry.stride`.
    """
    return Entry(function, set(), resumable=True)


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
