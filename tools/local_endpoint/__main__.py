"""`scripts/serve`: `python -m tools.local_endpoint [--model MODEL] [--port 9000] [--server]`.

With `--server`, the embedder's server runs on this machine, unsigned; otherwise the function, at a
local Function URL.
"""

import argparse
import json
import os
import signal
import socket
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from embedder.core.errors import SettingsError
from embedder.core.settings import EmbedderSettings
from embedder.server.options import PREFIX, parse
from embedding_client.cli import whole
from embedding_kit.programs import exit_with
from tools.local_endpoint.endpoint import endpoint, key_pair, region
from tools.local_endpoint.events import to_event
from tools.local_endpoint.models import (
    DEFAULT_MODEL,
    STANDARD_LIBRARY,
    ModelError,
    artifact_of,
    documents_of,
    index_of,
    together_of,
)
from tools.local_endpoint.runtime import FunctionError, Runtime
from tools.local_endpoint.signature import SignedRequest

#: The other kinds of models by their tables: the tasks that they are compiled for.
_COMPANIONS = {"reranker": "rerank", "sparse": "sparse"}
#: What is asked first by the kind of the answer: a body, its path, and the words after `embed`.
_EXAMPLES = {
    "vector": ('{"text":"hello world"}', "", '"hello world"'),
    "score": (
        '{"query":"a greeting","texts":["hello world"]}',
        "rerank",
        'rerank "a greeting" FILE',
    ),
    "label": ('{"text":"hello world"}', "classify", 'classify "hello world"'),
}
#: In the place of a sparse encoder: BM25, which needs no model.
_BM25 = "bm25"
#: Where the server listens if nothing else is said: this machine only.
_ADDRESS = {"--host": "127.0.0.1", "--port": "9000"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve a model until stopped. Return 0, or 1 after an error, which is printed."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        return _become_server(words) if "--server" in words else _serve(words)
    except (ModelError, FunctionError, SettingsError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped\n")
        return 130


def _serve(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    _check_port("127.0.0.1", options.port)
    if options.ask and not (options.index or options.documents):
        raise ModelError("--ask is for the search page; found without --index or --documents.")
    artifact, index = _built(options)
    url, runtime = endpoint(
        artifact,
        index=index,
        vector_index=options.vector_index,
        port=options.port,
        memory=options.memory,
        timeout=options.timeout,
        mcp=options.mcp,
        assistant=options.ask and options.ask.rstrip("/"),
        logs=sys.stderr if options.verbose else None,
        requests=sys.stderr,
    )
    with url:
        try:
            answer = _initialize(runtime)
        except FunctionError as error:
            raise FunctionError(f"the function did not start: {error.reason}") from error
        said = _ready(
            url.url,
            model=options.model,
            runtime=runtime.description,
            answer=answer,
            has_page=index is not None,
        )
        print(said, flush=True)
        try:
            runtime.wait()
        except (KeyboardInterrupt, SystemExit):
            sys.stderr.write("\nstopped\n")
    return 0


def _check_port(host: str, port: int) -> None:
    """Fail before the model is compiled, which takes minutes."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            # As the endpoint's own socket: connections of one that has ended do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise FunctionError(
            f"port {port} on {host} cannot be used: {error.strerror}; choose another with --port"
        ) from error


def _become_server(arguments: Sequence[str]) -> int:
    """Compile the model if necessary, and become the server. Return only after an error."""
    options, flags = _server_parser().parse_known_args(arguments)
    program = server_command(flags, os.environ)
    settings = parse(program[3:], os.environ)
    of_model = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}
    EmbedderSettings.from_env(of_model)
    _check_port(settings.host, settings.port)
    artifact, index = _built(options)
    environ = {**os.environ, "EMBEDDING_ARTIFACT": str(artifact)}
    if index:
        environ["EMBEDDING_INDEX"] = str(index)
    return os.execve(program[0], program, environ)  # noqa: S606  (our own program)


def server_command(flags: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the server's command: its flags, this machine's address, no keys if none are given."""
    names = {flag.partition("=")[0] for flag in flags}
    program = [sys.executable, "-m", "embedder.server", *flags]
    for name, default in _ADDRESS.items():
        if name not in names and not environ.get(f"EMBEDDING_SERVER_{name[2:].upper()}"):
            program += [name, default]
    if "EMBEDDING_SERVER_KEYS" not in environ and "--no-keys" not in names:
        program.append("--no-keys")
    return program


def _built(options: argparse.Namespace) -> tuple[Path, Path | None]:
    """Return the folders of the artifact and of the index, if one is asked for."""
    try:
        return _build(options)
    except OSError as error:
        file = error.filename or "the files of the model"
        raise ModelError(f"{file}: {error.strerror or error}") from error


def _build(options: argparse.Namespace) -> tuple[Path, Path | None]:
    verbose = options.verbose
    if options.metadata and not options.documents:
        raise ModelError("--metadata names keys of documents; found without --documents.")
    # The server has one model, and no options for others.
    sources = {task: getattr(options, name, None) for name, task in _COMPANIONS.items()}
    bm25 = sources["sparse"] == _BM25
    if bm25:
        del sources["sparse"]
        if not (options.index or options.documents):
            raise ModelError(
                "--sparse bm25 weighs the words of texts; found without --index or --documents."
            )
    models = {"embed": options.model, **{task: model for task, model in sources.items() if model}}
    chosen = {"embed": options.task, "rerank": "rerank"}
    artifacts = {
        task: artifact_of(
            model, task=chosen.get(task), accept_license=options.accept_license, verbose=verbose
        )
        for task, model in models.items()
    }
    artifact = together_of(artifacts) if len(artifacts) > 1 else artifacts["embed"]
    if options.documents:
        return artifact, documents_of(options.documents, artifact, metadata=options.metadata)
    if not options.index:
        return artifact, None
    return artifact, index_of(options.index, artifact, bm25=bm25, verbose=verbose)


def _server_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/serve --server",
        description="Serve an embedding model over HTTP on this machine, for many requests at the "
        "same time. All other flags are those of `embedding-kit embedder.server`; its --help lists "
        "them.",
        allow_abbrev=False,
    )
    parser.add_argument("--server", action="store_true", help=argparse.SUPPRESS)
    _add_model(parser)
    _add_index(parser)
    return parser


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        help="a model of the catalog, a sentence-transformers folder, or an artifact folder "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--task",
        choices=("classify", "rerank"),
        help="what a model with labels does (default: its files say so)",
    )
    parser.add_argument(
        "--accept-license",
        metavar="NAME",
        help="accept the terms of the model's license, for example gemma",
    )
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="show the output of the setup, the compiler and the function",
    )


