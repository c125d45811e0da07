"""`embed batch`: start, follow and stop batch jobs."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from tqdm import tqdm

from embedding_client._batch_jobs import PRICES
from embedding_client._errors import ConfigurationError
from embedding_client._job_arguments import BATCH_VARIABLE
from embedding_client._progress import Shown, follow

if TYPE_CHECKING:
    from embedding_client._batch_jobs import BatchJobs, JobStatus

__all__ = ["as_json", "described", "figures", "run_batch"]

#: The options of `start` that are settings of a job.
_SETTINGS = (
    "text",
    "id",
    "metadata",
    "prompt",
    "dimensions",
    "dtype",
    "truncate",
    "max_rejected_percent",
)
_FAILED = 1
_INTERRUPTED = 130


def run_batch(args: argparse.Namespace) -> int:
    """Run `embed batch`; return the exit status."""
    if args.step == "start" and args.local is not None:
        _start_local(args)
    steps: dict[str, Callable[[BatchJobs, argparse.Namespace], int]] = {
        "start": _start,
        "status": _status,
        "resume": _resume,
        "cancel": _cancel,
        "list": _list,
    }
    return steps[args.step](_jobs(args), args)


def _start(jobs: "BatchJobs", args: argparse.Namespace) -> int:
    for folder in (args.source, args.destination):
        if not folder.startswith("s3://"):
            raise ConfigurationError(
                f"On AWS, both folders are s3://BUCKET/PREFIX/; found {folder}. For folders of "
                "this machine, use --local."
            )
    settings = {name: getattr(args, name) for name in _SETTINGS if getattr(args, name) is not None}
    print(
        jobs.start(
            {"source": args.source, "destination": args.destination, **settings}, name=args.name
        )
    )
    return 0


def _start_local(args: argparse.Namespace) -> NoReturn:
    if not args.artifact:
        raise ConfigurationError("--local needs --artifact, the folder of the compiled model.")
    program = [sys.executable, "-P", "-m", "embedding_kit", "jobs.embed"]
    command = [*program, args.source, args.destination]
    command += ["--artifact", args.artifact, "--processes", str(args.local)]
    for name in _SETTINGS:
        value = getattr(args, name)
        for each in value if isinstance(value, list) else [value]:
            command += [] if each is None else [f"--{name.replace('_', '-')}", str(each)]
    # In place of this process, so that Ctrl-C and the exit status are the job's own.
    os.execv(sys.executable, command)  # noqa: S606 - this Python, our module


def _status(jobs: "BatchJobs", args: argparse.Namespace) -> int:
    status = jobs.status(args.job)
    on_terminal = sys.stderr.isatty()
    if args.follow or (args.follow is None and on_terminal):
        try:
            status = follow(status, lambda: jobs.status(args.job), _shown, on_terminal=on_terminal)
        except KeyboardInterrupt:
            print(
                f"\n{args.job} goes on; 'embed batch cancel {args.job}' stops it", file=sys.stderr
            )
            return _INTERRUPTED
    if args.json:
        print(json.dumps(as_json(status)))
    else:
        print(described(status))
    return _FAILED if status.state not in {"RUNNING", "SUCCEEDED"} else 0


def _shown(status: "JobStatus") -> Shown:
    return Shown(", ".join(figures(status)), status.finished, status.shards)


def _resume(jobs: "BatchJobs", args: argparse.Namespace) -> int:
    print(jobs.resume(args.job))
    return 0


def _cancel(jobs: "BatchJobs", args: argparse.Namespace) -> int:
    jobs.cancel(args.job)
    print(f"{args.job} is canceled; 'embed batch resume {args.job}' continues it")
    return 0


def _list(jobs: "BatchJobs", args: argparse.Namespace) -> int:
    for name, state, started in jobs.newest(args.number):
        print(f"{started:%Y-%m-%d %H:%M}  {state:<9}  {name}")
    return 0


def _jobs(args: argparse.Namespace) -> "BatchJobs":
    from embedding_client._batch_jobs import BatchJobs  # noqa: PLC0415  (slow)

    if not args.state_machine:
        raise ConfigurationError(
            f"No state machine: give --state-machine, or set {BATCH_VARIABLE} to the ARN that "
            "`scripts/deploy` prints as StateMachineArn. For this machine, use --local."
        )
    return BatchJobs(args.state_machine, profile=args.profile)


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
