"""Shows a running test: a table on a terminal, a line every ten seconds elsewhere."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TextIO

from embedding_load.limits import Budget
from embedding_load.outcomes import ERRORS, WAITED, Kind, Outcome
from embedding_load.schedule import Plan
from embedding_load.statistics import Spread, spread
from embedding_load.table import usd

__all__ = ["Live", "Moment", "as_line", "as_lines"]

#: Seconds between two looks, on a terminal and elsewhere.
_TABLE_SECONDS, _LINE_SECONDS = 1.0, 10.0
#: Percentiles are those of the latest seconds: sorting all would delay requests.
_RECENT_SECONDS = 10.0


class Watched(Protocol):
    """What is read of a sender at work."""

    @property
    def sent(self) -> int:
        """Requests that were sent so far."""

    @property
    def waiting(self) -> int:
        """Requests that were due, and have no answer."""

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """Requests that have ended, in that order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A running test."""

    seconds: float
    planned: float
    sent: int
    #: Requests that are due and have no answer.
    waiting: int
    answered: int
    throttled: int
    errors: int
    cold_starts: int
    #: Answers a second, lately.
    rate: float
    latency: Spread | None
    #: US dollars so far, at most; None for a server.
    usd: float | None


def as_lines(moment: Moment) -> list[str]:
    """Return the live table."""
    times = moment.latency.at if moment.latency else {}
    shown = "  ".join(
        f"{name} {1000 * times[name]:,.0f}" for name in ("p50", "p90", "p99", "max") if times
    )
    load = f"{moment.seconds:,.0f} of {moment.planned:,.0f} s   {moment.sent:,} sent"
    kinds = f"answered {moment.answered:,}   throttled {moment.throttled:,}"
    lines = [
        f"  {load}   {moment.waiting:,} waiting   {moment.rate:,.1f} answers a second",
        f"  {kinds}   errors {moment.errors:,}   cold starts {moment.cold_starts:,}",
        f"  latency in ms, lately: {shown or '-'}",
    ]
    if moment.usd is not None:
        lines.append(f"  cost so far: at most {usd(moment.usd)}")
    return lines


def as_line(moment: Moment) -> str:
    """Return the test in one line."""
    latency = f", p99 {1000 * moment.latency.at['p99']:,.0f} ms" if moment.latency else ""
    cost = f", at most {usd(moment.usd)}" if moment.usd is not None else ""
    return (
        f"{moment.seconds:,.0f} s: {moment.sent:,} sent, {moment.answered:,} answered, "
        f"{moment.throttled:,} throttled, {moment.errors:,} errors, "
        f"{moment.cold_starts:,} cold starts{latency}{cost}"
    )


class Live:
    """Shows a sender at work.

    Args:
        sender: The sender.
        plan: Its plan.
        budget: Its budget.
        billed: Whether requests cost anything.
        output: Where to write.
    """

    def __init__(
        self, sender: Watched, plan: Plan, budget: Budget, *, billed: bool, output: TextIO
    ) -> None:
        self._sender, self._plan, self._budget = sender, plan, budget
        self._billed, self._output = billed, output
        self._on_terminal = output.isatty()
        self._kinds: Counter[Kind] = Counter()
        self._cold = self._seen = 0
        self._drawn = 0

    async def run(self) -> None:
        """Show the test until cancelled."""
        while True:
            await asyncio.sleep(_TABLE_SECONDS if self._on_terminal else _LINE_SECONDS)
            self._show(self.moment())

    def close(self) -> None:
        """Remove the table, which the report replaces."""
        if self._drawn:
            self._write(f"\x1b[{self._drawn}A\x1b[J")

    def moment(self) -> Moment:
        """Return the test as it is now."""
        outcomes, now = self._sender.outcomes, self._sender.seconds
        for outcome in outcomes[self._seen :]:
            self._kinds[outcome.kind] += 1
            self._cold += outcome.cold
        self._seen = len(outcomes)
        recent = _recent(outcomes, now - _RECENT_SECONDS)
        return Moment(
            seconds=now,
            planned=self._plan.seconds,
            sent=self._sender.sent,
            waiting=self._sender.waiting,
            answered=self._kinds[Kind.OK],
            throttled=self._kinds[Kind.THROTTLED],
            errors=sum(self._kinds[kind] for kind in ERRORS),
            cold_starts=self._cold,
            rate=sum(o.kind is Kind.OK for o in recent) / max(1e-9, min(now, _RECENT_SECONDS)),
            latency=spread([o.latency for o in recent if o.kind in WAITED]),
            usd=self._budget.spent.bound if self._billed else None,
        )

    def _show(self, moment: Moment) -> None:
        if not self._on_terminal:
            self._write(as_line(moment) + "\n")
            return
        lines = as_lines(moment)
        up = f"\x1b[{self._drawn}A\x1b[J" if self._drawn else ""
        self._write(up + "\n".join(lines) + "\n")
        self._drawn = len(lines)

    def _write(self, content: str) -> None:
        with suppress(OSError):  # a closed terminal must not end the test
            self._output.write(content)
            self._output.flush()


def _recent(outcomes: Sequence[Outcome], since: float) -> Sequence[Outcome]:
    """Return the outcomes since a time; they are ordered by their end."""
    place = len(outcomes)
    while place and outcomes[place - 1].ended >= since:
        place -= 1
    return outcomes[place:]
