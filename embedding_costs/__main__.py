"""The command `scripts/cost`: what an environment costs a month, and what else would serve it."""

import argparse
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from embedding_costs.as_json import as_json
from embedding_costs.errors import CostError
from embedding_costs.numbers import parse_number
from embedding_costs.observed import Observed
from embedding_costs.picture import as_svg
from embedding_costs.run import Choices, Run, run
from embedding_costs.table import as_table, price_notes
from embedding_costs.traffic import SHAPES
from embedding_kit.environment import Environment
from embedding_kit.environment_file import EnvironmentFileError, load_environment
from embedding_kit.prices import DEFAULT_REGION, hosted_models, load_prices

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_ENVIRONMENTS = _ROOT / "environments"
#: CloudWatch lists metrics with data in the last two weeks.
_MOST_DAYS = 14
_PICTURES = _ROOT / ".cache" / "cost"


def main(arguments: list[str] | None = None, *, environments: Path = _ENVIRONMENTS) -> int:
    """Run the command; return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        if options.refresh:
            return _refresh(options, environments)
        return _forecast(options, environments)
    except (CostError, EnvironmentFileError) as error:
        print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return 1


def _forecast(options: argparse.Namespace, environments: Path) -> int:
    if options.environment is None:
        raise CostError(
            "an environment's name is missing; allowed: dev, or another in environments/"
        )
    environment = load_environment(options.environment, folder=environments)
    region = options.region or environment.region or DEFAULT_REGION
    prices, models = load_prices(region), hosted_models()
    choices = _choices(options)
    if options.from_endpoint:
        choices = replace(
            choices,
            observed=_observe(
                environment.model_copy(update={"region": options.region or environment.region}),
                options.days,
            ),
        )
    result: Run = run(environment, prices, models, choices)
    for note in price_notes(prices, models, today=datetime.now(UTC).date()):
        print(note, file=sys.stderr)
    for note in result.notes:
        print(note, file=sys.stderr)
    if options.json:
        print(json.dumps(as_json(result.forecast, speed=result.speed), indent=2))
    else:
        print(as_table(result.forecast, speed=result.speed), end="")
    picture = options.svg or _PICTURES / f"{environment.name}.svg"
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(as_svg(result.forecast, models), encoding="utf-8")
    print(f"picture: {picture}", file=sys.stderr)
    return 0


def _refresh(options: argparse.Namespace, environments: Path) -> int:
    # The forecast needs no HTTP client.
    from embedding_costs.refresh import refresh  # noqa: PLC0415

    region = options.region
    if region is None and options.environment is not None:
        region = load_environment(options.environment, folder=environments).region
    for line in refresh(region or DEFAULT_REGION, progress=sys.stderr.isatty()):
        print(line)
    return 0


def _observe(environment: Environment, days: int) -> Observed:
    # The forecast needs no AWS client.
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    from embedding_costs.endpoint_metrics import observe  # noqa: PLC0415
    from embedding_kit.environment_session import session_for  # noqa: PLC0415

    try:
        session = session_for(environment)
    except (BotoCoreError, ClientError) as error:
        raise CostError(f"AWS does not accept the credentials: {error}") from None
    region, now = environment.region, datetime.now(UTC)
    return observe(session, environment.name, region=region, days=days, now=now)


def _choices(options: argparse.Namespace) -> Choices:
    return Choices(
        requests=options.requests,
        tokens=options.tokens,
        shape=options.shape,
        trace=options.trace,
        slower=options.slower,
        measured=options.measured,
        milliseconds=options.milliseconds,
        servers=options.servers,
        releases=options.releases,
        batch_texts=options.batch_texts,
        vectors=options.vectors,
        searches=options.searches,
        seed=options.seed,
        progress=sys.stderr.isatty(),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/cost", description=__doc__)
    parser.add_argument("environment", nargs="?", help="a file of environments/, without .toml")
    traffic = parser.add_argument_group("traffic")
    traffic.add_argument(
        "--requests", type=_amount, default=1e6, metavar="N", help="a month: 250k, 3M (default 1M)"
    )
    traffic.add_argument(
        "--tokens", type=_count, default=128, metavar="N", help="of one request (default 128)"
    )
    traffic.add_argument("--shape", choices=SHAPES, default="diurnal", help="(default diurnal)")
    source = traffic.add_mutually_exclusive_group()
    source.add_argument(
        "--trace", type=Path, metavar="CSV", help="arrivals, and if known their tokens"
    )
    source.add_argument(
        "--from-endpoint",
        action="store_true",
        help="traffic, times and cold starts of the deployed environment, from CloudWatch",
    )
    traffic.add_argument(
        "--days", type=_days, default=14, metavar="N", help="of --from-endpoint (default 14)"
    )
    traffic.add_argument("--seed", type=int, default=0, help="of the simulation (default 0)")
    times = parser.add_argument_group("times")
    times.add_argument(
        "--slower", type=_factor, default=1.0, metavar="X", help="times of another processor"
    )
    times.add_argument("--measured", type=Path, metavar="JSON", help="a report of scripts/bench")
    times.add_argument(
        "--milliseconds", type=_factor, metavar="MS", help="of one core for one request"
    )
    others = parser.add_argument_group("assumptions")
    others.add_argument("--region", help="of the prices; the environment's, or us-east-1")
    others.add_argument(
        "--refresh",
        action="store_true",
        help="read AWS's price list of the region again, without credentials, and show changes",
    )
    others.add_argument(
        "--servers", type=_count, default=2, metavar="N", help="behind a load balancer, at least"
    )
    others.add_argument(
        "--releases", type=_count, default=4, metavar="N", help="a month (default 4)"
    )
    others.add_argument(
        "--batch-texts", type=_amount, default=0.0, metavar="N", help="of batch jobs a month"
    )
    others.add_argument(
        "--vectors", type=_amount, default=0.0, metavar="N", help="in the index of [index]"
    )
    others.add_argument(
        "--searches", type=_amount, metavar="N", help="of the index a month (default: --requests)"
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="instead of the table")
    output.add_argument("--svg", type=Path, metavar="FILE", help="(default .cache/cost/NAME.svg)")
    return parser


def _amount(text: str) -> float:
    try:
        return parse_number(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _count(text: str) -> int:
    value = _amount(text)
    if value != int(value):
        raise argparse.ArgumentTypeError(f"found: {text}; allowed: a whole number from 1 up")
    return int(value)


def _days(text: str) -> int:
    value = _count(text)
    if value > _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"found: {text}; allowed: 1 to {_MOST_DAYS}")
    return value


def _factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"found: {text}; allowed: a positive number such as 1.5")
    return value


if __name__ == "__main__":
    sys.exit(main())
