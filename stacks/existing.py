"""The repository and the bucket of an environment: its own, or existing ones by name."""

from embedding_kit.environment import Environment
from embedding_kit.settings import artifact_in_s3
from stacks.names import artifact_bucket_name, repository_name

__all__ = ["artifact_bucket", "has_bucket_stack", "has_repository_stack", "image_repository"]


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
