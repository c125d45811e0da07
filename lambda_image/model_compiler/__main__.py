"""The command `embedding-kit model_compiler`; its parts are in `command`."""

import sys

from model_compiler.supervision import supervised


def _run() -> int:
    # Imported after the process has split in two: these packages start threads.
    from model_compiler.command import main  # noqa: PLC0415

    return main()


if __name__ == "__main__":
    sys.exit(supervised(_run))
