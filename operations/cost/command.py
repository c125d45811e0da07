"""The command `scripts/cost`: what an environment costs a month, and what else would serve it."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from embedding_kit.environment import Environment
from embedding_kit.environment_file import EnvironmentFileError, load_environment
from embedding_kit.prices import DEFAULT_REGION, hosted_models, load_prices
from embedding_kit.prices.table import read_regions
from operations.cost.as_json import as_json
from operations.cost.deployed import Resource
from operations.cost.errors import CostError
from operations.cost.numbers import parse_number
from operations.cost.observed import Observed
from operations.cost.picture import as_svg
from operations.cost.run import Choices, Run, run
from operations.cost.table import as_table, price_notes
from operations.cost.traffic import SHAPES

__all__ = ["main", "resources_of"]

_ROOT = Path(__file__).resolve().parents[2]
_ENVIRONMENTS = _ROOT / "environments"
#: CloudWatch lists metrics with data in the last two weeks.
_MOST_DAYS = 14
_PICTURES = _ROOT / ".cache" / "cost"
#: Options that have no effect with another one.
_UNUSED_WITH = {
    "from_endpoint": (
        *("requests", "tokens", "shape", "seed"),
        *("slower", "measured", "milliseconds"),
    ),
    "trace": ("requests", "shape", "seed"),
}
#: The tables without which an option has no effect.
_OF_TABLE = {"batch_texts": "batch", "vectors": "index", "searches": "index"}


def main(
    arguments: list[str] | None = None,
    *,
    environments: Path = _ENVIRONMENTS,
    synthesize: Callable[[Environment], Sequence[Resource]] | None = None,
) -> int:
    """Run the command; return its exit status.

    Args:
        arguments: The arguments; those of the process if None.
        environments: The folder of the environments' files.
        synthesize: Returns the resources of an environment's templates; `resources_of` if None.
    """
    options = _parser().parse_args(arguments)
    try:
        if options.refresh:
            return _refresh(options, environments)
        return _forecast(options, environments, synthesize or resources_of)
    except (CostError, EnvironmentFileError) as error:
        print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return 1


def _forecast(
    options: argparse.Namespace,
    environments: Path,
    synthesize: Callable[[Environment], Sequence[Resource]],
) -> int:
    if options.environment is None:
        raise CostError(
            "an environment's name is missing; allowed: dev, or another in environments/"
        )
    environment = load_environment(options.environment, folder=environments, licensed=False)
    _check_effects(options, environment)
    region = _known(options.region or environment.region or DEFAULT_REGION)
    prices, models = load_prices(region), hosted_models()
    choices = _choices(options)
    if options.from_endpoint:
        choices = replace(
            choices,
            observed=_observe(
                environment.model_copy(update={"region": options.region or environment.region}),
                options.days or _MOST_DAYS,
            ),
        )
    result: Run = run(environment, synthesize, prices, models, choices)
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
    from operations.cost.refresh import refresh  # noqa: PLC0415

    names = {field.name for field in fields(Choices)} | {"from_endpoint", "days", "json", "svg"}
    unused = [_with(name, "refresh") for name in sorted(names & _given(options))]
    if unused:
        raise CostError("\n".join(unused))
    region = options.region
    if region is None and options.environment is not None:
        region = load_environment(options.environment, folder=environments, licensed=False).region
    for line in refresh(_known(region or DEFAULT_REGION), progress=sys.stderr.isatty()):
        print(line)
    return 0


def resources_of(environment: Environment) -> list[Resource]:
    """Synthesize an environment; return the resources of all its templates."""
    # The CDK takes seconds to import, and mistakes are told before.
    from aws_cdk import App  # noqa: PLC0415

    from stacks.environment_stacks import EnvironmentStacks  # noqa: PLC0415

    context = json.loads((_ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    with TemporaryDirectory() as folder:
        app = App(context=context, outdir=folder, analytics_reporting=False)
        EnvironmentStacks(app, environment)
        return [
            resource
            for stack in app.synth().stacks
            for resource in stack.template["Resources"].values()
        ]


def _given(options: argparse.Namespace) -> set[str]:
    return {
        name for name, value in vars(options).items() if value is not None and value is not False
    }


def _check_effects(options: argparse.Namespace, environment: Environment) -> None:
    """Refuse an option that would change nothing.

    Raises:
        CostError: There is one.
    """
    given = _given(options)
    lines = [
        _with(name, other)
        for other, names in _UNUSED_WITH.items()
        for name in names
        if {name, other} <= given
    ]
    lines += [
        _without(name, f"[{table}] in environments/{environment.name}.toml")
        for name, table in _OF_TABLE.items()
        if name in given and getattr(environment, table) is None
    ]
    if "days" in given and "from_endpoint" not in given:
        lines.append(_without("days", "--from-endpoint"))
    if lines:
        raise CostError("\n".join(lines))


def _with(name: str, other: str) -> str:
    option, other = (f"--{each.replace('_', '-')}" for each in (name, other))
    return f"{option} has no effect with {other}; found: both; allowed: one of them"


def _without(name: str, needed: str) -> str:
    option = f"--{name.replace('_', '-')}"
    return f"{option} has no effect without {needed}; found: only {option}; allowed: both or none"


def _known(region: str) -> str:
    """Return the region, if it is one of AWS.

    Raises:
        CostError: It is not.
    """
    if region in read_regions():
        return region
    # A region with prices needs no list of AWS's.
    from botocore.loaders import create_loader  # noqa: PLC0415

    partitions = create_loader().load_data("endpoints")["partitions"]
    regions = {name for partition in partitions for name in partition["regions"]}
    if region not in regions:
        raise CostError(
            f"AWS has no such region; found: {region}; allowed: {', '.join(sorted(regions))}"
        )
    return region


def _observe(environment: Environment, days: int) -> Observed:
    # The forecast needs no AWS client.
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    from operations.cost.endpoint_metrics import observe  # noqa: PLC0415
    from operations.environment_session import session_for  # noqa: PLC0415

    try:
        session = session_for(environment)
    except (BotoCoreError, ClientError) as error:
        raise CostError(f"AWS does not accept the credentials: {error}") from None
    region, now = environment.region, datetime.now(UTC)
    return observe(session, environment.name, region=region, days=days, now=now)


def _choices(options: argparse.Namespace) -> Choices:
    given = _given(options)
    names = [field.name for field in fields(Choices) if field.name in given]
    return Choices(**{name: getattr(options, name) for name in names}, progress=sys.stderr.isatty())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/cost", description=__doc__)
    parser.add_argument("environment", nargs="?", help="a file of environments/, without .toml")
    traffic = parser.add_argument_group("traffic")
    traffic.add_argument(
        "--requests", type=_amount, metavar="N", help="a month: 250k, 3M (default 1M)"
    )
    traffic.add_argument("--tokens", type=_count, metavar="N", help="of one request (default 128)")
    traffic.add_argument("--shape", choices=SHAPES, help="(default diurnal)")
    source = traffic.add_mutually_exclusive_group()
    source.add_argument(
        "--trace", type=Path, metavar="CSV", help="arrivals, and if known their tokens"
    )
    source.add_argument(
        "--from-endpoint",
        action="store_true",
        help="traffic, times and cold starts of the deployed environment, from CloudWatch",
    )
    traffic.add_argument("--days", type=_days, metavar="N", help="of --from-endpoint (default 14)")
    traffic.add_argument("--seed", type=int, help="of the simulation (default 0)")
    times = parser.add_argument_group("times")
    times.add_argument("--slower", type=_factor, metavar="X", help="times of another processor")
    measured = times.add_mutually_exclusive_group()
    measured.add_argument("--measured", type=Path, metavar="JSON", help="a report of scripts/bench")
    measured.add_argument(
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
        "--servers", type=_count, metavar="N", help="behind a load balancer, at least (default 2)"
    )
    others.add_argument("--releases", type=_count, metavar="N", help="a month (default 4)")
    others.add_argument("--batch-texts", type=_amount, metavar="N", help="of batch jobs a month")
    others.add_argument("--vectors", type=_amount, metavar="N", help="in the index of [index]")
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
