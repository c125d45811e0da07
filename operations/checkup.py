"""Run the doctor after a deploy: the last step of `scripts/deploy`.

The deploy has succeeded by then, so a failed check has its own exit status, 3. It is not 0,
because a pipeline must not continue with the next environment. It is not 1, because 1 means that
the deploy has failed and can be tried again.
"""

import os
import sys
import traceback

from embedding_client import cli
from stacks.environment import EnvironmentSettings

#: The exit status of a deploy that succeeded, with a failed check.
DEPLOYED_WITH_FAILED_CHECK = 3
_INTERRUPTED = 130


def check_up(environment: EnvironmentSettings) -> int:
    """Run the doctor; return the exit status of the deploy."""
    name, region = environment.name, environment.region
    # The release check of this deploy has compared the vector space with the one before.
    # The role that deploys does not have to be a caller.
    doctor = ["doctor", "--environment", name, "--accept-vector-space", "--deployer"]
    if region:
        doctor += ["--region", region]
    try:
        status = cli.run(doctor)
    except Exception:  # An error of the doctor's own is no failed deploy, either.
        traceback.print_exc()
        status = 1
    if status == _INTERRUPTED:
        print(f"{name} is deployed; the doctor was stopped", file=sys.stderr, flush=True)
        sys.stdout.flush()
        # A normal exit would wait for the doctor's open requests.
        os._exit(status)
    if status:
        print(
            f"error: {name} is deployed, but a check has failed: see the report above. To check "
            f"again: embed doctor --environment {name}. To deploy without the doctor: --no-doctor",
            file=sys.stderr,
        )
    return DEPLOYED_WITH_FAILED_CHECK if status else 0
