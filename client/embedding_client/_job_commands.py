"""`embed batch` and the loads of `embed index`: start, follow and stop jobs, or run them here."""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any, NamedTuple, NoReturn

from embedding_client._index import index_arn
from embedding_client._jobs import PRICED, BatchJobs, Execution, Executions, Progress
from embedding_client._operator_arguments import BATCH_VARIABLE, LOAD_VARIABLE
from embedding_client.errors import AwsError, ConfigurationError, counted
from embedding_client.progress import Bar

#: The jobs of a command, the variable with their state machine, and its output.
_STATE_MACHINES = {
    "batch": (BatchJobs, BATCH_VARIABLE, "StateMachineArn"),
    "index": (Executions, LOAD_VARIABLE, "LoadStateMachineArn"),
}
#: Seconds between two looks at a job that is followed.
_LOOK_SECONDS = 5.0
_FAILED = 1
_INTERRUPTED = 130


class JobStatus(NamedTuple):
    """A job, and for a batch job its rows and cost, or why they are unknown."""

    job: Execution
    #: The word for its items.
    items: str
    progress: Progress | None = None
    unknown: str | None = None

    @property
    def finished(self) -> int:
        """The items that are done, with those of earlier executions of a batch job."""
        return max(self.job.done, self.progress.shards if self.progress else 0)


def start_batch(args: argparse.Namespace) -> int:
    """Run `embed batch start`."""
    if args.local is not None:
        if not args.artifact:
            raise ConfigurationError("--local needs --artifact, the folder of the compiled model.")
        _run_here(
            "jobs.embed", settings=_settings(args), artifact=args.artifact, processes=args.local
        )
    for folder in (args.source, args.destination):
        if not folder.startswith("s3://"):
            raise ConfigurationError(
                f"On AWS, both folders are s3://BUCKET/PREFIX/; found {folder}. For folders of "
                "this machine, use --local."
            )
    print(_jobs(args).start(_settings(args), name=args.name))
    return 0


def start_load(args: argparse.Namespace) -> int:
    """Run `embed index load`."""
    if args.local:
        if args.profile:
            os.environ["AWS_PROFILE"] = args.profile
        settings = {**_settings(args), "index": index_arn(args)}
        _run_here("jobs.load", settings=settings, vectors_per_second=args.vectors_per_second)
    if not args.source.startswith("s3://"):
        raise ConfigurationError(
            f"On AWS, the source is s3://BUCKET/PREFIX/; found {args.source}. For a folder of this "
            "machine, use --local."
        )
    if args.vectors_per_second is not None:
        raise ConfigurationError(
            "--vectors-per-second is for --local; on AWS, a load takes what an index takes."
        )
    args.job = _jobs(args).start(_settings(args), name=args.name)
    print(args.job, flush=True)
    return show_status(args) if _follows(args) else 0


def show_status(args: argparse.Namespace) -> int:
    """Run `embed batch status` or `embed index status`."""
    jobs = _jobs(args)
    status = look(jobs, args.job)
    if _follows(args):
        try:
            status = _follow(jobs, status)
        except KeyboardInterrupt:
            advice = f"'embed {args.command} cancel {args.job}' stops it"
            print(f"\n{args.job} goes on; {advice}", file=sys.stderr)
            return _INTERRUPTED
    if args.json:
        print(json.dumps(_as_json(status), default=datetime.isoformat))
    else:
        print(f"{args.job}  {status.job.state}")
        for name, value in _fields(status):
            print(f"  {name:<10} {value}")
    return 0 if status.job.state in {"RUNNING", "SUCCEEDED"} else _FAILED


def resume(args: argparse.Namespace) -> int:
    """Run `embed batch resume`."""
    print(_jobs(args).resume(args.job))
    return 0


def cancel(args: argparse.Namespace) -> int:
    """Run `embed batch cancel` or `embed index cancel`."""
    _jobs(args).cancel(args.job)
    again = {"batch": f"'embed batch resume {args.job}'", "index": "the same 'embed index load'"}
    print(f"{args.job} is canceled; {again[args.command]} continues it")
    return 0


def show_newest(args: argparse.Namespace) -> int:
    """Run `embed batch list` or `embed index list`."""
    for name, state, started in _jobs(args).newest(args.number):
        print(f"{started:%Y-%m-%d %H:%M}  {state:<9}  {name}")
    return 0


