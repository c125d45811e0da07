"""`embed doctor`."""

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import botocore.exceptions
import botocore.session
import httpx2

from embedding_client._arguments import URL_VARIABLE
from embedding_client._auth import signing_region
from embedding_client._connect import auth_for, spaces_file
from embedding_client._targets import check_url
from embedding_client.doctor import (
    CheckResult,
    SkippedError,
    State,
    access,
    release,
    serving,
    skipped,
    surroundings,
    warning,
)
from embedding_client.doctor.probes import CONFIG, TIMEOUT, Aws, AwsCallError, Web
from embedding_client.doctor.snapshot import DoctorOptions, Snapshot
from embedding_client.errors import ConfigurationError
from embedding_client.progress import Bar

#: Most checks wait for AWS, and those of the endpoint for each other.
_THREADS = 8
#: Each request has a timeout; this bounds their number.
_SECONDS = 180
_COLORS = {State.OK: 32, State.WARNING: 33, State.FAILED: 31, State.SKIPPED: 90}
_WIDTH = max(len(state) for state in State)
_NAME = 15


def run_doctor(args: argparse.Namespace) -> int:
    """Run `embed doctor`; return the exit status."""
    # $EMBEDDING_URL may be that of another environment.
    url = None
    if args.url and args.environment is None:
        url = check_url(args.url, allow_plain_http=args.allow_plain_http)
    if args.environment is None and url is None:
        raise ConfigurationError(
            f"No endpoint: give --environment or --url, or set {URL_VARIABLE}."
        )
    options = DoctorOptions(
        url=url,
        environment=args.environment,
        vector_space=args.vector_space,
        accept_vector_space=args.accept_vector_space,
        image_days=args.image_days,
        deployer=args.deployer,
    )
    with httpx2.Client(timeout=TIMEOUT) as http:
        return report(_snapshot(args, options, http), as_program=args.json)


def report(snapshot: Snapshot, *, as_program: bool) -> int:
    """Run all checks and print the report; return 1 if a check failed, else 0."""
    # None shows no bar where there is no terminal.
    with Bar(total=len(CHECKS), desc="looking", unit=" checks", leave=False, disable=None) as bar:
        results = list(examine(snapshot, bar.update))
    url, environment = snapshot.options.url, snapshot.options.environment
    with suppress(SkippedError, AwsCallError):
        url = snapshot.url()
    with suppress(SkippedError, AwsCallError):
        environment = snapshot.environment()
    if as_program:
        print(json.dumps(as_json(results, url=url, environment=environment), indent=2))
    else:
        color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        title = " at ".join(name for name in (environment, url) if name)
        print("\n".join(as_lines(results, title=title, color=color)))
    return int(any(result.result.state == State.FAILED for result in results))


def _snapshot(args: argparse.Namespace, options: DoctorOptions, http: httpx2.Client) -> Snapshot:
    url = options.url or ""
    host = urlsplit(url).hostname or ""
    try:
        session = botocore.session.Session(profile=args.profile)
        region = args.region
        with suppress(ConfigurationError):
            region = region or signing_region(host, session=session)
    except botocore.exceptions.BotoCoreError as error:
        raise ConfigurationError(f"{error}.") from error
    return Snapshot(
        options=options,
        aws=Aws(partial(session.create_client, region_name=region, config=CONFIG)),
        # An environment's own URL is a Function URL, which every signer signs for.
        web=Web(http, auth_for(url, args)),
        region=region,
        memory=spaces_file(),
        clock=lambda: datetime.now(UTC),
    )


class Check(NamedTuple):
    """A check: its group and name in the report, and its function."""

    group: str
    name: str
    run: Callable[[Snapshot], CheckResult]


