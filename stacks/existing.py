"""The repository and the bucket of an environment: its own, or existing ones by name."""

from embedding_kit.environment import Environment
from embedding_kit.settings import artifact_in_s3
from stacks.names import (
    artifact_bucket_name,
    artifact_stack_name,
    batch_stack_name,
    endpoint_stack_name,
    front_stack_name,
    index_stack_name,
    observability_stack_name,
    repository_name,
    repository_stack_name,
    server_stack_name,
)

__all__ = [
    "artifact_bucket",
    "has_bucket_stack",
    "has_repository_stack",
    "image_repository",
    "possible_stacks",
    "stacks_of_file",
]


def image_repository(environment: Environment) -> str:
    """Return the name of the image repository."""
    existing = environment.existing
    return (existing and existing.repository) or repository_name(environment.name)


def has_repository_stack(environment: Environment) -> bool:
    """Return whether the environment has an image repository that the kit creates."""
    existing = environment.existing
    return environment.function.package == "image" and not (existing and existing.repository)


def artifact_bucket(environment: Environment, *, account: str | None, region: str | None) -> str:
    """Return the name of the bucket of artifacts; CloudFormation completes what is not given."""
    existing = environment.existing
    return (existing and existing.bucket) or artifact_bucket_name(
        environment.name, account=account, region=region
    )


def has_bucket_stack(environment: Environment) -> bool:
    """Return whether the environment has a bucket of artifacts that the kit creates."""
    existing = environment.existing
    in_s3 = artifact_in_s3(environment.model, environment.function)
    return in_s3 and not (existing and existing.bucket)


def stacks_of_file(environment: Environment) -> list[str]:
    """Return the names of the stacks that the environment's file has, in the order of a deploy."""
    return [name for name, is_in_file in possible_stacks(environment).items() if is_in_file]


def possible_stacks(environment: Environment) -> dict[str, bool]:
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
        observability_stack_name(name): True,
    }
