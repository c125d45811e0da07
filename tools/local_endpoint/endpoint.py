"""Serves an artifact behind a local Function URL."""

import os
from pathlib import Path
from typing import IO

from botocore.credentials import Credentials

from tools.local_endpoint.models import ROOT
from tools.local_endpoint.runtime import Function, Runtime, start
from tools.local_endpoint.server import LocalFunctionUrl
from tools.local_endpoint.signature import Verifier

#: What the function needs to call AWS. On Lambda, it has the keys of its role.
_CALLING_AWS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ENDPOINT_URL_S3VECTORS",
)


def key_pair() -> Credentials:
    """Return the accepted key pair, from the environment, or else `local` and `local`."""
    access_key = os.environ.get("AWS_ACCESS_KEY_ID")
    secret_key = os.environ.get("AWS_SECRET_ACCESS_KEY")
    if access_key and secret_key:
        return Credentials(access_key, secret_key)
    return Credentials("local", "local")


def region() -> str:
    """Return the region that requests must be signed for."""
    return os.environ.get("AWS_REGION") or "us-east-1"


def endpoint(
    artifact: Path,
    *,
    index: Path | None = None,
    vector_index: str | None = None,
    port: int = 0,
    memory: int = 1769,
    timeout: int = 60,
    mcp: bool = False,
    logs: IO[str] | None = None,
    requests: IO[str] | None = None,
) -> tuple[LocalFunctionUrl, Runtime]:
    """Return a local Function URL, which is a context manager to enter, and its runtime."""
    variables = {"EMBEDDING_ARTIFACT": str(artifact)}
    if mcp:
        variables["EMBEDDING_MCP"] = "on"
    if index is not None:
        variables["EMBEDDING_INDEX"] = str(index)
    if vector_index is not None:
        variables["EMBEDDING_VECTOR_INDEX"] = vector_index
        variables |= {name: os.environ[name] for name in _CALLING_AWS if name in os.environ}
    function = Function(
        handler="embedder.aws_lambda.handler.handler",
        source_root=ROOT / "lambda_image",
        environment=variables,
        memory=memory,
        timeout=timeout,
    )
    runtime = start(function, logs=logs)
    verifier = Verifier(credentials=key_pair(), region=region())
    url = LocalFunctionUrl(runtime=runtime, verifier=verifier, port=port, requests=requests)
    return url, runtime
