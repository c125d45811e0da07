"""`scripts/verify-image [ENVIRONMENT]`: the image, built, taken apart, run and compared."""

import argparse
import os
import sys
from pathlib import Path

from image_rehearsal.verify import verify

_ROOT = Path(__file__).parents[2]


def main() -> int:
    """Verify, print the table, and return the exit status: 0 where nothing is broken."""
    parser = argparse.ArgumentParser(prog="scripts/verify-image", description=__doc__)
    parser.add_argument("environment", nargs="?", default="dev", help="default: dev")
    parser.add_argument(
        "--require-containers",
        action="store_true",
        default=bool(os.environ.get("CI")),
        help="fail where containers cannot run; the default where CI is set",
    )
    asked = parser.parse_args()
    report = verify(_ROOT, asked.environment, require_containers=asked.require_containers)
    print(report.render())
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
