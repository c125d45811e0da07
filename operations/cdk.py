"""The CDK's command, with this process's terminal: it shows its progress there, and asks."""

import os
import signal
import subprocess
import sys
from pathlib import Path

#: `scripts/setup` installs it.
_PROGRAM = Path(__file__).parents[1] / "scripts/node_modules/.bin/cdk"
#: Standard error as a file descriptor.
_STDERR = 2


def run_cdk(*arguments: str, to_stderr: bool = False) -> None:
    """Run the CDK's command, with its output on standard error if standard output is a result.

    After Ctrl-C this process waits for the command, which got the same signal, and continues.

    Raises:
        CalledProcessError: The command failed, with its exit status.
    """
    command = [str(_PROGRAM), *arguments]
    # The pre-build step needs the image repository before the first stack has created it.
    variables = {**os.environ, "CDK_ASSET_PREBUILD": "false"}
    sys.stdout.flush()
    # A handler that does nothing is not inherited, as SIG_IGN would be.
    previous = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        status = subprocess.run(  # noqa: S603 - our own program
            command, check=False, env=variables, stdout=_STDERR if to_stderr else None
        ).returncode
    finally:
        signal.signal(signal.SIGINT, previous)
    if status:
        # As a shell writes the end by a signal: 130 after Ctrl-C.
        raise subprocess.CalledProcessError(status if status > 0 else 128 - status, command)
