"""Runs a program that ends with the process that started it.

    python -m local_function_url.tether PARENT PROGRAM ARGUMENT...

The kernel is asked to end this process when its parent ends, however that ends, and the program
then takes this process over, which keeps the request. Linux only, as the emulator is.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # from linux/prctl.h


def main() -> None:
    """Ties this process to its parent and becomes the program in the arguments."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before the request was made
        sys.exit(0)
    os.execv(program[0], program)  # noqa: S606  (the caller's own program, no shell)


if __name__ == "__main__":
    main()
