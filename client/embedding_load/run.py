"""A test from its first question to its report."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from embedding_client.errors import ConfigurationError, FileError
from embedding_load.as_json import as_json
from embedding_load.assumptions import Assumptions, assume, environment_of
from embedding_load.file_limit import allow_files
from embedding_load.forecast import forecast, planned_usd
from embedding_load.limits import Budget
from embedding_load.live import Live
from embedding_load.messages import say
from embedding_load.picture import as_svg
from embedding_load.preflight import ask
from embedding_load.schedule import Plan, plan
from embedding_load.sender import End, Sender
from embedding_load.settings import Settings
from embedding_load.summary import Endpoint, Summary, summarize
from embedding_load.table import as_table, usd
from embedding_load.target import Target, target

__all__ = ["run"]

#: Exit statuses.
_ERRORS = 3
_INTERRUPTED = 130
#: A test that may cost more is started only after a question.
_ASKED_USD = 1.0
#: The default of --tokens.
_TOKENS = (8, 400)


def run(settings: Settings) -> int:
    """Run a test; return the exit status.

    Raises:
        EmbeddingClientError: The test cannot begin, or its report cannot be written.
    """
    environment = environment_of(settings)
    to = target(
        settings.url,
        sign=settings.sign,
        key_variable=settings.api_key_env,
        allow_plain_http=settings.allow_plain_http,
        profile=settings.profile,
        region=settings.region,
    )
    _make_folder(settings.report)
    endpoint = ask(to)
    tokens = _tokens(settings, endpoint)
    assumptions = (
        assume(
            settings,
            environment,
            endpoint.model,
            tokens=tokens,
            region=to.region,
            gateway=to.gateway,
        )
        if to.region
        else None
    )
    traffic = plan(
        rate=settings.rate,
        shape=settings.shape,
        seconds=60 * settings.minutes,
        tokens=tokens,
        most=settings.requests,
        seed=settings.seed,
    )
    if not _announce(settings, endpoint, traffic, assumptions):
        say("not started")
        return _INTERRUPTED
    allow_files(settings.connections)
    result, failure = asyncio.run(_test(settings, to, endpoint, traffic, assumptions))
    if settings.json:
        print(json.dumps(as_json(result), indent=2))
    else:
        print(as_table(result), end="")
    _write(settings.report, result)
    say(f"report: {settings.report}/report.json, report.svg")
    if failure is not None:
        raise failure
    if result.end is End.INTERRUPTED:
        return _INTERRUPTED
    return _ERRORS if result.errors else 0


async def _test(
    settings: Settings,
    to: Target,
    endpoint: Endpoint,
    traffic: Plan,
    assumptions: Assumptions | None,
) -> tuple[Summary, BaseException | None]:
    """Send the plan; Ctrl-C ends it early. Return what came of it, and the error that ended it."""
    budget = Budget(settings.budget_usd, assumptions.bill if assumptions else None)
    sender = Sender(
        traffic,
        to,
        budget,
        connections=settings.connections,
        timeout=settings.timeout,
        seed=settings.seed,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, sender.stop)
    live = Live(sender, traffic, budget, billed=assumptions is not None, output=sys.stderr)
    showing = asyncio.create_task(live.run())
    try:
        await sender.run()
    finally:
        showing.cancel()
        live.close()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
    assert sender.end is not None  # noqa: S101  (it has run)
    result = summarize(
        settings,
        endpoint,
        traffic,
        sender.outcomes,
        end=sender.end,
        cost=budget.spent if assumptions else None,
        basis=assumptions.bill.basis if assumptions else "a server is paid by the hour",
        forecast=forecast(traffic, sender.outcomes, assumptions) if assumptions else None,
    )
    return result, sender.failure


def _announce(
    settings: Settings, endpoint: Endpoint, traffic: Plan, assumptions: Assumptions | None
) -> bool:
    """Print target and cost; return whether to start."""
    say(f"target: {endpoint.url} ({endpoint.model})")
    say(
        f"plan: {len(traffic.due):,} requests in {traffic.seconds:g} s, {traffic.rate:,g} a second "
        f"on average and {traffic.peak:,.1f} at the peak"
    )
    if assumptions is None:
        say("cost: none by request; a server is paid by the hour")
        return True
    estimate = planned_usd(traffic, assumptions)
    say(
        f"estimated cost: {usd(estimate)} ({assumptions.bill.basis}); the test ends before "
        f"{usd(settings.budget_usd)}"
    )
    if min(estimate, settings.budget_usd) <= _ASKED_USD or settings.yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigurationError(
            f"The test may cost more than {usd(_ASKED_USD)}; confirm it with --yes."
        )
    sys.stderr.write("Start? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _tokens(settings: Settings, endpoint: Endpoint) -> tuple[int, int]:
    """Return the fewest and the most tokens of a request."""
    longest = endpoint.longest or _TOKENS[1]
    if settings.tokens is None:
        return min(_TOKENS[0], longest), min(_TOKENS[1], longest)
    if settings.tokens[1] > longest and endpoint.longest:
        raise ConfigurationError(
            f"--tokens asks for texts of {settings.tokens[1]:,} tokens; {endpoint.model} takes up "
            f"to {longest:,}."
        )
    return settings.tokens


def _make_folder(folder: Path) -> None:
    """Make the report's folder before anything is spent."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be created: {error.strerror}.") from error
    if not writable:
        raise ConfigurationError(f"{folder} cannot be written.")


def _write(folder: Path, result: Summary) -> None:
    """Write the report; an earlier file stays whole until the new one is.

    Raises:
        FileError: It cannot be written.
    """
    files = {
        "report.json": json.dumps(as_json(result), indent=2) + "\n",
        "report.svg": as_svg(result),
    }
    for name, content in files.items():
        partial = folder / f".{name}.partial"
        try:
            partial.write_text(content, encoding="utf-8")
            partial.replace(folder / name)
        except OSError as error:
            raise FileError(f"{folder / name} cannot be written: {error.strerror}.") from error
