"""Embeds a folder of files on this machine: `python -m batch_embedding SOURCE DESTINATION ...`."""

import argparse
import json
import sys
from collections.abc import Sequence

from tqdm import tqdm

from batch_embedding.errors import BatchError, RejectedRowsError
from batch_embedding.job import Job, Shard
from batch_embedding.local import embed_shards
from batch_embedding.run import Plan, Result, finish_job, missing_shards, plan_job
from embedder.artifact import load_artifact
from embedder.errors import EmbedderError
from embedder.rendering import DTYPES

__all__ = ["main"]

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a job, or continue it.

    Returns:
        The exit status: 0; 1 after an error; 3 if too many rows were rejected; 130 after Ctrl-C.
    """
    options = _parse(arguments)
    try:
        result = _run(options)
    except RejectedRowsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except (BatchError, EmbedderError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; the same command continues the job", file=sys.stderr)
        return _INTERRUPTED
    print(json.dumps(result._asdict()))
    return 0


def _run(options: argparse.Namespace) -> Result:
    job = Job(
        source=options.source,
        destination=options.destination,
        text=options.text,
        id=options.id,
        metadata=tuple(options.metadata),
        prompt=options.prompt,
        dimensions=options.dimensions,
        dtype=options.dtype,
        truncate=options.truncate,
        max_rejected_percent=options.max_rejected_percent,
    )
    plan = plan_job(job, load_artifact(options.artifact).manifest)
    print(f"job {plan.id}: {len(plan.shards)} shards to {plan.folder}", file=sys.stderr)
    missing = missing_shards(plan)
    processes = min(options.processes, len(missing))
    if missing:
        _embed(plan, missing, options.artifact, processes=processes)
    return finish_job(plan)


def _embed(plan: Plan, missing: Sequence[Shard], artifact: str, *, processes: int) -> None:
    done = len(plan.shards) - len(missing)
    rows = rejected = 0
    with tqdm(total=len(plan.shards), initial=done, unit=" shards", disable=None) as bar:
        for outcome in embed_shards(plan, missing, artifact, processes=processes):
            rows += outcome.counts.rows
            rejected += outcome.counts.rejected
            bar.set_postfix(rows=rows, rejected=rejected, refresh=False)
            bar.update()


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m batch_embedding",
        description="Embed a folder of files in processes on this machine.",
        epilog="Each job writes to a folder of its own, named by its input, settings and model. "
        "The same command continues a job that was interrupted.",
    )
    parser.add_argument("source", help="a folder with JSONL, CSV or Parquet files, or s3://...")
    parser.add_argument("destination", help="a folder for the vectors, or s3://...")
    parser.add_argument("--artifact", required=True, help="the folder of the compiled model")
    parser.add_argument(
        "--processes", type=_positive, default=1, help="shards at a time (default: %(default)s)"
    )
    parser.add_argument("--text", default="text", help="the field with the text (default: text)")
    parser.add_argument("--id", help="the field with the id; default: file and position")
    parser.add_argument(
        "--metadata", action="append", default=[], help="a field to copy; may be given repeatedly"
    )
    parser.add_argument("--prompt", help="the name of one of the model's prompts")
    parser.add_argument("--dimensions", type=int, help="one of the vector lengths of the model")
    parser.add_argument("--dtype", choices=DTYPES, default="float", help="default: %(default)s")
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


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more; found {value}")
    return value


if __name__ == "__main__":
    sys.exit(main())
