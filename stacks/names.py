"""The names of an environment's stacks and repository, for commands and for other stacks."""

__all__ = [
    "artifact_bucket_name",
    "artifact_key",
    "artifact_stack_name",
    "batch_stack_name",
    "endpoint_stack_name",
    "front_stack_name",
    "generated_prefix",
    "index_stack_name",
    "observability_stack_name",
    "repository_name",
    "repository_stack_name",
    "server_stack_name",
    "zip_key",
]


def repository_stack_name(environment: str) -> str:
    """Return the name of the stack that holds the image repository."""
    return f"EmbeddingKit-{environment}-Repository"


def artifact_stack_name(environment: str) -> str:
    """Return the name of the stack that holds the bucket of artifacts."""
    return f"EmbeddingKit-{environment}-Artifact"


def endpoint_stack_name(environment: str) -> str:
    """Return the name of the stack that holds the endpoint."""
    return f"EmbeddingKit-{environment}-Endpoint"


def batch_stack_name(environment: str) -> str:
    """Return the name of the stack that holds the batch jobs."""
    return f"EmbeddingKit-{environment}-Batch"


def index_stack_name(environment: str) -> str:
    """Return the name of the stack that holds the vector index."""
    return f"EmbeddingKit-{environment}-Index"


def front_stack_name(environment: str) -> str:
    """Return the name of the stack that holds the API in front of the endpoint."""
    return f"EmbeddingKit-{environment}-Front"


def server_stack_name(environment: str) -> str:
    """Return the name of the stack that holds the server."""
    return f"EmbeddingKit-{environment}-Server"


def observability_stack_name(environment: str) -> str:
    """Return the name of the stack that monitors the endpoint."""
    return f"EmbeddingKit-{environment}-Observability"


def generated_prefix(stack: str) -> str:
    """Return what CloudFormation keeps of a stack's name in the names of its functions and roles.

    They have up to 64 characters: 25 of the stack's name, 24 of the logical id, and 12 random ones.
    """
    return stack[:25]


def repository_name(environment: str) -> str:
    """Return the name of the image repository."""
    return f"embedding-kit-{environment}"


def artifact_bucket_name(
    environment: str, *, account: str | None = None, region: str | None = None
) -> str:
    """Return the name of the bucket of artifacts; CloudFormation completes what is not given.

    With an environment's name of 31 characters it has 63, which is S3's limit.
    """
    return f"kit-{environment}-{account or '${AWS::AccountId}'}-{region or '${AWS::Region}'}"


def zip_key(digest: str) -> str:
    """Return the key of a zip by its digest, as `sha256:...`."""
    return f"{digest.removeprefix('sha256:')}.zip"


def artifact_key(digest: str) -> str:
    """Return the key of an artifact: functions may read what begins with `artifact/`."""
    return f"artifact/{digest.removeprefix('sha256:')}"
