"""`embed load`: start the load generator, which is a program of its own."""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import NoReturn

from embedding_client.errors import ConfigurationError

__all__ = ["run_load"]

#: The generator, the cost model, and the libraries that only the extra brings.
_NEEDED = ("embedding_load", "embedding_costs", "aiohttp", "pydantic")


def run_load(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the generator, so that Ctrl-C and the exit status are its own.

    The client imports neither the generator nor the cost model: both are above it.

    Raises:
        ConfigurationError: The extra is not installed.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            "embed load needs: pip install 'embedding-client[load]'; "
            f"not found: {', '.join(missing)}."
        )
    command = [sys.executable, "-P", "-m", "embedding_load", *arguments]
    os.execv(sys.executable, command)  # noqa: S606 - this Python, our module
