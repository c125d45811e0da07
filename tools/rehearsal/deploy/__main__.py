"""Deploy environments to an emulated AWS, and check the endpoint, its releases and the destroy."""

import sys

from tools.rehearsal.deploy.rehearse import rehearse
from tools.rehearsal.report import run

if __name__ == "__main__":
    sys.exit(run("scripts/rehearse", __doc__, rehearse, several=True))
