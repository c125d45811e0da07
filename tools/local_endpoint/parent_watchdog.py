"""Runs a program that exits when its parent process exits.

    python -m tools.local_endpoint.parent_watchdog PARENT PROGRAM ARGUMENT...

This process asks the kernel for a SIGTERM when its parent exits in any way. It then replaces itself
with the program, which keeps this setting. It works only on Linux, like the emulator.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # from linux/prctl.h


def main() -> None:
    """Ask for a signal on the parent's exit, and execute the program in the arguments."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it exited before the call of prctl
        sys.exit(0)
    os.execv(program[0], program)  # noqa: S606  (the program is the caller's, without a shell)


if __name__ == "__main__":
    main()
