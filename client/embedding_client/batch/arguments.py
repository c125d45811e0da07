"""The arguments of `embed batch`. This module imports only what `--help` needs."""

import argparse
import os
from typing import Any

from embedding_client.shared_arguments import between, whole

__all__ = ["BATCH_VARIABLE", "add_batch"]

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
