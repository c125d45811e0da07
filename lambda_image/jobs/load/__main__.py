"""Loads a batch job's output from this machine, for `embed index load --local`.

The argument is JSON: the keywords of `_run`.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from jobs.command import run_command, show_progress

#: Vectors a second that AWS takes for one index.
_MAX_RATE = 2500
#: Parts at a time.
_THREADS = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a load, or continue it; return the exit status of `run_command`."""
    return run_command(_run, arguments, interrupted="stopped; the same command continues the load")


def _run(settings: Mapping[str, Any], *, vectors_per_second: int | None = None) -> Any:
    # They need the extra.
    from jobs.load.index_client import IndexClient  # noqa: PLC0415
    from jobs.load.run import LAYOUT, LoadSettings, finish_load, plan_load  # noqa: PLC0415
    from jobs.load.worker import RateLimit, load_parts  # noqa: PLC0415
    from jobs.steps import read_settings  # noqa: PLC0415

    load = read_settings(LoadSettings, settings, name="A load")
    index = IndexClient(load.index, connections=_THREADS)
    plan = plan_load(load, index)
    missing = LAYOUT.missing(plan.folder, plan.parts)
    limit = RateLimit(vectors_per_second or _MAX_RATE)
    show_progress(
        load_parts(plan, missing, index=index, limit=limit, threads=_THREADS),
        total=len(plan.parts),
        done=len(plan.parts) - len(missing),
        unit="parts",
        counts=("loaded", "rejected"),
    )
    return finish_load(plan, index)


if __name__ == "__main__":
    sys.exit(main())
