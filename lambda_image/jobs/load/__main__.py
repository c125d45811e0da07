"""Loads a batch job's output from this machine: `embedding-kit jobs.load SOURCE INDEX ...`."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from jobs.command import between, positive, run_command, show_progress

#: What AWS takes for one index.
_MAX_RATE = 2500


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a load, or continue it; return the exit status of `run_command`."""
    return run_command(
        _run, _parse(arguments), interrupted="stopped; the same command continues the load"
    )


def _run(options: argparse.Namespace) -> Any:
    # They need the extra.
    from jobs.load.index_client import IndexClient  # noqa: PLC0415
    from jobs.load.run import FRAME, LoadSettings, finish_load, plan_load  # noqa: PLC0415
    from jobs.load.worker import RateLimit, load_parts  # noqa: PLC0415

    settings = LoadSettings(
        source=options.source,
        index=options.index,
        metadata=None if options.metadata is None else tuple(options.metadata),
        max_rejected_percent=options.max_rejected_percent,
    )
    index = IndexClient(settings.index, connections=options.threads)
    plan = plan_load(settings, index)
    missing = FRAME.missing(plan.folder, plan.parts)
    limit = RateLimit(options.vectors_per_second)
    show_progress(
        load_parts(plan, missing, index=index, limit=limit, threads=options.threads),
        total=len(plan.parts),
        done=len(plan.parts) - len(missing),
        unit="parts",
        counts=("loaded", "rejected"),
    )
    return finish_load(plan, index)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="embedding-kit jobs.load",
        description="Load the output of a batch job into an index of S3 Vectors.",
        epilog="The same command continues a load that was interrupted. After a complete load, it "
        "writes all vectors again. A vector with the same id is replaced.",
    )
    parser.add_argument("source", help="the folder of a batch job, or s3://...")
    parser.add_argument("index", help="the ARN of the index")
    parser.add_argument(
        "--metadata",
        action="append",
        metavar="COLUMN",
        help="a column to copy; may be repeated (default: all columns)",
    )
    parser.add_argument(
        "--max-rejected-percent",
        type=float,
        default=0.0,
        help="status 3 if more rows cannot be loaded (default: %(default)s)",
    )
    parser.add_argument(
        "--vectors-per-second",
        type=between(1, _MAX_RATE),
        default=_MAX_RATE,
        help="the highest rate (default: %(default)s, which AWS takes for an index)",
    )
    parser.add_argument(
        "--threads", type=positive, default=4, help="parts at a time (default: %(default)s)"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
