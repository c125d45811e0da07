"""`scripts/test-image [ENVIRONMENT]`: build the image, inspect it, run it, compare vectors."""

import sys

from tools.rehearsal.image.command import run
from tools.rehearsal.image.verify import verify

if __name__ == "__main__":
    sys.exit(run("scripts/test-image", __doc__, verify))
