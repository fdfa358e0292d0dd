"""The driver: words or real numbers, and how much may be spent on them."""

from __future__ import annotations

import math
from concurrent.futures import Executor

from hardmax._errors import RequestError
from hardmax.checker._budget import Budget, Clock, Progress
from hardmax.checker._certificate import Certificate
from hardmax.core import Box, Construction, Host


def certify(
    construction: Construction,
    *,
    tolerance: float | None = None,
    budget: Budget | str | float | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    host: Host | None = None,
) -> Certificate:
    """Establish the claim of a construction from its weights, or break it, or say what is missing.

    The search stops as soon as the claim is decided; with a `tolerance` it goes on until
    certified <= (1 + tolerance) measured. `budget` is a text such as "1e8 work" or "1e6 boxes", for
    which the verdict is the same on every machine, or a time such as "30s", or a `Budget`; a unit
    of work is about a microsecond, and 6e7 are the default. `executor` is any
    `concurrent.futures.Executor`: boxes are sent to it in batches. An interruption (Ctrl-C) ends
    the search with the best verdict so far. With a `host` the certificate is about the Transformer
    in that architecture: what norms, activations and casts do to each read is charged as rounding.
    """
    if tolerance is not None and not 0 < tolerance < math.inf:
        raise RequestError(
            f"The tolerance must be a number > 0, for example 0.01, not {tolerance}."
        )
    clock = Clock(Budget.of(budget))
    if not isinstance(construction.claim.domain, Box):
        from hardmax.checker.sequences import certify_sequences

        return certify_sequences(construction, clock, progress, host)
    from hardmax.checker.reals import certify_reals

    return certify_reals(construction, tolerance, clock, executor, progress, host)
