"""What may use an image or an index: all versions of functions, and all tasks of servers."""

from collections.abc import Collection, Iterator
from typing import Any

from botocore.session import Session

__all__ = ["function_versions", "task_definitions", "versions_of"]

#: The most services of one request.
_SERVICES = 10


def function_versions(
    session: Session, region: str | None, *, gone: Collection[tuple[str, str]] = ()
) -> Iterator[dict[str, Any]]:
    """Yield the configurations of all versions of all functions of an account and region.

    Args:
        session: The AWS session.
        region: The region; the session's if None.
        gone: Versions to leave out, by function and number.
    """
    client = session.create_client("lambda", region_name=region)
    for page in client.get_paginator("list_functions").paginate():
        for function in page["Functions"]:
            for version in versions_of(client, function["FunctionName"]):
                if (version["FunctionName"], version["Version"]) not in gone:
                    yield version


def versions_of(client: Any, function: str) -> Iterator[dict[str, Any]]:
    """Yield the configuration of each version of a function, with its newest code, `$LATEST`."""
    pages = client.get_paginator("list_versions_by_function").paginate(FunctionName=function)
    for page in pages:
        yield from page["Versions"]


def task_definitions(session: Session, region: str | None) -> Iterator[dict[str, Any]]:
    """Yield all task definitions that are active, or that a service still runs."""
    client = session.create_client("ecs", region_name=region)
    pages = client.get_paginator("list_task_definitions").paginate(status="ACTIVE")
    definitions = {arn for page in pages for arn in page["taskDefinitionArns"]}
    definitions |= set(_running_definitions(client))
    for arn in sorted(definitions):
        yield client.describe_task_definition(taskDefinition=arn)["taskDefinition"]


def _running_definitions(client: Any) -> Iterator[str]:
    for clusters in client.get_paginator("list_clusters").paginate():
        for cluster in clusters["clusterArns"]:
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
