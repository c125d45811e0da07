"""The command `embed`. Modules of its commands are imported when they run: `--help` is fast."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from embedding_client._arguments import parse_arguments
from embedding_client._errors import (
    ConfigurationError,
    CredentialsError,
    EmbeddingClientError,
    ResponseError,
    UnreachableError,
    print_error,
)

_INVALID = 2
_INTERRUPTED = 130
#: This machine in the URL of a message.
_LOCAL = ("//127.0.0.1:", "//localhost:")
#: The option for a field of the API.
_OPTIONS = {
    "size": "--dimensions",
    "prompt_name": "--prompt",
    "input_type": "--input-type",
    "num_results": "--top",
    "top_k": "--top",
    "candidates": "--candidates",
    "mode": "--mode",
    "rerank": "--rerank",
    "filter": "--filter",
    "chunk_tokens": "--tokens",
    "overlap_tokens": "--overlap",
}


def main() -> NoReturn:
    """Run the command and end at once: a normal exit would wait for threads with open requests."""
    try:
        code = run(sys.argv[1:])
    except SystemExit as ended:  # --help, --version, invalid arguments
        code = ended.code if isinstance(ended.code, int) else 1
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        args = _parse(arguments)
        code: int = args.run(args)
        sys.stdout.flush()
    except EmbeddingClientError as error:
        print_error(f"error: {_in_options(error)}")
        is_argument = isinstance(error, ConfigurationError)
        return _INVALID if is_argument and not isinstance(error, CredentialsError) else 1
    except KeyboardInterrupt:
        print_error("\nstopped")
        return _INTERRUPTED
    except BrokenPipeError:  # `embed ... | head`
        return 1
    except OSError as error:
        print_error(f"error: standard output cannot be written: {error.strerror or error}.")
        return 1
    else:
        return code
    finally:
        signal.signal(signal.SIGTERM, previous)


def _in_options(error: EmbeddingClientError) -> str:
    """Return an error's message with the options of the command for the fields of a request."""
    message = str(error)
    if isinstance(error, ResponseError):
        option = _OPTIONS.get(error.field or "")
        if option:
            message = message.replace(f'"{error.field}"', option, 1).replace('"top_k"', "--top")
        if error.code == "unknown_path" and "path of a reranker" in message:
            message += " Its texts are ranked by `embed rerank` and client.rerank."
        if error.status == 401:
            message += " To send a key, use --api-key-env."
    if isinstance(error, UnreachableError) and any(host in message for host in _LOCAL):
        message += ". Is scripts/serve running?"
    return message


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    try:
        return parse_arguments(arguments)
    except SystemExit:
        sys.stdout.flush()  # here, where an error of standard output is reported
        raise


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
