"""The command line of `scripts/cost`: what an environment costs a month, and alternatives."""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from embedding_kit.prices import DEFAULT_REGION, hosted_models, load_prices
from embedding_kit.settings import ModelSettings
from embedding_kit.settings.model import FOLDER_HOLDS, folder_name
from model_compiler.source.catalog import find
from operations.cost.bill import Resource
from operations.cost.forecast import UNITS, as_json, as_table, forecast, price_notes
from operations.cost.workload import Month
from stacks.environment import EnvironmentSettings
from stacks.environment_file import load_environment

_ENVIRONMENTS = Path(__file__).resolve().parents[2] / "environments"
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]{1,2})?)([kMG]?)")


def main(
    arguments: list[str] | None = None,
    *,
    synthesize: Callable[[EnvironmentSettings], Sequence[Resource]],
    environments: Path = _ENVIRONMENTS,
) -> int:
    """Run the command; return its exit status.

    `synthesize` returns the resources of an environment's templates.
    """
    options = _parser().parse_args(arguments)
    try:
        environment = load_environment(options.environment, folder=environments, licensed=False)
        _forecast(environment, options, synthesize)
    except ValueError as error:
        print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return 1
    return 0


def _forecast(
    environment: EnvironmentSettings,
    options: argparse.Namespace,
    synthesize: Callable[[EnvironmentSettings], Sequence[Resource]],
) -> None:
    if options.model:
        environment = environment.model_copy(update={"model": _model(options.model)})
    amounts = {}
    for option, _, table, _ in _AMOUNTS:
        name = option[2:].replace("-", "_")
        value = getattr(options, name)
        if value is None:
            continue
        if table and getattr(environment, table) is None:
            raise ValueError(
                f"{option} has no effect without [{table}] in {environment.file}; "
                f"found: only {option}; allowed: both or none"
            )
        amounts[name] = value
    prices = load_prices(environment.region or DEFAULT_REGION)
    # Those that others host give vectors.
    models = () if environment.model.scoring_task else hosted_models()
    result = forecast(environment, synthesize, prices, models, Month(**amounts))
    for note in (*price_notes(prices, models, today=datetime.now(UTC).date()), *result.notes):
        print(note, file=sys.stderr)
    print(as_json(result) if options.json else as_table(result))


def _model(text: str) -> ModelSettings:
    """Return the model of a catalog name or of a folder. A price needs no accepted license."""
    folder, entry = Path(text).expanduser().resolve(), find(text)
    values: dict[str, object] = {}
    if any((folder / name).is_file() for name in FOLDER_HOLDS):
        values = {"name": folder_name(folder) or "model", "folder": folder}
    elif entry is not None:
        values = {"name": entry.name}
    else:
        raise ValueError(
            f"--model is neither a model of the catalog nor a folder with modules.json; found: "
            f"{text}; allowed: a name that `embed models` lists, or a sentence-transformers folder"
        )
    return ModelSettings.model_validate(values, context={"licensed": False, "folder": folder})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/cost", description=__doc__)
    parser.add_argument("environment", help="a file of environments/, without .toml")
    parser.add_argument(
        "--model",
        metavar="NAME|FOLDER",
        help="another model than the environment's: of the catalog, or a folder",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    for option, parse, table, text in _AMOUNTS:
        of_table = f", of [{table}]" if table else ""
        parser.add_argument(option, type=parse, metavar="N", help=f"{text}{of_table}")
    return parser


def amount(text: str) -> float:
    """Parse a positive number such as 3M, 250k or 1200."""
    match = _NUMBER.fullmatch(text.replace(",", "").replace("_", ""))
    if match is None or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(
            f"found: {text}; allowed: a positive number such as 3M, 250k or 1200"
        )
    return float(match[1]) * UNITS[match[2]]


def _count(text: str) -> int:
    value = amount(text)
    if value != int(value):
        raise argparse.ArgumentTypeError(f"found: {text}; allowed: a whole number from 1 up")
    return int(value)


#: The options of amounts: name, type, the table without which one has no effect, and help.
_AMOUNTS = (
    ("--requests", amount, "", "a month: 250k, 3M (default 1M)"),
    ("--tokens", _count, "", "of one request (default 128)"),
    ("--milliseconds", amount, "", "of one core for one request, instead of measured times"),
    ("--batch-texts", amount, "batch", "a month"),
    ("--vectors", amount, "index", "loaded and kept"),
    ("--searches", amount, "index", "a month (default: --requests)"),
    ("--documents", amount, "ingest", "compared each night"),
    ("--changes", amount, "ingest", "of documents a month, new ones included"),
    ("--chunks", amount, "ingest", "of --tokens that changes embed a month (default: 3 each)"),
)
