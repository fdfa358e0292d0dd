"""What `verify` and `compile --certify` share: how hard to try, and how a verdict is told."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import click

from hardmax import Budget, Certificate, Construction, Folder, RequestError, Verdict, certify
from hardmax.cli._errors import BROKEN_CLAIM, INTERRUPTED, note_written
from hardmax.cli._progress import certifying
from hardmax.cli._records import equation
from hardmax.cli._workers import leave_interruptions


@dataclass(frozen=True)
class Effort:
    """What --tolerance, --budget and --jobs say."""

    tolerance: float | None
    budget: Budget
    jobs: int

    @classmethod
    def of(cls, tolerance: str | None, budget: str | None, jobs: int) -> Effort:
        return cls(None if tolerance is None else _share(tolerance), Budget.of(budget), jobs)

    def certify(self, subject: Construction | Folder, visible: bool) -> Certificate:
        """The certificate, with a bar on stderr while it is being established."""
        with _workers(self.jobs) as executor, certifying(visible) as progress:
            run = subject.certify if isinstance(subject, Folder) else partial(certify, subject)
            return run(
                tolerance=self.tolerance,
                budget=self.budget,
                executor=executor,
                progress=progress,
            )


def tell_verdict(certificate: Certificate) -> None:
    """On stderr, what is wrong with a claim that was not proved, and what would help."""
    if certificate.verdict is not Verdict.PROVED:
        click.echo(f"{certificate.verdict.value} {certificate.advice}".strip(), err=True)


def leave(certificate: Certificate) -> NoReturn:
    """An interruption that left the claim undecided has its own code; the rest is a failure."""
    stopped = certificate.was_interrupted and certificate.verdict is Verdict.UNDECIDED
    raise click.exceptions.Exit(INTERRUPTED if stopped else BROKEN_CLAIM)


def check_error_plot(construction: Construction, plot: str | None) -> None:
    """Refuse a picture that cannot be drawn before the proof, and not after it."""
    if plot is not None:
        from hardmax.plots import check_error_picture

        check_error_picture(construction, plot)


def draw_error(construction: Construction, certificate: Certificate | None, plot: str) -> None:
    """The error over the domain as a picture."""
    from hardmax.plots import error_picture

    claim = construction.claim
    title = f"{equation(claim.target)} on {claim.domain}"
    error_picture(construction, certificate, path=plot, title=title)
    note_written(plot)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share < math.inf:
        raise RequestError(f"The tolerance must be a number > 0, such as 0.01, not {text!r}.")
    return share


@contextmanager
def _workers(jobs: int) -> Iterator[Executor | None]:
    """So many processes, each with one thread for its matrices; None if one is enough."""
    if jobs == 1:
        yield None
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    fresh = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=fresh, initializer=leave_interruptions)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
