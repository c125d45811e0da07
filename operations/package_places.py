"""Which packages an environment runs, and where its own copies of them are."""

from botocore.session import Session

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.image_identity import STANDBY, build_arguments
from embedding_kit.settings import artifact_in_s3, load_source
from operations.environment_session import place_of_caller
from operations.image_registry import Place
from stacks.names import (
    artifact_bucket,
    artifact_stack_name,
    bootstrap_qualifier,
    has_bucket_stack,
    has_repository_stack,
    image_repository,
    repository_stack_name,
)


def needed_targets(environment: EnvironmentSettings) -> list[str]:
    """Return what an environment runs: targets of the Dockerfile, or a zip and its artifact.

    A target begins with `standby-` if its image is that of the second model.
    """
    loads = environment.index is not None and load_source(environment.index, environment.batch)
    needed = {
        "endpoint": environment.function.package == "image",
        "batch": environment.batch is not None or loads or environment.ingest is not None,
        "server": environment.server is not None,
        "zip": environment.function.package == "zip",
        "artifact": artifact_in_s3(environment.model, environment.function),
    }
    model, standby = environment.model, environment.standby
    if standby and build_arguments(standby) != build_arguments(model):
        needed |= {f"{STANDBY}endpoint": True, f"{STANDBY}batch": environment.ingest is not None}
    return [target for target, need in needed.items() if need]


def store_stack(environment: EnvironmentSettings) -> str | None:
    """Return the stack that has to be there before a package is; None if there is no such stack."""
    if has_repository_stack(environment):
        return repository_stack_name(environment.name)
    if has_bucket_stack(environment):
        return artifact_stack_name(environment.name)
    return None


def place_of(session: Session, environment: EnvironmentSettings) -> Place:
    """Return the address of an environment's repository."""
    account, region = place_of_caller(session, environment)
    return Place(account=account, region=region, name=image_repository(environment))


def bucket_of(environment: EnvironmentSettings, place: Place) -> str:
    """Return the bucket to which the endpoint's stack of an environment publishes its zips."""
    account, region = place.account, place.region
    if artifact_in_s3(environment.model, environment.function):
        return artifact_bucket(environment, account=account, region=region)
    return f"cdk-{bootstrap_qualifier()}-assets-{account}-{region}"
