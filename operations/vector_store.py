"""The vector bucket of an environment, and the indexes in it that nothing uses.

CloudFormation deletes neither (`embedding_kit.vector_index`): an index that was replaced serves
until the release check has accepted a version with the new one, and again after a rollback.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError
from botocore.session import Session

from operations.deployed import deleted_stacks, list_resources, status_and_outputs
from operations.environment_session import list_all
from stacks.environment import EnvironmentSettings
from stacks.names import index_stack_name

#: The most services of one request.
_SERVICES = 10


def function_versions(
    session: Session, region: str | None, *, gone: Collection[tuple[str, str]] = ()
) -> Iterator[dict[str, Any]]:
    """Yield the configurations of all versions of all functions of an account and region.

    The versions in `gone`, by function and number, are left out.
    """
    client = session.create_client("lambda", region_name=region)
    for function in list_all(client, "list_functions", "Functions"):
        for version in list_versions(client, function["FunctionName"]):
            if (version["FunctionName"], version["Version"]) not in gone:
                yield version


def list_versions(client: Any, function: str) -> Iterator[dict[str, Any]]:
    """Yield the configuration of each version of a function, with its newest code, `$LATEST`."""
    return list_all(client, "list_versions_by_function", "Versions", FunctionName=function)


def task_definitions(session: Session, region: str | None) -> Iterator[dict[str, Any]]:
    """Yield all task definitions that are active, or that a service still runs."""
    client = session.create_client("ecs", region_name=region)
    active = list_all(client, "list_task_definitions", "taskDefinitionArns", status="ACTIVE")
    for arn in sorted({*active, *_running_definitions(client)}):
        yield client.describe_task_definition(taskDefinition=arn)["taskDefinition"]


def _running_definitions(client: Any) -> Iterator[str]:
    for cluster in list_all(client, "list_clusters", "clusterArns"):
        pages = client.get_paginator("list_services").paginate(
            cluster=cluster, PaginationConfig={"PageSize": _SERVICES}
        )
        for page in pages:
            if not page["serviceArns"]:
                continue
            services = client.describe_services(cluster=cluster, services=page["serviceArns"])
            for service in services["services"]:
                yield service["taskDefinition"]
                yield from (item["taskDefinition"] for item in service.get("deployments", []))


@dataclass(frozen=True, slots=True)
class VectorStore:
    """A vector bucket by name, and the ARNs of its stack's indexes; none if the stack is gone.

    The first one is that of the model that answers, and a second one that of the standby.
    """

    bucket: str
    indexes: tuple[str, ...]
    region: str | None


def find_store(session: Session, environment: EnvironmentSettings) -> VectorStore | None:
    """Return the vector bucket of the deployed environment; None without an index."""
    _, outputs = status_and_outputs(session, environment, index_stack_name(environment.name))
    indexes = tuple(outputs[key] for key in ("IndexArn", "StandbyIndexArn") if key in outputs)
    if not indexes:
        return None
    return VectorStore(indexes[0].split("/")[1], indexes=indexes, region=environment.region)


def find_deleted_store(session: Session, environment: EnvironmentSettings) -> VectorStore | None:
    """Return the vector bucket that the last destroy of the environment has left.

    A destroy that was interrupted after its last stack finds the bucket again.
    """
    client = session.create_client("cloudformation", region_name=environment.region)
    stacks = deleted_stacks(client, index_stack_name(environment.name))
    if not stacks or find_store(session, environment):
        return None
    for arn in list_resources(client, stacks[0], "AWS::S3Vectors::VectorBucket"):
        return VectorStore(arn.rpartition("/")[2], indexes=(), region=environment.region)
    return None


def unused_indexes(
    session: Session, store: VectorStore, *, gone: Collection[tuple[str, str]] = ()
) -> list[str]:
    """Return the ARNs of indexes that neither the stack nor a variable of a function or task names.

    There are none if the variables of a function cannot be read: they may name any. The versions of
    functions in `gone`, by function and number, will be deleted.
    """
    client = session.create_client("s3vectors", region_name=store.region)
    listed = list_all(client, "list_indexes", "indexes", vectorBucketName=store.bucket)
    indexes = [index["indexArn"] for index in listed]
    named = {*store.indexes}
    for version in function_versions(session, store.region, gone=gone):
        variables = version.get("Environment", {})
        if "Error" in variables:
            return []
        named |= set(variables.get("Variables", {}).values())
    for definition in task_definitions(session, store.region):
        for container in definition["containerDefinitions"]:
            named |= {variable["value"] for variable in container.get("environment", [])}
    return [arn for arn in indexes if arn not in named]


def delete_indexes(session: Session, indexes: Iterable[str], *, region: str | None) -> None:
    """Delete indexes with their vectors."""
    client = session.create_client("s3vectors", region_name=region)
    for arn in indexes:
        client.delete_index(indexArn=arn)


def delete_store(session: Session, store: VectorStore) -> Iterator[str]:
    """Delete the indexes of a bucket without a stack that nothing uses, and the bucket if empty.

    Yielded is what was deleted, and what stays.
    """
    client = session.create_client("s3vectors", region_name=store.region)
    try:
        for arn in unused_indexes(session, store):
            client.delete_index(indexArn=arn)
            yield f"deleted the index {arn} with its vectors"
        if client.list_indexes(vectorBucketName=store.bucket)["indexes"]:
            yield f"the vector bucket {store.bucket} stays: a function may use an index of it"
            return
        client.delete_vector_bucket(vectorBucketName=store.bucket)
    except ClientError as error:
        # An earlier run has deleted it.
        if error.response["Error"]["Code"] != "NotFoundException":
            raise
    else:
        yield f"deleted the vector bucket {store.bucket}"
