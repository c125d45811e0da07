"""The embedder's settings: environment variables, parsed once, at the edge.

Nothing else in the embedder reads the environment, except `aws`: secrets are no settings.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from embedder.core.errors import SettingsError

PREFIX = "EMBEDDING_"
#: What to do with a text over the model's limit: refuse it, cut its end off, cut its start off.
TRUNCATIONS = ("refuse", "right", "left")
#: Lambda gives a function one vCPU for each 1769 MB of memory.
#: https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html
MEGABYTES_PER_VCPU = 1769
#: 2048 vectors of 768 float32 take 6 MB.
DEFAULT_CACHE_ENTRIES = 2048

_NAMES = (
    "EMBEDDING_ARTIFACT",
    "EMBEDDING_ARTIFACT_LOCATION",
    "EMBEDDING_CACHE_ENTRIES",
    "EMBEDDING_ENVIRONMENT",
    "EMBEDDING_INDEX",
    "EMBEDDING_INGEST",
    "EMBEDDING_MAX_CHARACTERS",
    "EMBEDDING_MCP",
    "EMBEDDING_METRICS_NAMESPACE",
    "EMBEDDING_SEARCH_PREFIXES",
    "EMBEDDING_THREADS",
    "EMBEDDING_TRUNCATE",
    "EMBEDDING_VECTOR_INDEX",
)
#: Variables of the command `embed`, which may be set in the same shell.
_CLIENT_NAMES = {"EMBEDDING_BATCH", "EMBEDDING_INDEX_ARN", "EMBEDDING_INDEX_LOAD", "EMBEDDING_URL"}


@dataclass(frozen=True, slots=True)
class EmbedderSettings:
    """The settings of the embedder, with the defaults of a machine without AWS."""

    #: The folder of the compiled model.
    artifact: str | os.PathLike[str]
    #: The object in S3 with the artifact's files, as `s3://BUCKET/KEY`, if they are not in the
    #: folder; the folder then has the manifest and the checksums of the object's parts.
    artifact_location: str | None = None
    #: Where the artifact is downloaded to.
    temporary: str = "/tmp"  # noqa: S108 - Lambda's only folder that can be written
    #: The region of the bucket, which is the function's.
    region: str | None = None
    #: The URL of S3; None: that of the region. AWS's SDKs read the same variable.
    s3_endpoint: str | None = None
    #: The folder of the search index that the image carries, if it carries one.
    index: str | os.PathLike[str] | None = None
    #: The ARN of the index of S3 Vectors to search instead of a local one.
    vector_index: str | None = None
    #: The URL of S3 Vectors; None: that of the region. AWS's SDKs read the same variable.
    s3_vectors_endpoint: str | None = None
    #: What each caller may search, as `SearchPrefixes` reads it; None: everything.
    search_prefixes: str | None = None
    #: The memory of the Lambda function; None elsewhere.
    memory_mb: int | None = None
    #: Threads of one ONNX run.
    threads: int = 1
    #: What happens to a text over the model's limit when the request does not say.
    truncate: str = "refuse"
    #: The longest text, in characters. None: computed from the model's limit in tokens.
    max_characters: int | None = None
    #: How many vectors are kept for texts that come again; 0 keeps none, and None
    #: `DEFAULT_CACHE_ENTRIES`.
    cache_entries: int | None = None
    #: Whether agents are answered at `POST /mcp`.
    mcp: bool = False
    #: The CloudWatch namespace of the metrics.
    metrics_namespace: str = "EmbeddingKit"
    #: The name of the environment that this is deployed to.
    environment: str = "local"
    #: The Lambda function's name, as its metrics' dimension.
    function_name: str = "local"
    #: The published version that runs, as its metrics' dimension.
    function_version: str = "$LATEST"
    #: How Lambda started this environment: `on-demand`, `provisioned-concurrency`, `snap-start`.
    initialization: str = "on-demand"

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "EmbedderSettings":
        """Parse the environment; a `SettingsError` names an unknown variable or a bad value."""
        allowed = _CLIENT_NAMES.union(_NAMES)
        unknown = sorted(
            name for name in environ if name.startswith(PREFIX) and name not in allowed
        )
        if unknown:
            raise SettingsError(
                f"Unknown environment variables {', '.join(unknown)}. Allowed: {', '.join(_NAMES)}."
            )
        root = environ.get("LAMBDA_TASK_ROOT") or os.path.abspath(f"{__file__}/../../..")
        index = os.path.join(root, "index")
        of_lambda = environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "")
        memory = int(of_lambda) if of_lambda.isdecimal() else None
        return cls(
            artifact=environ.get("EMBEDDING_ARTIFACT") or os.path.join(root, "artifact"),
            artifact_location=environ.get("EMBEDDING_ARTIFACT_LOCATION") or None,
            temporary=environ.get("TMPDIR") or "/tmp",  # noqa: S108
            region=environ.get("AWS_REGION") or None,
            s3_endpoint=environ.get("AWS_ENDPOINT_URL_S3") or None,
            index=environ.get("EMBEDDING_INDEX") or (index if os.path.isdir(index) else None),
            vector_index=environ.get("EMBEDDING_VECTOR_INDEX") or None,
            s3_vectors_endpoint=environ.get("AWS_ENDPOINT_URL_S3VECTORS") or None,
            search_prefixes=environ.get("EMBEDDING_SEARCH_PREFIXES"),
            memory_mb=memory,
            # More threads than vCPUs is four times slower, not faster.
            threads=_integer(environ, "EMBEDDING_THREADS", minimum=1)
            or max(1, (memory or 0) // MEGABYTES_PER_VCPU),
            truncate=_choice(environ, "EMBEDDING_TRUNCATE", TRUNCATIONS),
            max_characters=_integer(environ, "EMBEDDING_MAX_CHARACTERS", minimum=1),
            cache_entries=_integer(environ, "EMBEDDING_CACHE_ENTRIES", minimum=0),
            mcp=_choice(environ, "EMBEDDING_MCP", ("off", "on")) == "on",
            metrics_namespace=environ.get("EMBEDDING_METRICS_NAMESPACE") or "EmbeddingKit",
            environment=environ.get("EMBEDDING_ENVIRONMENT") or "local",
            function_name=environ.get("AWS_LAMBDA_FUNCTION_NAME") or "local",
            function_version=environ.get("AWS_LAMBDA_FUNCTION_VERSION") or "$LATEST",
            initialization=environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") or "on-demand",
        )


def _integer(environ: Mapping[str, str], name: str, *, minimum: int) -> int | None:
    text = environ.get(name)
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or int(text) < minimum:
        raise SettingsError(f"{name} must be a whole number from {minimum} up; found {text!r}.")
    return int(text)


def _choice(environ: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    text = environ.get(name) or allowed[0]
    if text not in allowed:
        raise SettingsError(f"{name} must be one of {', '.join(allowed)}; found {text!r}.")
    return text
