"""`scripts/serve`: `python -m tools.local_endpoint [--model MODEL] [--port 9000]`."""

import argparse
import signal
import sys
import textwrap
from collections.abc import Sequence

from tools.local_endpoint.endpoint import endpoint, key_pair, region, serve
from tools.local_endpoint.events import to_event
from tools.local_endpoint.models import (
    DEFAULT_MODEL,
    STANDARD_LIBRARY,
    ModelError,
    artifact_of,
    index_of,
)
from tools.local_endpoint.runtime import FunctionError, Runtime
from tools.local_endpoint.server import LocalFunctionUrl
from tools.local_endpoint.signature import Caller, SignedRequest
from tools.local_endpoint.zip_function import zip_function


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve a model until stopped. Return 0, or 1 after an error, which is printed."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        url, runtime = _start_zip(options) if options.zip else _start(options)
    except (ModelError, FunctionError) as error:
        return _failed(str(error))
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped\n")
        return 130
    except OSError as error:
        return _failed(f"port {options.port} on 127.0.0.1 cannot be used: {error.strerror}")
    with url:
        try:
            _initialize(runtime)
        except FunctionError as error:
            return _failed(f"the function did not start: {error}")
        print(_ready(url.url, model=options.model, runtime=runtime.description), flush=True)
        try:
            runtime.wait()
        except FunctionError as error:
            return _failed(str(error))
        except (KeyboardInterrupt, SystemExit):
            sys.stderr.write("\nstopped\n")
    return 0


def _start(options: argparse.Namespace) -> tuple[LocalFunctionUrl, Runtime]:
    artifact = artifact_of(
        options.model, accept_license=options.accept_license, verbose=options.verbose
    )
    return endpoint(
        artifact,
        index=index_of(options.index, artifact, verbose=options.verbose) if options.index else None,
        vector_index=options.vector_index,
        port=options.port,
        memory=options.memory,
        timeout=options.timeout,
        logs=None if options.quiet else sys.stderr,
    )


def _start_zip(options: argparse.Namespace) -> tuple[LocalFunctionUrl, Runtime]:
    if options.vector_index or options.index == STANDARD_LIBRARY:
        raise ModelError("--zip takes no index but a file of texts: --index TEXTS")
    function = zip_function(
        options.model,
        accept_license=options.accept_license,
        texts=options.index,
        memory=options.memory,
        timeout=options.timeout,
    )
    return serve(function, port=options.port, logs=None if options.quiet else sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/serve",
        description="Serve an embedding model at a Function URL on this machine.",
        epilog="Requests must be signed with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (default: "
        "local and local), for the service lambda and the region AWS_REGION (default: us-east-1). "
        "With --server there are no signatures: see scripts/serve --server --help.",
    )
    parser.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        help="a model of the catalog, a sentence-transformers folder, or an artifact folder "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--accept-license",
        metavar="NAME",
        help="accept the terms of the model's license, for example gemma",
    )
    parser.add_argument(
        "--zip",
        action="store_true",
        help='run the zip of the model, as a deploy with package = "zip" builds it',
    )
    parser.add_argument("--port", type=int, default=9000, help="default: %(default)s")
    searched = parser.add_mutually_exclusive_group()
    searched.add_argument(
        "--vector-index",
        metavar="ARN",
        help="an index of S3 Vectors for POST /similar, searched with AWS_ACCESS_KEY_ID, "
        "AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN",
    )
    searched.add_argument(
        "--index",
        metavar="TEXTS",
        help="the index for POST /similar: a text file with one text per line, a JSON list of "
        f"texts, an index folder, or {STANDARD_LIBRARY} for the docstrings of Python's library",
    )
    parser.add_argument(
        "--memory",
        type=int,
        default=1769,
        help="the memory setting in MB (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout", type=int, default=60, help="seconds per request (default: %(default)s)"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="show the output of the setup and the compiler"
    )
    parser.add_argument("--quiet", action="store_true", help="hide the function's log")
    return parser


def _initialize(runtime: Runtime) -> None:
    """Send a first request, which initializes the function."""
    request = SignedRequest(method="GET", target="/health", headers={"host": "localhost"}, body=b"")
    caller = Caller(access_key="local", session_token=None)
    runtime.invoke(to_event(request, caller=caller, source_ip="127.0.0.1"))


def _ready(url: str, *, model: str, runtime: str) -> str:
    pair = key_pair()
    # Print only the documented default secret.
    secret = "local" if pair.access_key == "local" else "$AWS_SECRET_ACCESS_KEY"
    return textwrap.dedent(f"""
        {model} is served at {url} by {runtime}.
        Press Ctrl-C to stop. To try it, run in another terminal:

          curl --aws-sigv4 "aws:amz:{region()}:lambda" --user "{pair.access_key}:{secret}" \\
            -d '{{"text":"hello world"}}' {url}/

          .venv/bin/embed --url {url} "hello world"
        """)


def _failed(message: str) -> int:
    sys.stderr.write(f"error: {message}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
