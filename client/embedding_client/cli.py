"""The command `embed`. Modules of its commands are imported when they run: `--help` is fast."""

import argparse
import os
import signal
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from embedding_client._arguments import (
    IN_QUOTES,
    URL_VARIABLE,
    add_calls,
    add_embed,
    between,
    whole,
)
from embedding_client._operator_arguments import add_operations
from embedding_client.errors import (
    ConfigurationError,
    CredentialsError,
    EmbeddingClientError,
    ResponseError,
    UnreachableError,
    print_error,
)

#: `between` and `whole` are types of arguments for other commands.
__all__ = ["between", "main", "parsers", "run", "whole"]

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

_EXAMPLES = f"""\
examples:
  embed "some text"                  print dimensions, first numbers, space
  cat notes.txt | embed --json       print each line with its vector as JSON
  embed --file notes.csv --column body --output notes.parquet
                                     embed a file; run it again to resume
  zcat big.jsonl.gz | embed --file - --format jsonl --output big.npy
  embed search "parse a date"        search the endpoint's index

The endpoint is --url or --function, or the environment variable
{URL_VARIABLE}. Credentials come from the same sources as for the AWS CLI.
For a URL on this machine they are AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY, or local and local. To embed the name of a command,
put -- before it.

exit status:
  0  every row has a vector
  1  an error, printed to standard error
  2  invalid arguments
  3  complete, but --on-error left rows without a vector
  130  stopped by Ctrl-C or SIGTERM
"""


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
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        args = _parse(arguments)
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
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


def _show_warning(message: Warning | str, *_: Any) -> None:
    print_error(f"warning: {message}")


def _in_options(error: EmbeddingClientError) -> str:
    """Return an error's message with the options of the command for the fields of a request."""
    message = str(error)
    if isinstance(error, ResponseError):
        option = _OPTIONS.get(error.field or "")
        if option:
            message = message.replace(f'"{error.field}"', option, 1).replace('"top_k"', "--top")
        if error.code == "unknown_path" and "path of a reranker" in message:
            message += " Its texts are ranked by `embed rerank` and client.rerank."
        if "found a classifier" in message:
            message += " Its texts are labeled by `embed classify` and client.classify."
        if error.status == 401:
            message += " To send a key, use --api-key-env."
    if isinstance(error, UnreachableError) and any(host in message for host in _LOCAL):
        message += ". Is scripts/serve running?"
    return message


def parsers() -> tuple[
    argparse.ArgumentParser, argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]
]:
    """Return the parser of all, that of no command, and those of the commands by name."""
    parser = _Parser(prog="embed")
    commands = parser.add_subparsers(dest="command")
    add_calls(commands)
    add_operations(commands)
    listed = (f"  {name:<8}{command.description}" for name, command in commands.choices.items())
    heading = "commands, each with its own --help:"
    # Among parsers of its own, as it is not one of the commands to list.
    own = _Parser().add_subparsers()
    default = add_embed(own, "\n".join([heading, *listed, "", _EXAMPLES]))
    return parser, default, commands.choices


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; `run` of the result runs the command."""
    parser, default, commands = parsers()
    if "_ARGCOMPLETE" in os.environ:
        _complete(parser, default)
    word = arguments[0] if arguments else ""
    try:
        if word in commands:
            args, unknown = parser.parse_known_args(arguments)
            if unknown:
                hint = "" if unknown[0].startswith("-") else f". {IN_QUOTES}"
                args.usage_error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
            return args
        _refuse_mistyped(default, word, commands)
        parsed = default.parse_args(arguments)
        if "--" not in arguments:
            _refuse_file(default, parsed.texts)
    except SystemExit:
        sys.stdout.flush()  # here, where an error of standard output is reported
        raise
    return parsed


class _Parser(argparse.ArgumentParser):
    def print_help(self, file: Any = None) -> None:
        # The method of the base class ignores errors of the file.
        (file or sys.stdout).write(self.format_help())


def _complete(parser: argparse.ArgumentParser, default: argparse.ArgumentParser) -> None:
    """Print what completes the command line, in a shell that asks for it, and exit."""
    import argcomplete  # noqa: PLC0415  (only for a completion)

    words = os.environ.get("COMP_LINE", "").split()
    argcomplete.autocomplete(default if words[1:2] and words[1].startswith("-") else parser)


def _refuse_mistyped(parser: argparse.ArgumentParser, word: str, commands: Iterable[str]) -> None:
    """Exit with the command that a first word is close to: it would be embedded, and billed."""
    if not word.isalpha():
        return
    from difflib import get_close_matches  # noqa: PLC0415  (only for a word that is no command)

    if near := get_close_matches(word, commands, n=1, cutoff=0.75):
        parser.error(
            f'"{word}" is not a command; did you mean "{near[0]}"? To embed the word, put -- '
            "before it"
        )


def _refuse_file(parser: argparse.ArgumentParser, texts: Sequence[str]) -> None:
    """Exit if the only text names a file: its name would be embedded, and not its content."""
    (name, *more_texts) = texts or ("",)
    # Unlike Path's, these know that a long text is no name.
    is_file = os.path.exists(name) and not os.path.isdir(name)  # noqa: PTH110, PTH112
    if not more_texts and (is_file or name == "-"):
        source = "a file" if is_file else "standard input"
        parser.error(
            f'"{name}" is {source}: to embed its content, use --file {name}. To embed the name, '
            "put -- before it"
        )


if __name__ == "__main__":
    main()
