"""The command of `scripts/serve --server`: the embedder's server on this machine, unsigned."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

from tools.local_endpoint.models import DEFAULT_MODEL, ModelError, artifact_of, index_of

__all__ = ["command", "main"]

#: Where the server listens if nothing else is said: this machine only.
_ADDRESS = {"--host": "127.0.0.1", "--port": "9000"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile the model if necessary, and become the server. Return only after an error."""
    options, flags = _parser().parse_known_args(arguments)
    try:
        artifact = artifact_of(
            options.model, accept_license=options.accept_license, verbose=options.verbose
        )
        environ = {**os.environ, "EMBEDDING_ARTIFACT": str(artifact)}
        if options.index:
            index = index_of(options.index, artifact, verbose=options.verbose)
            environ["EMBEDDING_INDEX"] = str(index)
    except ModelError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped\n")
        return 130
    program = command(flags, environ)
    return os.execve(program[0], program, environ)  # noqa: S606  (our own program)


def command(flags: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the server's command: its flags, this machine's address, no keys if none are given."""
    program = [sys.executable, "-m", "embedder.server", *flags]
    for name, default in _ADDRESS.items():
        variable = f"EMBEDDING_SERVER_{name[2:].upper()}"
        if not environ.get(variable) and not _given(name, flags):
            program += [name, default]
    has_keys = any(flag.startswith("--keys") for flag in flags)
    has_keys |= any(name.startswith("EMBEDDING_SERVER_KEYS") for name in environ)
    if not has_keys and not _given("--no-keys", flags):
        program.append("--no-keys")
    return program


def _given(name: str, flags: Sequence[str]) -> bool:
    return any(_is(name, flag) for flag in flags)


def _is(name: str, flag: str) -> bool:
    return flag.partition("=")[0] == name


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/serve --server",
        description="Serve an embedding model over HTTP on this machine, for many requests at the "
        "same time. All other flags are those of `embedding-kit embedder.server`; its --help lists "
        "them.",
        allow_abbrev=False,
    )
    parser.add_argument("--server", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        help="a model of the catalog, a sentence-transformers folder, or an artifact folder "
        "(default: %(default)s)",
    )
    parser.add_argument("--accept-license", metavar="NAME", help="accept the model's license")
    parser.add_argument("--index", metavar="TEXTS", help="the index for POST /similar")
    parser.add_argument(
        "--verbose", action="store_true", help="show the output of the setup and the compiler"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
