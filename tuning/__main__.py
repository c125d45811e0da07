"""The command `scripts/tune`: measure memory sizes on a temporary copy of the deployed function."""

import argparse
import json
import signal
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session, get_session
from tqdm import tqdm

from embedding_costs.duration import Speed
from embedding_costs.errors import CostError
from embedding_costs.measured import catalog_speed
from embedding_kit.environment import COST_TAG, Environment
from embedding_kit.environment_file import load_environment
from embedding_kit.prices import DEFAULT_REGION, Prices, load_prices
from stacks.deployed import Deployed, find_deployed
from tuning.endpoint_lengths import endpoint_workload
from tuning.errors import TuneError
from tuning.estimate import estimate
from tuning.live import LiveFunction, read_live
from tuning.measure import Measured, Plan, measure
from tuning.output import as_json, as_table
from tuning.requests import EmbeddingRequest, make_requests
from tuning.results import summarize
from tuning.sizes import Size, sizes_of
from tuning.throwaway import function_name, throw_away
from tuning.workload import Workload, given_workload

__all__ = ["main"]

_ENVIRONMENTS = Path(__file__).resolve().parents[1] / "environments"


def main(
    arguments: list[str] | None = None,
    *,
    environments: Path = _ENVIRONMENTS,
    session: Session | None = None,
    poll: float = 1.0,
) -> int:
    """Run the command.

    Args:
        arguments: The command's arguments; those of the process if None.
        environments: The folder of the environments' files.
        session: The AWS session; a new one if None.
        poll: Seconds between two looks at the function's state.

    Returns:
        The exit status.
    """
    options = _parser().parse_args(arguments)
    # As Ctrl-C: the function is deleted before the command ends.
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        environment = load_environment(options.environment, folder=environments)
        return _tune(session or get_session(), environment, options, poll)
    except ValueError as error:
        _say(f"error: {error}")
    except (BotoCoreError, ClientError) as error:
        _say(f"error: {options.environment} was not measured: {error}")
    except KeyboardInterrupt:
        _say("stopped; no temporary function is left")
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
    return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """The sizes and requests to measure."""

    environment: Environment
    live: LiveFunction
    workload: Workload
    sizes: tuple[Size, ...]
    plan: Plan
    prices: Prices


def _tune(
    session: Session, environment: Environment, options: argparse.Namespace, poll: float
) -> int:
    deployed = find_deployed(session, environment)
    if deployed is None:
        raise TuneError(f"{environment.name} is not deployed: scripts/deploy {environment.name}")
    sizes, notes = sizes_of(environment)
    if not sizes:
        raise TuneError("; ".join(notes))
    client = _client(session, environment)
    run = _Run(
        environment=environment,
        live=read_live(client, deployed.function, deployed.alias),
        workload=_workload(session, environment, deployed, options),
        sizes=sizes,
        plan=Plan(starts=options.starts, requests=options.requests),
        prices=load_prices(client.meta.region_name or DEFAULT_REGION),
    )
    _announce(run)
    requests, measured, refused = _measure(run, client, poll=poll)
    for note in (*notes, *refused):
        _say(f"note: {note}")
    shares = [length.share for length in run.workload.lengths]
    results = summarize(measured, shares, run.prices)
    if options.json:
        print(json.dumps(as_json(environment, requests, results, shares), indent=2))
    else:
        print(as_table(environment, requests, results), end="")
    return 0


def _measure(
    run: _Run, client: Any, *, poll: float
) -> tuple[tuple[EmbeddingRequest, ...], list[Measured], list[str]]:
    environment = run.environment
    with throw_away(
        client,
        run.live,
        environment=environment.name,
        size=run.sizes[0],
        tags={**environment.tags, COST_TAG: environment.name},
        say=_say,
        poll=poll,
    ) as function:
        # The first start of a new function is slower than all others, and is not measured.
        requests = make_requests(run.workload, lambda *request: function.call(*request)[0])
        total = run.plan.invocations(len(run.sizes), len(requests))
        with tqdm(total=total, unit="request", disable=not sys.stderr.isatty()) as progress:
            measured, refused = measure(function, run.sizes, requests, run.plan, progress=progress)
    return requests, measured, refused


def _workload(
    session: Session,
    environment: Environment,
    deployed: Deployed,
    options: argparse.Namespace,
) -> Workload:
    if options.tokens:
        return given_workload(options.tokens, texts=options.texts)
    return endpoint_workload(
        session,
        environment.name,
        deployed.function,
        region=environment.region,
        now=datetime.now(UTC),
    )


def _announce(run: _Run) -> None:
    """Print the plan of the measurement and its estimated cost."""
    name, workload, plan = run.environment.name, run.workload, run.plan
    lengths = ", ".join(f"{length.tokens:,}" for length in workload.lengths)
    cost = estimate(
        run.sizes,
        workload,
        plan,
        run.prices,
        speed=_speed(run.environment),
        timeout=float(run.live.timeout),
    )
    _say(f"{name}: {run.live.digest}")
    _say(
        f"tokens of a request: {lengths} ({workload.source}); texts of a request: {workload.texts}"
    )
    _say(
        f"{len(run.sizes)} sizes on {function_name(name)}, {plan.starts} starts of each, "
        f"{plan.requests} requests of each length after each: {cost}"
    )


def _speed(environment: Environment) -> Speed | None:
    try:
        return catalog_speed(environment.model)
    except CostError:
        return None


def _client(session: Session, environment: Environment) -> Any:
    longest = environment.function.timeout.total_seconds()
    config = Config(read_timeout=longest + 30, retries={"mode": "standard", "max_attempts": 3})
    return session.create_client("lambda", region_name=environment.region, config=config)


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/tune", description=__doc__)
    parser.add_argument(
        "environment", help="the name of a deployed environment, a file in environments/"
    )
    parser.add_argument(
        "--tokens",
        type=_tokens,
        metavar="N,N",
        help="tokens in a request (default: the deployed endpoint's p50, p90 and p99)",
    )
    parser.add_argument(
        "--texts",
        type=_count,
        default=1,
        metavar="N",
        help="texts in a request, with --tokens (default 1)",
    )
    parser.add_argument(
        "--starts",
        type=_count,
        default=5,
        metavar="N",
        help="starts of each memory size (default 5)",
    )
    parser.add_argument(
        "--requests",
        type=_count,
        default=20,
        metavar="N",
        help="requests of each length after each start (default 20)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    return parser


def _tokens(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found: {text}; allowed: whole numbers from 1 up")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
