"""The names of an environment's stacks, repository and bucket, its own or existing ones.

No import of the CDK, for the commands that only read names.
"""

import json
from pathlib import Path

from embedding_kit.settings import artifact_in_s3
from stacks.environment import EnvironmentSettings

#: The names of an environment's stacks, by the environment's name.
repository_stack_name = "EmbeddingKit-{}-Repository".format
artifact_stack_name = "EmbeddingKit-{}-Artifact".format
index_stack_name = "EmbeddingKit-{}-Index".format
endpoint_stack_name = "EmbeddingKit-{}-Endpoint".format
front_stack_name = "EmbeddingKit-{}-Front".format
batch_stack_name = "EmbeddingKit-{}-Batch".format
server_stack_name = "EmbeddingKit-{}-Server".format
observability_stack_name = "EmbeddingKit-{}-Observability".format

_CDK_FILE = Path(__file__).parents[1] / "cdk.json"
_QUALIFIER = "@aws-cdk/core:bootstrapQualifier"
#: `DefaultStackSynthesizer.DEFAULT_QUALIFIER`, without the import of the CDK, which takes seconds.
_DEFAULT_QUALIFIER = "hnb659fds"


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
    """Return the name of the bucket of artifacts; CloudFormation completes the rest.

    With an environment's name of 31 characters it has 63, which is S3's limit.
    """
    return f"kit-{environment}-{account or '${AWS::AccountId}'}-{region or '${AWS::Region}'}"


def zip_key(digest: str) -> str:
    """Return the key of a zip by its digest, as `sha256:...`."""
    return f"{digest.removeprefix('sha256:')}.zip"


def artifact_key(digest: str) -> str:
    """Return the key of an artifact: functions may read what begins with `artifact/`."""
    return f"artifact/{digest.removeprefix('sha256:')}"


def image_repository(environment: EnvironmentSettings) -> str:
    """Return the name of the image repository."""
    existing = environment.existing
    return (existing and existing.repository) or repository_name(environment.name)


def has_repository_stack(environment: EnvironmentSettings) -> bool:
    """Return whether the environment has an image repository that the kit creates."""
    existing = environment.existing
    return environment.function.package == "image" and not (existing and existing.repository)


def artifact_bucket(
    environment: EnvironmentSettings, *, account: str | None, region: str | None
) -> str:
    """Return the name of the bucket of artifacts; CloudFormation completes the rest."""
    existing = environment.existing
    return (existing and existing.bucket) or artifact_bucket_name(
        environment.name, account=account, region=region
    )


def has_bucket_stack(environment: EnvironmentSettings) -> bool:
    """Return whether the environment has a bucket of artifacts that the kit creates."""
    existing = environment.existing
    in_s3 = artifact_in_s3(environment.model, environment.function)
    return in_s3 and not (existing and existing.bucket)


def stacks_of_file(environment: EnvironmentSettings) -> list[str]:
    """Return the names of the stacks that the environment's file has, in the order of a deploy."""
    return [name for name, is_in_file in possible_stacks(environment).items() if is_in_file]


def possible_stacks(environment: EnvironmentSettings) -> dict[str, bool]:
    """Return whether the file has each stack that an environment may have, by name."""
    name = environment.name
    return {
        repository_stack_name(name): has_repository_stack(environment),
        artifact_stack_name(name): has_bucket_stack(environment),
        index_stack_name(name): environment.index is not None,
        endpoint_stack_name(name): True,
        front_stack_name(name): environment.front is not None,
        batch_stack_name(name): environment.batch is not None,
        server_stack_name(name): environment.server is not None,
        # It is billed without a request.
        observability_stack_name(name): environment.branch_of is None,
    }


def bootstrap_qualifier() -> str:
    """Return the qualifier of `cdk bootstrap`, a part of the names of its roles and buckets.

    It is read from the context in cdk.json, where the CDK's command and the stacks read it too.
    https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-customizing.html
    """
    context = json.loads(_CDK_FILE.read_text(encoding="utf-8")).get("context", {})
    return str(context.get(_QUALIFIER) or _DEFAULT_QUALIFIER)
