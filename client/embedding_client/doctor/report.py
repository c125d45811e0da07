"""The report: lines for people, JSON for programs."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from embedding_client.doctor.checkup import Result
from embedding_client.doctor.findings import State

__all__ = ["as_json", "as_lines", "summary"]

_COLORS = {State.OK: 32, State.WARNING: 33, State.ILL: 31, State.SKIPPED: 90}
_WIDTH = max(len(state) for state in State)
_NAME = 15


def as_lines(results: Sequence[Result], *, title: str, color: bool) -> Iterator[str]:
    """Yield the lines of the report: one a check, and one for what to do."""
    yield title
    for group, members in groupby(results, key=lambda result: result.check.group):
        yield ""
        yield group
        for check, finding in members:
            state = f"{finding.state:<{_WIDTH}}"
            if color:
                state = f"\x1b[{_COLORS[finding.state]}m{state}\x1b[0m"
            yield f"  {state}  {check.name:<{_NAME}} {finding.found}"
            if finding.advice:
                yield f"  {'':<{_WIDTH}}  {'':<{_NAME}} to do: {finding.advice}"
    yield ""
    yield summary(results)


def summary(results: Sequence[Result]) -> str:
    """Return how many checks have each state, as a line."""
    counts = {state: sum(r.finding.state == state for r in results) for state in State}
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count)


def as_json(results: Sequence[Result], *, url: str | None, environment: str | None) -> Any:
    """Return the report as JSON values; `state` is the worst of all checks."""
    states = {result.finding.state for result in results}
    worst = next((s for s in (State.ILL, State.WARNING) if s in states), State.OK)
    return {
        "state": worst,
        "url": url,
        "environment": environment,
        "checks": [
            {
                "group": check.group,
                "name": check.name,
                "state": finding.state,
                "found": finding.found,
                "advice": finding.advice,
                "data": dict(finding.data),
            }
            for check, finding in results
        ],
    }
