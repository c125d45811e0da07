"""`embed batch`: start, follow and stop batch jobs."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from embedding_client.batch.arguments import BATCH_VARIABLE
from embedding_client.batch.report import as_json, described, figures
from embedding_client.errors import ConfigurationError
from embedding_client.following import Shown, follow

if TYPE_CHECKING:
    from embedding_client.batch.jobs import BatchJobs, JobStatus

__all__ = ["run_batch"]

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
    from embedding_client.batch.jobs import BatchJobs  # noqa: PLC0415  (slow)

    if not args.state_machine:
        raise ConfigurationError(
            f"No state machine: give --state-machine, or set {BATCH_VARIABLE} to the ARN that "
            "`scripts/deploy` prints as StateMachineArn. For this machine, use --local."
        )
    return BatchJobs(args.state_machine, profile=args.profile)
