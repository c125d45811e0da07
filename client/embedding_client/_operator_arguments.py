"""The arguments of the operator's commands: jobs, indexes, checks."""

import argparse
import os
from collections.abc import Sequence
from typing import Any

from embedding_client._arguments import (
    add_command,
    add_credentials,
    add_profile,
    add_url,
    between,
    whole,
)

BATCH_VARIABLE = "EMBEDDING_BATCH"
INDEX_VARIABLE = "EMBEDDING_INDEX_ARN"
LOAD_VARIABLE = "EMBEDDING_INDEX_LOAD"
_EXAMPLES = f"""\
examples:
  embed batch start s3://bucket/docs/ s3://bucket/vectors/ --text body --id id
  embed batch status docs-20261122-101500
  embed batch resume docs-20261122-101500
  embed batch start docs/ vectors/ --local 4 --artifact artifact

The state machine is --state-machine, or the variable {BATCH_VARIABLE}.
"""
_INDEX_EXAMPLES = f"""\
examples:
  embed index load s3://bucket/vectors/JOB/
  embed index load vectors/ INDEX --local
  embed index status JOB-20261122-101500
  embed index count INDEX
  embed index delete --index INDEX ID ID

INDEX is the ARN of an index, by default the variable {INDEX_VARIABLE}.
The state machine of loads is --state-machine, or the variable
{LOAD_VARIABLE}.
"""


def add_operations(commands: Any) -> None:
    """Add the commands."""
    _add_batch(commands)
    _add_index_commands(commands)
    _add_ingest(commands)
    _add_doctor(commands)


def _add_batch(commands: Any) -> None:
    """Add `batch` and its own commands to the parser of `embed`."""
    steps = _add_steps(
        commands, "batch", "Embed the files of a folder, on AWS or on this machine.", _EXAMPLES
    )
    start = add_command(
        steps, "start", "Start a job, or continue it.", run="_job_commands.start_batch"
    )
    option = start.add_argument
    settings = [
        option("source", help="a folder with JSONL, CSV or Parquet files"),
        option("destination", help="a folder for the vectors"),
        option("--text", help="the field with the text (default: text)"),
        option("--query", help="the field with the query, to score pairs with a reranker"),
        option("--id", help="the field with the id; default: file and position"),
        option("--metadata", action="append", help="a field to copy; may be repeated"),
        option("--prompt", help="the name of one of the model's prompts"),
        option(
            "--dimensions", type=whole(1, 1_000_000), help="one of the vector lengths of the model"
        ),
        option(
            "--dtype",
            choices=("float", "int8", "uint8", "binary", "ubinary"),
            help="default: float",
        ),
        option(
            "--truncate",
            choices=("refuse", "right", "left"),
            help="texts over the model's limit: reject their rows (the default), or cut off one "
            "end",
        ),
        option("--max-rejected-percent", type=between(0, 100), help="default: 1"),
    ]
    _set_settings(start, settings)
    start.add_argument("--name", help="the job's name; default: the input's folder and the time")
    local = start.add_argument_group("on this machine")
    local.add_argument(
        "--local", type=whole(1, 1024), metavar="N", help="use N processes instead of AWS"
    )
    local.add_argument("--artifact", help="the folder of the compiled model, with --local")
    _add_machine(start, BATCH_VARIABLE)
    _add_job_commands(steps, "job", "its finished shards stay", BATCH_VARIABLE)
    resume = add_command(
        steps,
        "resume",
        "Start a job again; finished shards are not embedded again.",
        run="_job_commands.resume",
    )
    resume.add_argument("job")
    _add_machine(resume, BATCH_VARIABLE)


def _add_index_commands(commands: Any) -> None:
    """Add `index` and its own commands to the parser of `embed`."""
    steps = _add_steps(
        commands, "index", "Load an index of S3 Vectors, and look into it.", _INDEX_EXAMPLES
    )
    load = add_command(
        steps, "load", "Load the output of a batch job.", run="_job_commands.start_load"
    )
    settings = [
        load.add_argument("source", help="the folder of a batch job, or of its only one"),
        _add_index(load),
        load.add_argument("--metadata", action="append", help="a column to copy; may be repeated"),
        load.add_argument(
            "--max-rejected-percent",
            type=between(0, 100),
            help="rows that need not be loaded; default: 0",
        ),
    ]
    _set_settings(load, settings)
    load.add_argument("--local", action="store_true", help="load from this machine")
    load.add_argument(
        "--vectors-per-second",
        type=whole(1, 2500),
        help="with --local; default: 2500, which AWS takes for an index",
    )
    load.add_argument("--name", help="the load's name on AWS; default: the folder and the time")
    _add_follow(load, "load")
    load.set_defaults(json=False)
    _add_machine(load, LOAD_VARIABLE)
    _add_job_commands(steps, "load", "the loaded vectors stay", LOAD_VARIABLE)
    for name, description in (
        ("show", "Print what an index accepts, and its vector space, as JSON."),
        ("count", "Count the vectors of an index: a request for each 1,000."),
    ):
        step = add_command(steps, name, description, run=f"_index.{name}")
        _add_index(step)
        add_profile(step)
    delete = add_command(steps, "delete", "Delete vectors by their ids.", run="_index.delete")
    delete.add_argument("ids", nargs="*", metavar="ID", help="default: lines of standard input")
    delete.add_argument("--index", default=os.environ.get(INDEX_VARIABLE), metavar="INDEX")
    add_profile(delete)


