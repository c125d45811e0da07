"""The program of `embed load`: `python -m embedding_load --url URL`."""

import sys
from collections.abc import Sequence

from embedding_client.errors import EmbeddingClientError
from embedding_load.arguments import parse
from embedding_load.messages import say

__all__ = ["main"]

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        The exit status: 0; 1 after an error, which is printed to standard error; 3 if requests
        failed; 130 after Ctrl-C.

    Raises:
        SystemExit: After --help, and with status 2 for invalid arguments.
    """
    settings = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        from embedding_load.run import run  # noqa: PLC0415  (slow, and not needed for --help)

        return run(settings)
    except EmbeddingClientError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("\nstopped")
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
