"""Measure each size: some starts, and after each of them warm requests of each length."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tuning.errors import SizeRefusedError
from tuning.invocation import Report
from tuning.requests import PATH, EmbeddingRequest, vectors_of
from tuning.sizes import Size
from tuning.throwaway import ThrowAway

__all__ = ["Measured", "Plan", "Progress", "measure"]


class Progress(Protocol):
    """Counts finished steps, for example in a bar."""

    def update(self, steps: int, /) -> object:
        """Count further finished invocations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured."""

    #: Starts of each size. Each may meet another processor of AWS's fleet.
    starts: int
    #: Requests of each length after each start.
    requests: int

    def invocations(self, sizes: int, lengths: int) -> int:
        """Return the invocations of all sizes: a cold one, and of each length an unmeasured one."""
        return sizes * self.starts * (1 + lengths * (1 + self.requests))


@dataclass(slots=True)
class Measured:
    """The measurements of one size."""

    size: Size
    #: Milliseconds of each initialization.
    inits: list[float] = field(default_factory=list)
    #: The reports of the warm requests, by length.
    warm: list[list[Report]] = field(default_factory=list)
    #: The vectors after each start, by length: float32 [texts, dimensions].
    vectors: list[list[np.ndarray]] = field(default_factory=list)
    #: The highest memory of an environment, in MB.
    peak_mb: int = 0


def measure(
    function: ThrowAway,
    sizes: Sequence[Size],
    requests: Sequence[EmbeddingRequest],
    plan: Plan,
    *,
    progress: Progress,
) -> tuple[list[Measured], list[str]]:
    """Measure the sizes in turns, so that slow minutes of AWS meet all of them.

    Args:
        function: The function.
        sizes: The sizes.
        requests: A request of each length.
        plan: How much is measured.
        progress: Counts the invocations.

    Returns:
        What each size showed, and notes on sizes that the account does not allow.
    """
    found = {
        size: Measured(size, warm=[[] for _ in requests], vectors=[[] for _ in requests])
        for size in sizes
    }
    notes: list[str] = []
    for number in range(1, plan.starts + 1):
        for size in list(found):
            try:
                function.start(size, number)
            except SizeRefusedError as error:
                notes.append(str(error))
                del found[size]
                continue
            _measure_start(function, requests, plan.requests, found[size], progress)
    return list(found.values()), notes


def _measure_start(
    function: ThrowAway,
    requests: Sequence[EmbeddingRequest],
    count: int,
    measured: Measured,
    progress: Progress,
) -> None:
    _, report = function.call("POST", PATH, requests[0].body)
    progress.update(1)
    if report.init is not None:
        measured.inits.append(report.init)
    for place, request in enumerate(requests):
        # The first request of a length reads pages of memory that later ones find.
        answer, report = function.call("POST", PATH, request.body)
        measured.vectors[place].append(vectors_of(answer))
        progress.update(1)
        for _ in range(count):
            _, report = function.call("POST", PATH, request.body)
            measured.warm[place].append(report)
            progress.update(1)
    measured.peak_mb = max(measured.peak_mb, report.peak_mb)
