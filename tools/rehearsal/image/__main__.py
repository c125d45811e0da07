"""Build an environment's images and its zip, inspect and run them, and compare their vectors."""

import sys

from tools.rehearsal.image.verify import verify
from tools.rehearsal.report import run

if __name__ == "__main__":
    sys.exit(run("scripts/test-image", __doc__, verify))
