"""Embeds a folder of files on this machine: `embedding-kit jobs.embed SOURCE DESTINATION`."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from jobs.command import positive, run_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a job, or continue it; return the exit status of `run_command`."""
    return run_command(
        _run, _parse(arguments), interrupted="stopped; the same command continues the job"
    )


def _run(options: argparse.Namespace) -> Any:
    from jobs.embed.local import run_job  # noqa: PLC0415  (needs the extra)

    return run_job(options)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="embedding-kit jobs.embed",
        description="Embed a folder of files in processes on this machine.",
        epilog="Each job writes to another folder, named by its input, settings and model. "
        "The same command continues a job that was interrupted.",
    )
    parser.add_argument("source", help="a folder with JSONL, CSV or Parquet files, or s3://...")
    parser.add_argument("destination", help="a folder for the vectors, or s3://...")
    parser.add_argument("--artifact", required=True, help="the folder of the compiled model")
    parser.add_argument(
        "--processes", type=positive, default=1, help="shards at a time (default: %(default)s)"
    )
    parser.add_argument("--text", default="text", help="the field with the text (default: text)")
    parser.add_argument("--query", help="the field with the query, to score pairs with a reranker")
    parser.add_argument("--id", help="the field with the id; default: file and position")
    parser.add_argument(
        "--metadata", action="append", default=[], help="a field to copy; may be given repeatedly"
    )
    parser.add_argument("--prompt", help="the name of one of the model's prompts")
    parser.add_argument("--dimensions", type=int, help="one of the vector lengths of the model")
    parser.add_argument(
        "--dtype",
        choices=("float", "int8", "uint8", "binary", "ubinary"),
        default="float",
        help="default: %(default)s",
    )
    parser.add_argument(
        "--truncate",
        choices=("refuse", "right", "left"),
        default="refuse",
        help="texts over the "
        "model's limit: reject their rows, or cut off one end (default: %(default)s)",
    )
    parser.add_argument(
        "--max-rejected-percent", type=float, default=1.0, help="default: %(default)s"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
