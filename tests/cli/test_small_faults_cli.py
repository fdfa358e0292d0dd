"""Faults of logic that no other test sees, found by `make mutants`: pools of processes."""

from __future__ import annotations

from concurrent import futures
from typing import Any

from hardmax.cli import _certifying


def test_processes_do_not_begin_what_nobody_waits_for(monkeypatch):
    """When the proof is over, calls that have not begun are called off."""
    asked: list[Any] = []

    class Pool:
        def __init__(self, jobs: int, **options: Any) -> None:
            asked.append(jobs)

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            asked.append(cancel_futures)

    monkeypatch.setattr(futures, "ProcessPoolExecutor", Pool)
    with _certifying._workers(2) as pool:
        assert isinstance(pool, Pool)
    assert asked == [2, True]
