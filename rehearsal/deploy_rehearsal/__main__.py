"""`scripts/rehearse [ENVIRONMENT]`: bootstrap, deploy, check, call, change, compare, destroy."""

import argparse
import os
import sys
from pathlib import Path

from deploy_rehearsal.rehearse import rehearse

_ROOT = Path(__file__).parents[2]


def main() -> int:
    """Rehearse, print the table, and return the exit status: 0 where nothing is broken."""
    parser = argparse.ArgumentParser(prog="scripts/rehearse", description=__doc__)
    parser.add_argument("environment", nargs="?", default="dev", help="default: dev")
    parser.add_argument(
        "--require-containers",
        action="store_true",
        default=bool(os.environ.get("CI")),
        help="fail where containers cannot run; the default where CI is set",
    )
    asked = parser.parse_args()
    report = rehearse(_ROOT, asked.environment, require_containers=asked.require_containers)
    print(report.render())
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
