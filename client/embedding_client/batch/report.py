"""The status of a batch job as text: one line of figures, or a list."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from embedding_client.batch.prices import PRICES

if TYPE_CHECKING:
    from embedding_client.batch.jobs import JobStatus

__all__ = ["as_json", "described", "figures"]


def figures(status: "JobStatus") -> list[str]:
    """Return the figures of a running job, for one line."""
    if status.shards is None:
        return ["planning"]
    shown = [f"{status.finished} of {status.shards} shards"]
    if status.failed:
        shown.append(f"{status.failed} failed")
    progress = status.progress
    if progress is not None:
        shown += [f"{progress.rows:,} rows", f"{progress.rejected:,} rejected"]
        if progress.rows_per_second is not None:
            shown.append(f"{progress.rows_per_second:,.0f} rows/s")
        shown.append(f"about ${progress.cost:,.2f}")
        if progress.seconds_left is not None:
            shown.append(f"about {tqdm.format_interval(progress.seconds_left)} left")
    return shown


def described(status: "JobStatus") -> str:
    """Return the status in lines."""
    lines = [f"{status.name}  {status.state}"]
    lines += [f"  {name:<10} {value}" for name, value in _fields(status)]
    return "\n".join(lines)


def as_json(status: "JobStatus") -> dict[str, Any]:
    """Return the status for JSON, with times as text."""
    progress = status.progress._asdict() if status.progress else None
    shown = status._asdict() | {"finished": status.finished, "progress": progress}
    found: dict[str, Any] = json.loads(json.dumps(shown, default=datetime.isoformat))
    return found


def _fields(status: "JobStatus") -> Iterator[tuple[str, object]]:
    if status.shards is not None:
        yield "shards", f"{status.finished} of {status.shards} done, {status.failed} failed"
    yield from _progress_fields(status)
    ended = status.ended or datetime.now(UTC)
    seconds = (ended - status.started).total_seconds()
    yield "started", f"{status.started:%Y-%m-%d %H:%M:%S %Z}"
    yield "duration", tqdm.format_interval(seconds)
    if status.state == "RUNNING" and status.progress and status.progress.seconds_left is not None:
        yield "time left", f"about {tqdm.format_interval(status.progress.seconds_left)}"
    for name, value in (status.result or {}).items():
        if name not in {"rows", "rejected", "shards"} or status.progress is None:
            yield name, value
    if status.problem:
        yield "error", status.problem


def _progress_fields(status: "JobStatus") -> Iterator[tuple[str, object]]:
    progress = status.progress
    if progress is None:
        if status.unknown:
            yield "rows", f"unknown: {status.unknown}"
        return
    rate = progress.rows_per_second
    yield "rows", f"{progress.rows:,}" + ("" if rate is None else f", {rate:,.1f} a second")
    yield "rejected", f"{progress.rejected:,}"
    cost = f"about ${progress.cost:,.4f}"
    if progress.rows:
        cost += f", ${1_000_000 * progress.cost / progress.rows:,.2f} per million rows,"
    yield "cost", f"{cost} at list prices of {PRICES.region}, {PRICES.read}"
