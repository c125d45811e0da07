"""The whole embedding endpoint on this machine: artifact, runtime, signature check, URL."""

import os
from pathlib import Path
from typing import IO

from botocore.credentials import Credentials

from local_function_url.models import ROOT
from local_function_url.runtime import Function, Runtime, start
from local_function_url.server import LocalFunctionUrl
from local_function_url.signature import Verifier

__all__ = ["endpoint", "key_pair", "region"]


def key_pair() -> Credentials:
    """The pair whose signatures are accepted: the environment's, else `local` / `local`."""
    access_key = os.environ.get("AWS_ACCESS_KEY_ID")
    secret_key = os.environ.get("AWS_SECRET_ACCESS_KEY")
    if access_key and secret_key:
        return Credentials(access_key, secret_key)
    return Credentials("local", "local")


def region() -> str:
    """The region to sign for."""
    return os.environ.get("AWS_REGION") or "us-east-1"


def endpoint(
    artifact: Path,
    *,
    index: Path | None = None,
    port: int = 0,
    memory: int = 1769,
    timeout: int = 60,
    logs: IO[str] | None = None,
) -> tuple[LocalFunctionUrl, Runtime]:
    """Starts the embedder behind a local Function URL; enter the first of what is returned.

    Args:
        artifact: the compiled model.
        index: a search index for `POST /similar`.
        port: where to listen; 0 takes a free port.
        memory: megabytes told to the function, which decide on its threads.
        timeout: seconds for one request.
        logs: where the function's log lines go.
    """
    variables = {"EMBEDDING_ARTIFACT": str(artifact)}
    if index is not None:
        variables["EMBEDDING_INDEX"] = str(index)
    function = Function(
        handler="embedder.handler.handler",
        source_root=ROOT / "lambda_image",
        environment=variables,
        memory=memory,
        timeout=timeout,
    )
    runtime = start(function, logs=logs)
    verifier = Verifier(credentials=key_pair(), region=region())
    return LocalFunctionUrl(runtime=runtime, verifier=verifier, port=port), runtime
