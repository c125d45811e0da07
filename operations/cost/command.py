"""The command line of `scripts/cost`: what an environment costs a month, and alternatives."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.environment_file import EnvironmentFileError, load_environment
from embedding_kit.prices import DEFAULT_REGION, hosted_models, load_prices, read_file
from embedding_kit.settings import Model
from embedding_kit.settings.model_folder import FOLDER_HOLDS, folder_name
from model_compiler.source.catalog import find
from operations.cost import CostError
from operations.cost.bill import Resource
from operations.cost.forecast import forecast
from operations.cost.report import as_json, as_table, parse_number, price_notes
from operations.cost.workload import SHAPES, Choices

_ENVIRONMENTS = Path(__file__).resolve().parents[2] / "environments"
#: The tables without which an option has no effect.
_OF_TABLE = {
    "batch_texts": "batch",
    "vectors": "index",
    "searches": "index",
    "documents": "ingest",
    "changes": "ingest",
    "chunks": "ingest",
    "questions": "watch",
}


def main(
    arguments: list[str] | None = None,
    *,
    synthesize: Callable[[EnvironmentSettings], Sequence[Resource]],
    environments: Path = _ENVIRONMENTS,
) -> int:
    """Run the command; return its exit status.

    Args:
        arguments: The arguments; those of the process if None.
        synthesize: Returns the resources of an environment's templates.
        environments: The folder of the environments' files.
    """
    options = _parser().parse_args(arguments)
    try:
        if options.refresh:
            _refresh(options, environments)
        else:
            _forecast(options, environments, synthesize)
    except (CostError, EnvironmentFileError) as error:
        print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return 1
    return 0


def _forecast(
    options: argparse.Namespace,
    environments: Path,
    synthesize: Callable[[EnvironmentSettings], Sequence[Resource]],
) -> None:
    if options.environment is None:
        known = ", ".join(sorted(file.stem for file in environments.glob("*.toml")))
        raise CostError(
            f"an environment's name is missing; allowed: {known}; "
            "scripts/cost --help lists all options"
        )
    environment = load_environment(options.environment, folder=environments, licensed=False)
    if options.model is not None:
        environment = environment.model_copy(update={"model": _model(options.model)})
    given = _given(options)
    for name, table in _OF_TABLE.items():
        if name in given and getattr(environment, table) is None:
            option, file = f"--{name.replace('_', '-')}", environment.file
            raise CostError(
                f"{option} has no effect without [{table}] in {file}; found: only {option}; "
                "allowed: both or none"
            )
    region = _known(options.region or environment.region or DEFAULT_REGION)
    names = [field.name for field in fields(Choices) if field.name in given]
    choices = Choices(**{name: getattr(options, name) for name in names})
    prices, models = load_prices(region), hosted_models()
    result = forecast(environment, synthesize, prices, models, choices)
    today = datetime.now(UTC).date()
    for note in (*price_notes(prices, models, today=today), *result.notes):
        print(note, file=sys.stderr)
    print(json.dumps(as_json(result), indent=2) if options.json else as_table(result).rstrip())


def _refresh(options: argparse.Namespace, environments: Path) -> None:
    # The forecast needs no HTTP client.
    from operations.cost.refresh import refresh  # noqa: PLC0415

    unused = sorted(_given(options) - {"environment", "refresh", "region"})
    if unused:
        option = f"--{unused[0].replace('_', '-')}"
        raise CostError(f"{option} has no effect with --refresh; found: both; allowed: one of them")
    region = options.region
    if region is None and options.environment is not None:
        region = load_environment(options.environment, folder=environments, licensed=False).region
    for line in refresh(_known(region or DEFAULT_REGION), progress=sys.stderr.isatty()):
        print(line)


def _model(text: str) -> Model:
    """Return the model of a catalog name or of a folder. A price needs no accepted license."""
    folder, entry = Path(text).expanduser().resolve(), find(text)
    values: dict[str, object] = {}
    if any((folder / name).is_file() for name in FOLDER_HOLDS):
        values = {"name": folder_name(folder) or "model", "folder": folder}
    elif entry is not None:
        values = {"name": entry.name}
    else:
        raise CostError(
            f"--model is neither a model of the catalog nor a folder with modules.json; found: "
            f"{text}; allowed: a name that `embed models` lists, or a sentence-transformers folder"
        )
    return Model.model_validate(values, context={"licensed": False, "folder": folder})


def _given(options: argparse.Namespace) -> set[str]:
    return {
        name for name, value in vars(options).items() if value is not None and value is not False
    }


def _known(region: str) -> str:
    """Return the region, if it is one of AWS.

    Raises:
        CostError: It is not.
    """
    if region in read_file()["regions"]:
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/cost", description=__doc__)
    parser.add_argument("environment", nargs="?", help="a file of environments/, without .toml")
    parser.add_argument(
        "--model",
        metavar="NAME|FOLDER",
        help="another model than the environment's: of the catalog, or a folder",
    )
    traffic = parser.add_argument_group("traffic")
    traffic.add_argument(
        "--requests", type=_amount, metavar="N", help="a month: 250k, 3M (default 1M)"
    )
    traffic.add_argument("--tokens", type=_count, metavar="N", help="of one request (default 128)")
    traffic.add_argument(
        "--passages",
        type=_count,
        metavar="N",
        help="of one request to a reranker, which pairs each with the query (default 100); "
        "--tokens are a pair's",
    )
    traffic.add_argument("--shape", choices=SHAPES, help="(default diurnal)")
    times = parser.add_argument_group("times")
    times.add_argument("--slower", type=_factor, metavar="X", help="times of another processor")
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
        "--servers", type=_count, metavar="N", help="behind a load balancer, at least (default 2)"
    )
    others.add_argument("--releases", type=_count, metavar="N", help="a month (default 4)")
    others.add_argument("--batch-texts", type=_amount, metavar="N", help="of batch jobs a month")
    others.add_argument("--vectors", type=_amount, metavar="N", help="in the index of [index]")
    others.add_argument(
        "--searches", type=_amount, metavar="N", help="of the index a month (default: --requests)"
    )
    others.add_argument(
        "--documents", type=_amount, metavar="N", help="of [ingest], compared each night"
    )
    others.add_argument(
        "--changes", type=_amount, metavar="N", help="of documents a month, new ones included"
    )
    others.add_argument(
        "--chunks",
        type=_amount,
        metavar="N",
        help="of --tokens each that changes embed a month (default: 3 for each change)",
    )
    others.add_argument(
        "--questions", type=_amount, metavar="N", help="of [watch] each day (default 200)"
    )
    parser.add_argument("--json", action="store_true", help="instead of the table")
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


def _factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"found: {text}; allowed: a positive number such as 1.5")
    return value
