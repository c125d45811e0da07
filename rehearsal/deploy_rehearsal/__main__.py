"""`scripts/rehearse [ENVIRONMENT]`: bootstrap, deploy, check, call, change, compare and destroy."""

import sys

from deploy_rehearsal.rehearse import rehearse
from image_rehearsal.command import run

if __name__ == "__main__":
    sys.exit(run("scripts/rehearse", __doc__, rehearse, several=True))
