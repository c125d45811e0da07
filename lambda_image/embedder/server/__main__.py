"""The command `embedding-kit embedder.server`; `--help` lists the flags."""

import os
import sys
from collections.abc import Sequence

from embedder.core import startup as _startup  # noqa: F401 - first, for its effect
from embedder.core.errors import StartError
from embedder.core.settings import EmbedderSettings
from embedder.server.options import PREFIX, parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal. Return 0, or 1 or 2 after an error, which is printed."""
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments, os.environ)
        variables = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}
        model_settings = EmbedderSettings.from_env(variables)
    except StartError as error:
        return _failed(error, 2)
    # Imported when the options are right, as it takes most of a start.
    from embedder.server.serve import serve  # noqa: PLC0415

    try:
        serve(options, model_settings, ready=_announce)
    except StartError as error:
        return _failed(error, 1)
    return 0


def _announce(address: str) -> None:
    sys.stderr.write(f"ready at {address}\n")
    sys.stderr.flush()


def _failed(error: object, status: int) -> int:
    sys.stderr.write(f"error: {error}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