CHECKS = (
    Check("Access", "credentials", access.check_credentials),
    Check("Access", "unsigned", access.check_unsigned),
    Check("Access", "signed", access.check_signed),
    Check("Access", "permissions", access.check_permissions),
    Check("Vectors", "vector space", serving.check_space),
    Check("Capacity", "cold start", serving.check_cold_start),
    Check("Capacity", "throttling", serving.check_throttling),
    Check("Capacity", "provisioned", serving.check_provisioned),
    Check("Release", "stacks", release.check_stacks),
    Check("Release", "last release", release.check_release),
    Check("Release", "weights", release.check_weights),
    Check("Release", "version", release.check_version),
    Check("Release", "base image", release.check_image),
    Check("Monitoring", "alarms", surroundings.check_alarms),
    Check("Monitoring", "subscribers", surroundings.check_subscribers),
    Check("Monitoring", "logs", surroundings.check_logs),
    Check("Parts", "front", surroundings.check_front),
    Check("Parts", "batch", surroundings.check_batch),
    Check("Parts", "index", surroundings.check_index),
    Check("Parts", "documents", surroundings.check_documents),
    Check("Parts", "server", surroundings.check_server),
)


class Checked(NamedTuple):
    """A check and its result."""

    check: Check
    result: CheckResult


def examine(snapshot: Snapshot, done: Callable[[], object] = lambda: None) -> Iterator[Checked]:
    """Run all checks, several at a time, and yield their results in order."""
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="embed-doctor")
    end = time.monotonic() + _SECONDS
    running: list[Future[CheckResult]] = []
    try:
        for check in CHECKS:
            future = pool.submit(run_check, check, snapshot)
            future.add_done_callback(lambda _: done())
            running.append(future)
        for check, future in zip(CHECKS, running, strict=True):
            try:
                result = future.result(timeout=max(0.0, end - time.monotonic()))
            except LateError:
                result = skipped(f"no result after {_SECONDS} s")
            yield Checked(check, result)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def run_check(check: Check, snapshot: Snapshot) -> CheckResult:
    """Run a check; its failure is a result too, and does not stop the others."""
    try:
        return check.run(snapshot)
    except SkippedError as error:
        return skipped(str(error))
    except AwsCallError as error:
        return warning(f"the check could not run: {error}", "run it again")
    except Exception as error:
        return warning(
            f"the check failed: {type(error).__name__}: {error}",
            "check this by hand, and report the error",
        )


def as_lines(results: Sequence[Checked], *, title: str, color: bool) -> Iterator[str]:
    """Yield the lines of the report: one a check, one for what to do, one a reason to skip."""
    yield title
    completed = [result for result in results if result.result.state != State.SKIPPED]
    for group, members in groupby(completed, key=lambda result: result.check.group):
        yield ""
        yield group
        for check, result in members:
            state = f"{result.state:<{_WIDTH}}"
            if color:
                state = f"\x1b[{_COLORS[result.state]}m{state}\x1b[0m"
            yield f"  {state}  {check.name:<{_NAME}} {result.found}"
            if result.advice:
                yield f"  {'':<{_WIDTH}}  {'':<{_NAME}} to do: {result.advice}"
    skipped_names = defaultdict[str, list[str]](list)
    for check, result in results:
        if result.state == State.SKIPPED:
            skipped_names[result.found].append(check.name)
    yield ""
    for reason, names in skipped_names.items():
        yield f"skipped {', '.join(names)}: {reason}"
    yield from ("",) if skipped_names else ()
    counts = {state: sum(r.result.state == state for r in results) for state in State}
    yield ", ".join(f"{count} {state}" for state, count in counts.items() if count)


def as_json(results: Sequence[Checked], *, url: str | None, environment: str | None) -> Any:
    """Return the report as JSON values; `state` is the worst of all checks."""
    states = {result.result.state for result in results}
    worst = next((s for s in (State.FAILED, State.WARNING) if s in states), State.OK)
    return {
        "state": worst,
        "url": url,
        "environment": environment,
        "checks": [
            {"group": check.group, "name": check.name, **asdict(result)}
            for check, result in results
        ],
    }