def _add_index(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    searched = parser.add_mutually_exclusive_group()
    searched.add_argument(
        "--index",
        metavar="TEXTS",
        help="the index to search: a text file with one text per line, a JSON list of texts, an "
        f"index folder, or {STANDARD_LIBRARY} for the docstrings of Python's library",
    )
    searched.add_argument(
        "--documents",
        metavar="FOLDER",
        help="search the documents of a folder, as [ingest] does those of S3; each start embeds "
        "what has changed",
    )
    parser.add_argument(
        "--metadata",
        metavar="KEY",
        action="append",
        default=[],
        help="with --documents, a metadata key that documents may have; may be repeated",
    )
    return searched


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/serve",
        description="Serve an embedding model at a Function URL on this machine.",
        epilog="Requests must be signed with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (default: "
        "local and local), for the service lambda and the region AWS_REGION (default: us-east-1). "
        "With --server there are no signatures: see scripts/serve --server --help.",
    )
    _add_model(parser)
    for name in _COMPANIONS:
        others = f"; or {_BM25}, without a model" if name == "sparse" else ""
        parser.add_argument(
            f"--{name}",
            metavar="MODEL",
            help=f"another model to serve, as [{name}] does; named as for --model{others}",
        )
    parser.add_argument("--port", type=whole(0, 65_535), default=9000, help="default: %(default)s")
    _add_index(parser).add_argument(
        "--vector-index",
        metavar="ARN",
        help="an index of S3 Vectors to search, with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and "
        "AWS_SESSION_TOKEN",
    )
    parser.add_argument(
        "--memory",
        type=whole(128, 10_240),
        default=1769,
        help="the memory setting in MB (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout",
        type=whole(1, 900),
        default=60,
        help="seconds per request (default: %(default)s)",
    )
    parser.add_argument(
        "--mcp", action="store_true", help="answer agents at POST /mcp; see `embed mcp`"
    )
    parser.add_argument(
        "--ask",
        metavar="URL",
        help="with --index or --documents, the address of docs/examples/ask on this machine: the "
        "search page shows its answers",
    )
    return parser


def _initialize(runtime: Runtime) -> str:
    """Send a first request, which initializes the function; return what it answers others with.

    That is `vector`, `score` or `label`, of which the answer has the space.
    """
    request = SignedRequest(method="GET", target="/health", headers={"host": "localhost"}, body=b"")
    answer = runtime.invoke(to_event(request, access_key="local", source_ip="127.0.0.1"))
    health = json.loads(json.loads(answer)["body"])
    return next(answered for answered in _EXAMPLES if f"{answered}_space" in health)


def _ready(
    url: str, *, model: str, runtime: str, answer: str = "vector", has_page: bool = False
) -> str:
    pair = key_pair()
    # Print only the documented default secret.
    secret = "local" if pair.access_key == "local" else "$AWS_SECRET_ACCESS_KEY"
    body, path, example = _EXAMPLES[answer]
    page = f"\n        Search in a browser: {url}/" if has_page else ""
    return textwrap.dedent(f"""
        {model} is served at {url} by {runtime}.{page}
        Press Ctrl-C to stop. To try it, run in another terminal:

          curl --aws-sigv4 "aws:amz:{region()}:lambda" --user "{pair.access_key}:{secret}" \\
            -d '{body}' {url}/{path}

          .venv/bin/embed {example} --url {url}
        """)


if __name__ == "__main__":
    exit_with(main)
