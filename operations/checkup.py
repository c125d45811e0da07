"""Run the doctor after a deploy: the last step of `scripts/deploy`.

The deploy has succeeded by then, so a failed check has its own exit status, 3. It is not 0,
because a pipeline must not continue with the next environment. It is not 1, because 1 means that
the deploy has failed and can be tried again.
"""

import argparse
import subprocess
import sys

from embedding_kit.programs import exit_with
from operations.command import command_parser, run_command
from stacks.environment import EnvironmentSettings

#: The exit status of a deploy that succeeded, with a failed check.
ILL = 3
_INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = command_parser("python -m operations.checkup", __doc__)
    return run_command(parser, _check, arguments)


def _check(environment: EnvironmentSettings, _: argparse.Namespace) -> int:
    name, region = environment.name, environment.region
    # The release check of this deploy has compared the vector space with the one before.
    # The role that deploys does not have to be a caller.
    doctor = ["embed", "doctor", "--environment", name, "--accept-vector-space", "--deployer"]
    if region:
        doctor += ["--region", region]
    try:
        status = subprocess.run(doctor, check=False).returncode  # noqa: S603 - no input of others
    except KeyboardInterrupt:  # The doctor got the same signal.
        status = _INTERRUPTED
    if status == 0:
        return 0
    if status == _INTERRUPTED:
        print(f"{name} is deployed; the doctor was stopped", file=sys.stderr)
        return status
    print(
        f"error: {name} is deployed, but a check has failed: see the report above. To check again: "
        f"embed doctor --environment {name}. To deploy without the doctor: --no-doctor",
        file=sys.stderr,
    )
    return ILL


if __name__ == "__main__":
    exit_with(main)
