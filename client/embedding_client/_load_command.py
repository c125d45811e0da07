"""`embed load`: send a plan of requests to an endpoint, and report how long they took."""

import argparse
import asyncio
import json
import math
import os
import resource
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from embedding_client._client import EmbeddingClient
from embedding_client._connect import auth_for
from embedding_client._errors import ConfigurationError, FileError, print_error
from embedding_client._flows import TIMEOUT
from embedding_client._load_sender import End, Kind, Outcome, Plan, Sender, make_plan
from embedding_client._targets import check_url

_FAILED = 3
_INTERRUPTED = 130
#: The default of --tokens.
_TOKENS = (8, 400)
#: The passages of a request to a reranker: the candidates of a search.
_PASSAGES = 100
#: Seconds between two lines of progress.
_PROGRESS_SECONDS = 10.0
#: Open files besides the connections.
_OTHER_FILES = 64


def run_load(args: argparse.Namespace) -> int:
    """Run a test; return the exit status."""
    if not args.url:
        args.usage_error("there is no endpoint: give --url, or set EMBEDDING_URL")
    url = check_url(args.url, allow_plain_http=args.allow_plain_http) + "/"
    auth = auth_for(url, args)
    _check_output(args.output)
    _allow_files(args.connections)
    endpoint = _ask(url, auth, args)
    tokens, seconds = _tokens(args.tokens, endpoint), 60 * args.minutes
    plan = make_plan(
        rate=args.rate, seconds=seconds, tokens=tokens, most=args.requests, seed=args.seed
    )
    print_error(f"target: {url} ({endpoint['model']})")
    print_error(f"plan: {len(plan.due):,} requests in {plan.seconds:g} s")
    passages = _PASSAGES if endpoint["score_space"] else 0
    sender = asyncio.run(_send(plan, url, auth, args, passages=passages))
    assert sender.end is not None  # noqa: S101  (it has run)
    about = {
        "version": 2,
        "endpoint": endpoint,
        "plan": {
            "rate": args.rate,
            "seconds": plan.seconds,
            "requests": len(plan.due),
            "tokens": tokens,
            "seed": args.seed,
            "connections": args.connections,
            "timeout_seconds": args.timeout,
            "passages": passages,
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


async def _send(
    plan: Plan, url: str, auth: httpx.Auth, args: argparse.Namespace, *, passages: int
) -> Sender:
    """Send the plan; Ctrl-C ends it early."""
    sender = Sender(
        plan,
        url=url,
        auth=auth,
        connections=args.connections,
        timeout=args.timeout,
        seed=args.seed,
        passages=passages,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, sender.stop)
    progress = asyncio.create_task(_show_progress(sender, plan))
    try:
        await sender.run()
    finally:
        progress.cancel()
    return sender


async def _show_progress(sender: Sender, plan: Plan) -> None:
    while True:
        await asyncio.sleep(_PROGRESS_SECONDS)
        kinds = Counter(outcome.kind for outcome in sender.outcomes)
        share = min(1.0, sender.seconds / plan.seconds)
        print_error(
            f"{sender.seconds:,.0f} s ({share:.0%}): {kinds[Kind.OK]:,} answered, "
            f"{kinds[Kind.THROTTLED]:,} throttled, {sum(kinds[kind] for kind in ERRORS):,} errors"
        )


def _ask(url: str, auth: httpx.Auth, args: argparse.Namespace) -> dict[str, Any]:
    """Ask the endpoint for its description first: one that refuses the caller ends the test."""
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
        "score_space": str(info.get("score_space", "")),
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


#: A throttled request is a result of the test, and an unanswered one its end; these are errors.
ERRORS = (Kind.REFUSED, Kind.FAILED, Kind.TIMEOUT, Kind.UNREACHABLE)
#: The requests that waited for a vector all the time. A refusal comes fast and would make the
#: latencies look better.
_WAITED = (Kind.OK, Kind.TIMEOUT, Kind.UNANSWERED, Kind.UNSENT)
_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
#: A request that was taken later than this after it was due is late. A sleep ends up to about a
#: millisecond late, and other work of a busy machine takes some more.
_LATE_SECONDS = 0.01
#: A generator that is late for more than this share of requests, or does not come to more than that
#: share, fell behind. Fewer are late when the machine has other work for a moment.
_LATE_SHARE, _MISSED_SHARE = 0.1, 0.01
_WIDTH = 36
_ENDS = {
    End.TIME: "the time was over",
    End.REQUESTS: "the limit of requests was reached",
    End.INTERRUPTED: "it was stopped",
}
_KINDS = {
    Kind.OK: "answered",
    Kind.THROTTLED: "throttled (429)",
    Kind.REFUSED: "refused (4xx)",
    Kind.FAILED: "failed (5xx, or no vectors)",
    Kind.TIMEOUT: "timed out",
    Kind.UNREACHABLE: "no connection",
    Kind.UNANSWERED: "without an answer at the end",
    Kind.UNSENT: "not sent: no connection was free",
}


def percentiles(seconds: Sequence[float]) -> dict[str, float] | None:
    """Return the mean, the percentiles and the maximum of times in milliseconds; None without one.

    A percentile p is the least time that is not exceeded by a share p of all: it is exact, and one
    of the times.
    """
    if not seconds:
        return None
    ordered = 1000 * np.sort(np.asarray(seconds, dtype=np.float64))
    at = {
        # Rounded first: 0.99 * 100 is not 99 in floating point.
        name: ordered[max(0, math.ceil(round(share * len(ordered), 9)) - 1)]
        for name, share in _PERCENTILES.items()
    }
    found = {"mean": ordered.mean(), **at, "max": ordered[-1]}
    return {name: round(float(value), 3) for name, value in found.items()}


def as_report(
    outcomes: Sequence[Outcome], *, end: End, planned: int, about: dict[str, Any]
) -> dict[str, Any]:
    """Return the report."""
    kinds = Counter(outcome.kind for outcome in outcomes)
    statuses = Counter(outcome.status for outcome in outcomes if outcome.status)
    delays = [outcome.taken - outcome.due for outcome in outcomes]
    late = sum(delay > _LATE_SECONDS for delay in delays)
    missed = planned - len(outcomes) if end is End.TIME else 0
    cold = [outcome.ended - outcome.due for outcome in outcomes if outcome.cold]
    return {
        **about,
        "end": end.value,
        "seconds": max((outcome.ended for outcome in outcomes), default=0.0),
        "requests": {
            "sent": len(outcomes) - kinds[Kind.UNSENT],
            **{kind.value: kinds[kind] for kind in Kind},
            "not_reached": missed,
        },
        "errors": sum(kinds[kind] for kind in ERRORS),
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "tokens": sum(outcome.tokens for outcome in outcomes),
        # From when a request was due, and from when it was sent.
        "latency_ms": percentiles([o.ended - o.due for o in outcomes if o.kind in _WAITED]),
        "service_ms": percentiles([o.ended - o.sent for o in outcomes if o.kind is Kind.OK]),
        "cold_starts": {"requests": len(cold), "latency_ms": percentiles(cold)},
        "generator": {
            "fell_behind": late > _LATE_SHARE * len(delays) or missed > _MISSED_SHARE * planned,
            "late": late,
            "waited_for_connection": sum(outcome.waited for outcome in outcomes),
            "delay_ms": percentiles(delays),
        },
    }


def as_table(report: dict[str, Any]) -> str:
    """Return the report as text."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: dict[str, Any]) -> Iterator[str]:
    plan, requests = report["plan"], report["requests"]
    low, high = plan["tokens"]
    tokens = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    yield f"{report['endpoint']['model']} at {report['endpoint']['url']}"
    each = f"a pair, {plan['passages']} pairs a request" if plan["passages"] else "a text"
    yield f"{plan['rate']:g} requests a second on average, {tokens} tokens {each}"
    yield f"ended after {report['seconds']:.1f} s: {_ENDS[End(report['end'])]}"
    yield ""
    yield f"{'requests sent':{_WIDTH}}{requests['sent']:>10,}"
    for kind, label in _KINDS.items():
        if kind is Kind.OK or requests[kind]:
            yield f"  {label:{_WIDTH - 2}}{requests[kind]:>10,}"
    if requests["not_reached"]:
        yield f"{'due, but not sent in time':{_WIDTH}}{requests['not_reached']:>10,}"
    if report["seconds"]:
        yield f"{'answers a second':{_WIDTH}}{requests['ok'] / report['seconds']:>10,.1f}"
    more = "  and one before the test" if report["endpoint"]["cold"] else ""
    yield f"{'cold starts':{_WIDTH}}{report['cold_starts']['requests']:>10,}{more}"
    yield ""
    names = [*_PERCENTILES, "max"]
    yield f"{'milliseconds':{_WIDTH}}" + "".join(f"{name:>8}" for name in names)
    for label, times in (
        ("latency, from when it was due", report["latency_ms"]),
        ("service time, from when it was sent", report["service_ms"]),
        ("cold starts", report["cold_starts"]["latency_ms"]),
    ):
        if times:
            yield f"{label:{_WIDTH}}" + "".join(f"{times[name]:>8,.0f}" for name in names)
    yield from _notes(report)


def _notes(report: dict[str, Any]) -> Iterator[str]:
    found = report["generator"]
    if found["late"]:
        yield ""
        yield (
            f"{found['late']:,} requests were started over {1000 * _LATE_SECONDS:.0f} ms late "
            f"(p99 {found['delay_ms']['p99']:,.0f} ms): this machine was"
        )
        yield "busy. Their latencies contain the delay."
    if found["fell_behind"]:
        yield "The generator fell behind, so the results are of this machine, not of the endpoint."
        yield "Lower --rate, or run several tests at the same time with different --seed."
    if found["waited_for_connection"]:
        yield ""
        yield (
            f"{found['waited_for_connection']:,} requests waited for one of the "
            f"{report['plan']['connections']:,} connections, and their"
        )
        yield "latencies contain the wait. Raise --connections if this is not what you test."
