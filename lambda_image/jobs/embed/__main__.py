"""Runs a batch job on this machine, for `embed batch start --local`.

The argument is JSON: the keywords of `run_job`.
"""

import sys
from collections.abc import Sequence
from typing import Any

from jobs.command import run_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a job, or continue it; return the exit status of `run_command`."""
    return run_command(_run, arguments, interrupted="stopped; the same command continues the job")


def _run(**options: Any) -> Any:
    from jobs.embed.local import run_job  # noqa: PLC0415  (needs the extra)

    return run_job(**options)


if __name__ == "__main__":
    sys.exit(main())
