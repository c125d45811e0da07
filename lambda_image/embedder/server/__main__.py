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
    status = 2
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments, os.environ)
        variables = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}
        model_settings = EmbedderSettings.from_env(variables)
        # Imported when the options are right, as it takes most of a start.
        from embedder.server.serve import serve  # noqa: PLC0415

        status = 1
        serve(options, model_settings, ready=_announce)
    except StartError as error:
        print(f"error: {error}", file=sys.stderr)
        return status
    return 0


def _announce(address: str) -> None:
    print(f"ready at {address}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
