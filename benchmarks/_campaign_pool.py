"""Chunks in processes of their own: one that dies costs a case, never the campaign."""

from __future__ import annotations

import multiprocessing
import resource
import signal
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace

from benchmarks._campaign_parts import Case, faults, read_answer
from benchmarks._campaign_state import Chunk, Done

_MOST_FAILURES = 20  # of one chunk that are looked for


def run_chunks(chunks: Iterable[Chunk], jobs: int, source: str) -> Iterator[Done]:
    """The chunks as they are done, so many at a time; 0 jobs means in this process.

    Where a process dies, the chunks that were under way are tried alone, halved until the case
    that kills is found. An interruption drops what is under way.
    """
    waiting = deque(chunks)
    if jobs == 0:
        yield from (run_chunk(chunk, source) for chunk in waiting)
        return
    while waiting:
        flying: dict[Future[Done], Chunk] = {}
        with _pool(min(jobs, len(waiting))) as pool:
            try:
                for done in _flight(pool, waiting, flying, jobs, source):
                    yield replace(done, wall=done.wall / jobs)
            except BrokenProcessPool:
                pass
            except BaseException:
                _drop(pool)
                raise
        for chunk in flying.values():
            yield from _alone(chunk, source)


def run_chunk(chunk: Chunk, source: str) -> Done:
    """One chunk here and now. A part that raises has crashed, wherever it was."""
    began, cpu = time.perf_counter(), _cpu_seconds()
    counts, failures = _tried(chunk)
    if faults(counts) and not failures:
        failures = _narrowed(chunk)
    return Done(
        part=chunk.part.name,
        seed=chunk.seed,
        source=source,
        start=chunk.start,
        count=chunk.count,
        counts=counts,
        failures=failures,
        cpu=_cpu_seconds() - cpu,
        wall=time.perf_counter() - began,
    )


def _tried(chunk: Chunk) -> tuple[dict[str, int], list[Case]]:
    part = chunk.part
    try:
        answer = part.function()(chunk.start, chunk.count, chunk.seed, *part.arguments)
        counts, failures = read_answer(answer)
    except Exception as reason:  # the part itself fell over; where, is found by halving
        said = [(chunk.start, f"{type(reason).__name__}: {reason}")] * (chunk.count == 1)
        return {"cases": chunk.count, "crashes": 1}, said
    counts.setdefault("cases", chunk.count)
    return counts, failures


def _narrowed(chunk: Chunk) -> list[Case]:
    """The single cases that fail, of a chunk that says only how many."""
    if chunk.count == 1:
        return [(chunk.start, f"{faults(_tried(chunk)[0])}")]
    failures: list[Case] = []
    for part in _halves(chunk):
        counts, said = _tried(part)
        if faults(counts) and len(failures) < _MOST_FAILURES:
            failures += said or _narrowed(part)
    return failures or [(chunk.start, "a fault that did not come again when it was looked for")]


def _halves(chunk: Chunk) -> tuple[Chunk, Chunk]:
    half = chunk.count // 2
    rest = replace(chunk, start=chunk.start + half, count=chunk.count - half)
    return replace(chunk, count=half), rest


def _alone(chunk: Chunk, source: str) -> Iterator[Done]:
    with _pool(1) as pool:
        try:
            done = pool.submit(run_chunk, chunk, source).result()
        except BrokenProcessPool:
            done = None
        except BaseException:
            _drop(pool)
            raise
    if done is not None:
        yield done
    elif chunk.count == 1:
        counts = {"cases": 1, "crashes": 1}
        said = [(chunk.start, "the process died")]
        yield Done(chunk.part.name, chunk.seed, source, chunk.start, 1, counts, said)
    else:
        for half in _halves(chunk):
            yield from _alone(half, source)


def _flight(
    pool: ProcessPoolExecutor,
    waiting: deque[Chunk],
    flying: dict[Future[Done], Chunk],
    jobs: int,
    source: str,
) -> Iterator[Done]:
    """Keep so many chunks under way, and no more: they are the suspects if a process dies."""
    while waiting or flying:
        while waiting and len(flying) < jobs:
            chunk = waiting[0]
            flying[pool.submit(run_chunk, chunk, source)] = chunk
            waiting.popleft()
        for future in wait(flying, return_when=FIRST_COMPLETED).done:
            done = future.result()
            del flying[future]
            yield done


def _pool(jobs: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_deaf_to_ctrl_c)


def _deaf_to_ctrl_c() -> None:
    """Ctrl-C is the driver's: a checker that hears it answers with what it has so far.

    A handler that does nothing, because "ignored" would be inherited by the programs that a part
    starts, and some of them are tried with this very signal.
    """
    signal.signal(signal.SIGINT, lambda *_: None)


def _drop(pool: ProcessPoolExecutor) -> None:
    pool.shutdown(wait=False, cancel_futures=True)
    for child in multiprocessing.active_children():
        child.terminate()


def _cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)
