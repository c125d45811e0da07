"""The arguments of `embed batch` and `embed index`. It imports only what `--help` needs."""

import argparse
import os
from typing import Any

from embedding_client._shared_arguments import between, whole

__all__ = ["BATCH_VARIABLE", "INDEX_VARIABLE", "LOAD_VARIABLE", "add_batch", "add_index"]

BATCH_VARIABLE = "EMBEDDING_BATCH"
_EXAMPLES = f"""\
examples:
  embed batch start s3://bucket/docs/ s3://bucket/vectors/ --text body --id id
  embed batch status docs-20261122-101500
  embed batch resume docs-20261122-101500
  embed batch start docs/ vectors/ --local 4 --artifact artifact

The state machine is --state-machine, or the environment variable {BATCH_VARIABLE}.
"""


def add_batch(commands: Any) -> None:
    """Add `batch` and its own commands to the parser of `embed`."""
    parser = commands.add_parser(
        "batch",
        description="Embed the files of a folder, on AWS or on this machine.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    steps = parser.add_subparsers(dest="step", required=True)
    _add_start(steps.add_parser("start", description="Start a job, or continue it."))
    status = steps.add_parser("status", description="Show how far a job is.")
    status.add_argument("job")
    status.add_argument(
        "--follow",
        action=argparse.BooleanOptionalAction,
        help="a progress bar until the job ends; default: on a terminal. Ctrl-C ends only the bar",
    )
    status.add_argument("--json", action="store_true", help="print JSON")
    _add_machine(status)
    for name, description in (
        ("resume", "Start a job again; finished shards are not embedded again."),
        ("cancel", "Stop a job; its finished shards stay."),
    ):
        step = steps.add_parser(name, description=description)
        step.add_argument("job")
        _add_machine(step)
    listed = steps.add_parser("list", description="List the newest jobs.")
    listed.add_argument(
        "-n", "--number", type=whole(1, 1000), default=20, help="default: %(default)s"
    )
    _add_machine(listed)


def _add_start(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="a folder with JSONL, CSV or Parquet files")
    parser.add_argument("destination", help="a folder for the vectors")
    parser.add_argument("--name", help="the job's name; default: the input's folder and the time")
    parser.add_argument("--text", help="the field with the text (default: text)")
    parser.add_argument("--id", help="the field with the id; default: file and position")
    parser.add_argument("--metadata", action="append", help="a field to copy; may be repeated")
    parser.add_argument("--prompt", help="the name of one of the model's prompts")
    parser.add_argument(
        "--dimensions", type=whole(1, 1_000_000), help="one of the vector lengths of the model"
    )
    parser.add_argument(
        "--dtype",
        choices=("float", "int8", "uint8", "binary", "ubinary"),
        help="default: float",
    )
    parser.add_argument(
        "--truncate",
        choices=("refuse", "right", "left"),
        help="texts over the model's limit: reject their rows (the default), or cut off one end",
    )
    parser.add_argument("--max-rejected-percent", type=between(0, 100), help="default: 1")
    local = parser.add_argument_group("on this machine")
    local.add_argument(
        "--local", type=whole(1, 1024), metavar="N", help="use N processes instead of AWS"
    )
    local.add_argument("--artifact", help="the folder of the compiled model, with --local")
    _add_machine(parser)


def _add_machine(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("AWS")
    group.add_argument(
        "--state-machine",
        metavar="ARN",
        default=os.environ.get(BATCH_VARIABLE),
        help=f"default: ${BATCH_VARIABLE}",
    )
    group.add_argument("--profile", help="an AWS profile; default: $AWS_PROFILE")


INDEX_VARIABLE = "EMBEDDING_INDEX_ARN"
LOAD_VARIABLE = "EMBEDDING_INDEX_LOAD"
_INDEX_EXAMPLES = f"""\
examples:
  embed index load s3://bucket/vectors/JOB/
  embed index load vectors/ INDEX --local
  embed index status JOB-20261122-101500
  embed index count INDEX
  embed index delete --index INDEX ID ID

INDEX is the ARN of an index, by default the environment variable {INDEX_VARIABLE}. The state
machine of loads is --state-machine, or the environment variable {LOAD_VARIABLE}.
"""


def add_index(commands: Any) -> None:
    """Add `index` and its own commands to the parser of `embed`."""
    parser = commands.add_parser(
        "index",
        description="Load an index of S3 Vectors, and look into it.",
        epilog=_INDEX_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    steps = parser.add_subparsers(dest="step", required=True)
    _add_load(steps.add_parser("load", description="Load the output of a batch job."))
    status = steps.add_parser("status", description="Show how far a load on AWS is.")
    status.add_argument("load")
    status.add_argument("--json", action="store_true", help="print JSON")
    _add_follow(status)
    _add_load_machine(status)
    cancel = steps.add_parser("cancel", description="Stop a load; what is loaded stays.")
    cancel.add_argument("load")
    _add_load_machine(cancel)
    listed = steps.add_parser("list", description="List the newest loads on AWS.")
    listed.add_argument(
        "-n", "--number", type=whole(1, 1000), default=20, help="default: %(default)s"
    )
    _add_load_machine(listed)
    for name, description in (
        ("show", "Print what an index accepts, and its vector space, as JSON."),
        ("count", "Count the vectors of an index: a request for each 1,000."),
    ):
        step = steps.add_parser(name, description=description)
        _add_index_argument(step)
        _add_profile(step)
    delete = steps.add_parser("delete", description="Delete vectors by their ids.")
    delete.add_argument("ids", nargs="*", metavar="ID", help="default: lines of standard input")
    delete.add_argument("--index", default=os.environ.get(INDEX_VARIABLE), metavar="INDEX")
    _add_profile(delete)


def _add_load(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="the folder of a batch job, or of its only one")
    _add_index_argument(parser)
    parser.add_argument("--metadata", action="append", help="a column to copy; may be repeated")
    parser.add_argument(
        "--max-rejected-percent",
        type=between(0, 100),
        help="rows that need not be loaded; default: 0",
    )
    parser.add_argument("--local", action="store_true", help="load from this machine")
    parser.add_argument(
        "--vectors-per-second", type=whole(1, 1_000_000), help="with --local; default: 2500"
    )
    parser.add_argument("--name", help="the load's name on AWS; default: the folder and the time")
    _add_follow(parser)
    _add_load_machine(parser)


def _add_index_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "index",
        nargs="?",
        metavar="INDEX",
        default=os.environ.get(INDEX_VARIABLE),
        help=f"the ARN of the index; default: ${INDEX_VARIABLE}",
    )


def _add_follow(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--follow",
        action=argparse.BooleanOptionalAction,
        help="a progress bar until the load ends; default: on a terminal. Ctrl-C ends only the bar",
    )


def _add_load_machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state-machine",
        metavar="ARN",
        default=os.environ.get(LOAD_VARIABLE),
        help=f"default: ${LOAD_VARIABLE}",
    )
    _add_profile(parser)


def _add_profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", help="an AWS profile; default: $AWS_PROFILE")
