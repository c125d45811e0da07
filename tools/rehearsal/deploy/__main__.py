"""`scripts/rehearse [ENVIRONMENT]`: bootstrap, deploy, check, call, change, compare and destroy."""

import sys

from tools.rehearsal.deploy.rehearse import rehearse
from tools.rehearsal.image.command import run

if __name__ == "__main__":
    sys.exit(run("scripts/rehearse", __doc__, rehearse, several=True))
