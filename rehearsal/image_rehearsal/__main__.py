"""`scripts/verify-image [ENVIRONMENT]`: build the image, inspect it, run it, compare vectors."""

import sys

from image_rehearsal.command import run
from image_rehearsal.verify import verify

if __name__ == "__main__":
    sys.exit(run("scripts/verify-image", __doc__, verify))