def _jobs(args: argparse.Namespace) -> Executions:
    executions, variable, output = _STATE_MACHINES[args.command]
    if not args.state_machine:
        raise ConfigurationError(
            f"No state machine: give --state-machine, or set {variable} to the ARN that "
            f"`scripts/deploy` prints as {output}. For this machine, use --local."
        )
    return executions(args.state_machine, output=output, profile=args.profile)


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of a job; it has defaults for what the arguments leave out."""
    return {name: getattr(args, name) for name in args.settings if getattr(args, name) is not None}


def _run_here(program: str, **options: Any) -> NoReturn:
    """Run a program of the kit in place of this process: its status and Ctrl-C are the job's."""
    if find_spec("embedding_kit") is None:
        raise ConfigurationError(
            "--local needs embedding-kit, which has the jobs: pip install 'embedding-kit[batch]'."
        )
    command = [sys.executable, "-P", "-m", "embedding_kit.programs", program, json.dumps(options)]
    os.execv(sys.executable, command)  # noqa: S606 - this Python, our module


def _follows(args: argparse.Namespace) -> bool:
    return bool(sys.stderr.isatty() if args.follow is None else args.follow)


def look(jobs: Executions, name: str) -> JobStatus:
    """Return how far a job is."""
    job = jobs.status(name)
    if not isinstance(jobs, BatchJobs):
        return JobStatus(job, "parts")
    try:
        return JobStatus(job, "shards", progress=jobs.progress(job))
    except AwsError as error:
        return JobStatus(job, "shards", unknown=str(error))


def _follow(jobs: Executions, status: JobStatus) -> JobStatus:
    """Show a job until it ends, as a bar on a terminal; return its last status."""
    name, on_terminal = status.job.name, sys.stderr.isatty()
    seconds, layout = 0.0, "{percentage:3.0f}%|{bar:20}| {desc}"
    with Bar(bar_format=layout, disable=not on_terminal, leave=False) as bar:
        while status.job.state == "RUNNING":
            text = _line(status)
            bar.total, bar.n = status.job.items, status.finished
            bar.set_description_str(text)
            if not on_terminal:
                print(f"{name}: {text}", file=sys.stderr, flush=True)
            # A look at a large job lists many names. It takes up to a tenth of the time.
            time.sleep(max(_LOOK_SECONDS, 9 * seconds))
            began = time.monotonic()
            status = look(jobs, name)
            seconds = time.monotonic() - began
    return status


def _line(status: JobStatus) -> str:
    job, progress = status.job, status.progress
    if job.items is None:
        return "planning"
    figures = [f"{status.finished} of {job.items} {status.items}"]
    if job.failed:
        figures.append(f"{job.failed} failed")
    if progress is not None:
        figures += [counted(progress.rows, "row"), f"{progress.rejected:,} rejected"]
        if progress.rows_per_second is not None:
            figures.append(f"{progress.rows_per_second:,.0f} rows/s")
        figures.append(f"about ${progress.cost:,.2f}")
        if progress.seconds_left is not None:
            figures.append(f"about {Bar.format_interval(progress.seconds_left)} left")
    return ", ".join(figures)


def _as_json(status: JobStatus) -> dict[str, Any]:
    job = status.job
    shown = {name: getattr(job, name) for name in ("name", "state", "started", "ended", "settings")}
    shown |= {status.items: job.items, "done": job.done, "failed": job.failed}
    shown |= {"result": job.result, "problem": job.problem}
    if status.items == "shards":
        progress = status.progress._asdict() if status.progress else None
        shown |= {"finished": status.finished, "progress": progress, "unknown": status.unknown}
    return shown


def _fields(status: JobStatus) -> Iterator[tuple[str, object]]:
    job, progress = status.job, status.progress
    if job.items is not None:
        yield status.items, f"{status.finished} of {job.items} done, {job.failed} failed"
    if status.unknown:
        yield "rows", f"unknown: {status.unknown}"
    if progress is not None:
        rate = progress.rows_per_second
        yield "rows", f"{progress.rows:,}" + ("" if rate is None else f", {rate:,.1f} a second")
        yield "rejected", f"{progress.rejected:,}"
        cost = f"about ${progress.cost:,.4f}"
        if progress.rows:
            cost += f", ${1_000_000 * progress.cost / progress.rows:,.2f} per million rows,"
        yield "cost", f"{cost} at list prices of {PRICED}"
    ended = job.ended or datetime.now(UTC)
    yield "started", f"{job.started:%Y-%m-%d %H:%M:%S %Z}"
    yield "duration", Bar.format_interval((ended - job.started).total_seconds())
    if job.state == "RUNNING" and progress and progress.seconds_left is not None:
        yield "time left", f"about {Bar.format_interval(progress.seconds_left)}"
    for name, value in (job.result or {}).items():
        if name != status.items and (progress is None or name not in {"rows", "rejected"}):
            yield name, value
    if job.problem:
        yield "error", job.problem
