"""`embed load`: a test from its first request to its report."""

import argparse
import asyncio
import json
import os
import resource
import signal
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from embedding_client.addresses import check_url
from embedding_client.client import EmbeddingClient
from embedding_client.connect import auth_for
from embedding_client.errors import ConfigurationError, FileError
from embedding_client.flows import TIMEOUT
from embedding_client.load_test.report import ERRORS, as_report, as_table
from embedding_client.load_test.sender import End, Kind, Sender
from embedding_client.load_test.traffic import Plan, make_plan

__all__ = ["run_load"]

_FAILED = 3
_INTERRUPTED = 130
#: The default of --tokens.
_TOKENS = (8, 400)
#: Seconds between two lines of progress.
_PROGRESS_SECONDS = 10.0
#: Open files besides the connections.
_OTHER_FILES = 64


def run_load(args: argparse.Namespace) -> int:
    """Run a test; return the exit status.

    Raises:
        EmbeddingClientError: The test cannot begin, or its report cannot be written.
    """
    if not args.url:
        args.usage_error("there is no endpoint: give --url, or set EMBEDDING_URL")
    url = check_url(args.url, allow_plain_http=args.allow_plain_http) + "/"
    auth = auth_for(url, args)
    _check_output(args.output)
    _allow_files(args.connections)
    endpoint = _ask(url, auth, args)
    plan = make_plan(
        rate=args.rate,
        seconds=60 * args.minutes,
        tokens=_tokens(args.tokens, endpoint),
        most=args.requests,
        seed=args.seed,
    )
    _say(f"target: {url} ({endpoint['model']})")
    _say(f"plan: {len(plan.due):,} requests in {plan.seconds:g} s")
    sender = asyncio.run(_send(plan, url, auth, args))
    assert sender.end is not None  # noqa: S101  (it has run)
    about = {
        "version": 2,
        "endpoint": endpoint,
        "plan": {
            "rate": args.rate,
            "seconds": plan.seconds,
            "requests": len(plan.due),
            "tokens": _tokens(args.tokens, endpoint),
            "seed": args.seed,
            "connections": args.connections,
            "timeout_seconds": args.timeout,
        },
    }
    report = as_report(sender.outcomes, end=sender.end, planned=len(plan.due), about=about)
    text = json.dumps(report, indent=2) + "\n"
    sys.stdout.write(text if args.json else as_table(report))
    if args.output is not None:
        _write(args.output, text)
    if sender.failure is not None:
        raise sender.failure
    if sender.end is End.INTERRUPTED:
        return _INTERRUPTED
    return _FAILED if report["errors"] else 0


async def _send(plan: Plan, url: str, auth: httpx.Auth, args: argparse.Namespace) -> Sender:
    """Send the plan; Ctrl-C ends it early."""
    sender = Sender(
        plan,
        url=url,
        auth=auth,
        connections=args.connections,
        timeout=args.timeout,
        seed=args.seed,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, sender.stop)
    progress = asyncio.create_task(_show_progress(sender, plan))
    try:
        await sender.run()
    finally:
        progress.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
    return sender


async def _show_progress(sender: Sender, plan: Plan) -> None:
    """Print a line now and then."""
    while True:
        await asyncio.sleep(_PROGRESS_SECONDS)
        kinds = Counter(outcome.kind for outcome in sender.outcomes)
        share = min(1.0, sender.seconds / plan.seconds)
        _say(
            f"{sender.seconds:,.0f} s ({share:.0%}): {kinds[Kind.OK]:,} answered, "
            f"{kinds[Kind.THROTTLED]:,} throttled, {sum(kinds[kind] for kind in ERRORS):,} errors"
        )


def _ask(url: str, auth: httpx.Auth, args: argparse.Namespace) -> dict[str, Any]:
    """Ask the endpoint for its description, before anything else is sent.

    An endpoint that refuses the caller ends the test before it begins.
    """
    cold = False

    def look(response: httpx.Response) -> None:
        nonlocal cold
        cold = cold or "x-cold-start" in response.headers

    with httpx.Client(timeout=TIMEOUT, event_hooks={"response": [look]}) as http:
        client = EmbeddingClient(
            url, auth=auth, allow_plain_http=args.allow_plain_http, http_client=http
        )
        info = client.info()
    return {
        "url": url,
        "model": str(info.get("model_id", "an unknown model")),
        "vector_space": str(info.get("vector_space", "")),
        "max_tokens": int(info.get("max_input_length") or 0),
        "cold": cold,
    }


def _tokens(asked: tuple[int, int] | None, endpoint: dict[str, Any]) -> tuple[int, int]:
    """Return the fewest and the most tokens of a text."""
    most = endpoint["max_tokens"] or (asked or _TOKENS)[1]
    if asked is None:
        return min(_TOKENS[0], most), min(_TOKENS[1], most)
    if asked[1] > most:
        raise ConfigurationError(
            f"A text must fit the model; found: --tokens up to {asked[1]:,}; allowed: up to "
            f"{most:,} for {endpoint['model']}."
        )
    return asked


def _allow_files(connections: int) -> None:
    """Raise this process's limit of open files, so that so many connections can be open."""
    needed = connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise ConfigurationError(
            f"Each connection is an open file, and this system allows {hard:,} (ulimit -n); found: "
            f"--connections {connections:,}; allowed: up to {hard - _OTHER_FILES:,}."
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _check_output(path: Path | None) -> None:
    """Refuse a file that cannot be written before anything is sent."""
    if path is not None and (path.is_dir() or not os.access(path.absolute().parent, os.W_OK)):
        raise ConfigurationError(f"--output must be a file that can be written; found {path}.")


def _write(path: Path, text: str) -> None:
    """Write the report; an earlier file stays whole until the new one is."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror}.") from error


def _say(text: str) -> None:
    with suppress(OSError):  # a closed terminal must not end the test
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
