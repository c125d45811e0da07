"""Measures how many nearest vectors an index finds: `embedding-kit jobs.load.recall`."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from jobs.command import between, run_command

#: What S3 Vectors returns for one query at most, without the query's own vector.
_MAX_TOP = 9_999


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the result as JSON.

    Returns:
        The exit status: 0; 1 after an error; 130 after Ctrl-C.
    """
    return run_command(_run, _parse(arguments), interrupted="stopped")


def _run(options: argparse.Namespace) -> Any:
    from jobs.load.index_client import IndexClient  # noqa: PLC0415  (needs the extra)
    from jobs.load.recall_measurement import measure_recall  # noqa: PLC0415

    return measure_recall(
        options.source, IndexClient(options.index), queries=options.queries, top=options.top
    )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="embedding-kit jobs.load.recall",
        description="Compare what an index finds with an exact search through the Parquet files "
        "that were loaded into it.",
        epilog="Rows of the job are the queries, so this says little about texts that are unlike "
        "all rows. Each query costs a request to S3 Vectors.",
    )
    parser.add_argument("source", help="the folder of the batch job, or s3://...")
    parser.add_argument("index", help="the ARN of the index")
    parser.add_argument("--queries", type=between(1, 100_000), default=200, help="default: 200")
    parser.add_argument("--top", type=between(1, _MAX_TOP), default=10, help="default: 10")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
