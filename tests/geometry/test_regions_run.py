"""Counting in pieces: executors, broken pools, checkpoints that survive kill -9."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.geometry.counting._run import Execution

DATA = Path(__file__).resolve().parents[1] / "data" / "regions"
CASES = {"d2_32x3": (183, 652, 1318), "d3_16x2": (182, 882)}


def source(name: str) -> hm.ReluNetwork:
    return hm.load_network(DATA / f"{name}.npz")


def counted(name: str, **options: Any) -> hm.Regions:
    given = source(name)
    return hm.regions(given, on=f"[-1,1]^{given.inputs}", **options)


class Breaking(Executor):
    """A pool that counts some pieces and then breaks, as when a worker is killed."""

    def __init__(self, lives: int) -> None:
        self.lives = lives

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.lives > 0:
            self.lives -= 1
            future.set_result(fn(*args, **kwargs))
        else:
            future.set_exception(BrokenExecutor("a worker was killed"))
        return future


@pytest.mark.parametrize("name", CASES)
def test_pieces_add_up_whoever_counts_them(name: str) -> None:
    alone = counted(name)
    with ThreadPoolExecutor(2) as pool:
        shared = counted(name, executor=pool)
        assert shared.layers == alone.layers == CASES[name]
        assert shared.count == alone.count
        assert shared.notes == ()


@pytest.mark.parametrize("name", CASES)
def test_a_broken_pool_changes_nothing_but_the_notes(name: str) -> None:
    found = counted(name, executor=Breaking(3))
    assert found.layers == CASES[name]
    assert "the pool broke" in found.notes[0]
    assert "were counted in this process" in found.notes[0]


def test_a_broken_pool_is_replaced_if_there_is_a_way() -> None:
    pools: list[Breaking] = []

    def make() -> Executor:
        pools.append(Breaking(100))
        return pools[-1]

    found = counted("d2_32x3", executor=make)
    assert found.layers == CASES["d2_32x3"]
    assert len(pools) > 1
    assert set(found.notes) == {"a pool broke and was replaced"}
    hopeless = counted("d2_32x3", executor=lambda: Breaking(0))
    assert hopeless.layers == CASES["d2_32x3"]
    assert "the rest was counted here" in hopeless.notes[-1]


def test_a_worker_that_is_killed_does_not_change_the_count() -> None:
    pools: list[ProcessPoolExecutor] = []

    def make() -> ProcessPoolExecutor:
        pools.append(ProcessPoolExecutor(2, mp_context=get_context("spawn")))
        return pools[-1]

    killed: list[int] = []

    def kill(cells: int) -> None:
        if cells and not killed:
            victim = next(iter(pools[0]._processes.values())).pid
            killed.append(victim)
            os.kill(victim, signal.SIGKILL)

    rng = np.random.default_rng(3)
    sizes = [(96, 2), (96, 96), (1, 96)]
    network = hm.ReluNetwork(
        [rng.normal(size=s) for s in sizes], [rng.normal(size=s[0]) for s in sizes]
    )
    alone = hm.regions(network, on="[-2,2]^2")
    shared = hm.regions(network, on="[-2,2]^2", executor=make, progress=kill)
    assert shared.layers == alone.layers
    assert killed
    assert shared.notes == () or "replaced" in shared.notes[0]


def test_an_error_in_a_worker_is_an_error() -> None:
    with pytest.raises(hm.RequestError, match="more than 20 cells"):
        _ = counted("d2_32x3", executor=ThreadPoolExecutor(1), limit=20).cells


def test_a_checkpoint_is_gone_on_from(tmp_path: Path) -> None:
    place = tmp_path / "count.npz"
    seen: list[int] = []

    def stop(cells: int) -> None:
        seen.append(cells)
        if cells > 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _ = counted("d2_32x3", checkpoint=place, progress=stop).cells
    found = counted("d2_32x3", checkpoint=place)
    assert found.layers == CASES["d2_32x3"]
    assert "pieces were done before" in found.notes[0]
    again = counted("d2_32x3", checkpoint=place)
    assert again.layers == CASES["d2_32x3"]
    (note,) = again.notes
    assert re.fullmatch(r"(\d+) of \1 pieces were done before", note)


def test_a_count_that_is_killed_resumes_with_the_same_answer(tmp_path: Path) -> None:
    """kill -9 in the middle, by the process itself: nothing can tidy up."""
    place = tmp_path / "count.npz"
    program = f"""
        import os, signal
        import hardmax as hm
        from hardmax.geometry.counting import _checkpoint
        _checkpoint._EVERY = 0.0
        def die(cells):
            if cells > 400:
                os.kill(os.getpid(), signal.SIGKILL)
        source = hm.load_network({str(DATA / "d3_16x2.npz")!r})
        print(hm.regions(source, on="[-1,1]^3", checkpoint={str(place)!r}, progress=die).count)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert place.exists()
    assert not list(tmp_path.glob(".hardmax*"))
    found = counted("d3_16x2", checkpoint=place)
    assert found.count == counted("d3_16x2").count
    assert "pieces were done before" in found.notes[0]


def test_foreign_checkpoints_are_refused(tmp_path: Path) -> None:
    place = tmp_path / "count.npz"
    _ = counted("d2_32x3", checkpoint=place).cells
    with pytest.raises(hm.RequestError, match="belongs to another count"):
        _ = counted("d2_32x3", checkpoint=place, fast=True).cells
    with pytest.raises(hm.RequestError, match="belongs to another count"):
        _ = counted("d3_16x2", checkpoint=place).cells
    (tmp_path / "other").write_bytes(b"something else")
    with pytest.raises(hm.FileError, match="no checkpoint"):
        _ = counted("d2_32x3", checkpoint=tmp_path / "other").cells
    assert (tmp_path / "other").read_bytes() == b"something else"


def test_a_checkpoint_holds_cells_and_regions(tmp_path: Path) -> None:
    place = tmp_path / "count.npz"
    found = counted("d3_16x2", checkpoint=place)
    assert found.cells == 882
    assert found.count == 882
    again = counted("d3_16x2", checkpoint=place)
    assert (again.count, again.cells) == (882, 882)
    assert len(again.notes) == 1


def test_a_checkpoint_of_another_slice_is_refused(tmp_path: Path) -> None:
    """Origins 1/3 and its float: the same floats, other walls."""
    place, square = tmp_path / "count.npz", [[0, -1], [1, -1], [1, 1], [0, 1]]
    net, ways = hm.ReluNetwork([np.eye(2), [[1.0, 1.0]]], [[0.0, 0.0], [0.0]]), [[1, 0], [0, 1]]
    _ = hm.regions(net, on=hm.Slice([Fraction(1, 3), 0], ways, square), checkpoint=place).cells
    with pytest.raises(hm.RequestError, match="belongs to another count"):
        _ = hm.regions(net, on=hm.Slice([1 / 3, 0], ways, square), checkpoint=place).cells


def test_what_is_no_executor_is_refused() -> None:
    with pytest.raises(hm.RequestError, match=r"takes a concurrent\.futures\.Executor"):
        counted("d2_32x3", executor=3)


def test_on_a_dask_cluster() -> None:
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        found = counted("d2_32x3", executor=client.get_executor())
        assert found.layers == CASES["d2_32x3"]


def test_a_limit_beyond_all_integers_of_the_loops() -> None:
    """Nobody counts so far."""
    limit = Execution(limit=10**30).limit
    assert limit is not None
    assert 10**18 < limit < np.iinfo(np.int64).max
