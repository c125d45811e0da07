"""The command `embedding-kit PROGRAM`; without a program, it lists them."""

import sys
from typing import NoReturn

from embedding_kit.programs import PROGRAMS, exit_with, run


def main() -> NoReturn:
    """Run the command of the process, and exit with its status."""
    exit_with(_run)


def _run() -> int:
    """Run the program that the first argument names; return 2 if there is none of that name."""
    program = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if program in PROGRAMS:
        run(program, sys.argv[2:])
        return 0
    if program not in {"--help", "-h"}:
        print(
            f"error: no such program; found: {program}; allowed: {', '.join(PROGRAMS)}",
            file=sys.stderr,
        )
        return 2
    print("usage: embedding-kit PROGRAM [ARGUMENTS]\n")
    for name, text in PROGRAMS.items():
        print(f"  {name:30}{text}")
    return 0


if __name__ == "__main__":
    main()
