"""Loads a batch job's output from this machine: `python -m vector_loading SOURCE INDEX ...`."""

import argparse
import json
import sys
from collections.abc import Sequence

from tqdm import tqdm

from batch_embedding.errors import BatchError
from vector_loading.errors import RejectedVectorsError
from vector_loading.index_client import IndexClient
from vector_loading.load import Load
from vector_loading.local import load_parts
from vector_loading.pace import Pace
from vector_loading.run import Result, finish_load, missing_parts, plan_load

__all__ = ["main"]

_INTERRUPTED = 130
#: What AWS takes for one index.
_MAX_RATE = 2500


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a load, or continue it.

    Returns:
        The exit status: 0; 1 after an error; 3 if too many rows were rejected; 130 after Ctrl-C.
    """
    options = _parse(arguments)
    try:
        result = _run(options)
    except RejectedVectorsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except BatchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; the same command continues the load", file=sys.stderr)
        return _INTERRUPTED
    print(json.dumps(result._asdict()))
    return 0


def _run(options: argparse.Namespace) -> Result:
    load = Load(
        source=options.source,
        index=options.index,
        metadata=None if options.metadata is None else tuple(options.metadata),
        max_rejected_percent=options.max_rejected_percent,
    )
    index = IndexClient(load.index, connections=options.threads)
    plan = plan_load(load, index)
    missing = missing_parts(plan)
    done = len(plan.parts) - len(missing)
    pace = Pace(options.vectors_per_second)
    with tqdm(total=len(plan.parts), initial=done, unit=" parts", disable=None) as bar:
        loaded = 0
        for outcome in load_parts(plan, missing, index=index, pace=pace, threads=options.threads):
            loaded += outcome.counts.loaded
            bar.set_postfix(vectors=loaded, refresh=False)
            bar.update()
    return finish_load(plan, index)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m vector_loading",
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
        type=_rate,
        default=_MAX_RATE,
        help="the highest rate (default: %(default)s, which AWS takes for an index)",
    )
    parser.add_argument(
        "--threads", type=_positive, default=4, help="parts at a time (default: %(default)s)"
    )
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more; found {value}")
    return value


def _rate(text: str) -> int:
    value = _positive(text)
    if value > _MAX_RATE:
        raise argparse.ArgumentTypeError(f"must be from 1 to {_MAX_RATE}; found {value}")
    return value


if __name__ == "__main__":
    sys.exit(main())