def _add_ingest(commands: Any) -> None:
    """Add `embed ingest status`."""
    steps = _add_steps(commands, "ingest", "Show the documents of an environment's index.", "")
    status = add_command(
        steps,
        "status",
        "Show documents, chunks, what waits, what was refused, and the seconds to the index.",
        run="_ingest_command.show_status",
    )
    status.add_argument("environment", metavar="ENVIRONMENT", help="deployed by `scripts/deploy`")
    status.add_argument(
        "--standby", action="store_true", help="those of the index of [standby], in a migration"
    )
    status.add_argument("--json", action="store_true", help="print JSON")
    status.add_argument("--region", help="default: the configured one")
    add_profile(status)


def _add_steps(commands: Any, name: str, description: str, examples: str) -> Any:
    parser = commands.add_parser(
        name,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser.add_subparsers(dest="step", required=True)


def _add_job_commands(steps: Any, job: str, stays: str, variable: str) -> None:
    """Add the commands that batch jobs and loads have; `stays` is left of a canceled one."""
    status = add_command(
        steps, "status", f"Show how far a {job} on AWS is.", run="_job_commands.show_status"
    )
    status.add_argument("job", metavar=job)
    _add_follow(status, job)
    status.add_argument("--json", action="store_true", help="print JSON")
    cancel = add_command(steps, "cancel", f"Stop a {job}; {stays}.", run="_job_commands.cancel")
    cancel.add_argument("job", metavar=job)
    listed = add_command(
        steps, "list", f"List the newest {job}s on AWS.", run="_job_commands.show_newest"
    )
    listed.add_argument(
        "-n", "--number", type=whole(1, 1000), default=20, help="default: %(default)s"
    )
    for parser in (status, cancel, listed):
        _add_machine(parser, variable)


def _set_settings(parser: argparse.ArgumentParser, options: Sequence[argparse.Action]) -> None:
    """Put the names of the options that are settings of a job into the arguments."""
    parser.set_defaults(settings=[option.dest for option in options])


def _add_index(parser: argparse.ArgumentParser) -> argparse.Action:
    return parser.add_argument(
        "index",
        nargs="?",
        metavar="INDEX",
        default=os.environ.get(INDEX_VARIABLE),
        help=f"the ARN of the index; default: ${INDEX_VARIABLE}",
    )


def _add_follow(parser: argparse.ArgumentParser, job: str) -> None:
    parser.add_argument(
        "--follow",
        action=argparse.BooleanOptionalAction,
        help=f"a progress bar until the {job} ends; default: on a terminal. Ctrl-C ends only the "
        "bar",
    )


def _add_machine(parser: argparse.ArgumentParser, variable: str) -> None:
    group = parser.add_argument_group("AWS")
    group.add_argument(
        "--state-machine",
        metavar="ARN",
        default=os.environ.get(variable),
        help=f"default: ${variable}",
    )
    add_profile(group)


_DOCTOR_EXAMPLES = """\
examples:
  embed doctor --environment production
  embed doctor --url https://<id>.lambda-url.<region>.on.aws/ --json

exit status:
  0  no check has failed; there may be warnings and skipped checks
  1  a check has failed, or an error was printed to standard error
  2  invalid arguments
  130  stopped by Ctrl-C or SIGTERM
"""


def _add_doctor(commands: Any) -> None:
    parser = add_command(
        commands,
        "doctor",
        "Check a deployed endpoint from outside, and print what to do.",
        run="doctor.command.run_doctor",
        examples=_DOCTOR_EXAMPLES,
    )
    endpoint = parser.add_mutually_exclusive_group()
    endpoint.add_argument(
        "--environment", metavar="NAME", help="an environment deployed by `scripts/deploy`"
    )
    add_url(endpoint, "default, without --environment")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_credentials(parser)
    parser.add_argument(
        "--deployer",
        action="store_true",
        help="only warn if the endpoint refuses these credentials, which need not be a caller's",
    )
    compared = parser.add_argument_group("what to compare with")
    compared.add_argument(
        "--vector-space", metavar="NAME", help="the vector space of your stored vectors"
    )
    compared.add_argument(
        "--accept-vector-space",
        action="store_true",
        help="remember the vector space even if it differs from that of the last use",
    )
    compared.add_argument(
        "--image-days",
        type=whole(0, 100_000),
        default=90,
        metavar="N",
        help="warn if the base image is older than N days (default: %(default)s)",
    )
