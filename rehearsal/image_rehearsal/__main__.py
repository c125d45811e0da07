"""`scripts/verify-image [ENVIRONMENT]`: the image, built, taken apart, run and compared."""

import sys

from image_rehearsal.command import run
from image_rehearsal.verify import verify

if __name__ == "__main__":
    sys.exit(run("scripts/verify-image", __doc__, verify))
