"""The logs of the programs that run during a deploy, and what is left of them without a stack.

The rollback of a first deploy that fails would delete the reason, so the stacks retain these log
groups. Their names are generated: none is in the way of another deploy.
"""

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError
from botocore.session import Session

from operations.deployed import deleted_stacks, list_events, list_resources, status_and_outputs
from operations.environment_session import list_all
from stacks.environment import EnvironmentSettings
from stacks.names import endpoint_stack_name, server_stack_name

_LOG_GROUP = "AWS::Logs::LogGroup"
#: What the names of the log groups have after the name of their stack.
_FUNCTION, _CHECK, _TASKS = "EndpointEmbedderLogs", "EndpointCheckLogs", "ServerLogs"

#: An update completes a stack whose creation failed with `--no-rollback`.
_SUCCESSES = {"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"}


def function_logs(environment: EnvironmentSettings) -> str:
    """Return how the names of the log groups of the function begin."""
    return f"{endpoint_stack_name(environment.name)}-{_FUNCTION}"


def logs_of_failure(session: Session, environment: EnvironmentSettings) -> Iterator[str]:
    """Yield the newest log groups of the stacks that failed, also with `--no-rollback`."""
    client = session.create_client("logs", region_name=environment.region)
    for stack, prefixes in _prefixes(environment).items():
        status, _ = status_and_outputs(session, environment, stack)
        if "ROLLBACK" in status or "FAILED" in status:
            groups = (_groups(client, prefix) for prefix in prefixes)
            yield from (max(times, key=times.__getitem__) for times in groups if times)


def delete_left_logs(session: Session, environment: EnvironmentSettings) -> Iterator[str]:
    """Delete the log groups that no stack has; yield what was deleted, and what could not be.

    With `removal_policy = "retain"` the function's log stays, unless its stack was never complete.
    """
    client = session.create_client("logs", region_name=environment.region)
    try:
        names = _unused_groups(session, environment, client)
    except ClientError as error:
        yield f"note: logs of earlier deploys may be left: {error}"
        return
    for name in names:
        try:
            client.delete_log_group(logGroupName=name)
        except ClientError as error:
            command = f"aws logs delete-log-group --log-group-name {name}"
            yield f"note: {name} is left: {error}; to delete it: {command}"
        else:
            yield f"deleted the log group {name}, which no stack has"


def _unused_groups(session: Session, environment: EnvironmentSettings, client: Any) -> list[str]:
    # The groups come before the stacks: one that another deploy makes meanwhile is not in the list.
    names = [
        name
        for prefixes in _prefixes(environment).values()
        for prefix in prefixes
        for name in _groups(client, prefix)
    ]
    stacks = session.create_client("cloudformation", region_name=environment.region)
    used = {
        name
        for stack in _prefixes(environment)
        if status_and_outputs(session, environment, stack)[0]
        for name in list_resources(stacks, stack, _LOG_GROUP)
    }
    if environment.existing and environment.existing.log_group:
        # The file may name one that an earlier deploy has left.
        used.add(environment.existing.log_group)
    unused = [name for name in names if name not in used]
    function_prefix = function_logs(environment)
    if environment.removal_policy == "retain" and any(
        name.startswith(function_prefix) for name in unused
    ):
        failed = {
            name
            for stack in deleted_stacks(stacks, endpoint_stack_name(environment.name))
            for name in _groups_of_failed_stack(stacks, stack)
        }
        unused = [name for name in unused if name in failed or not name.startswith(function_prefix)]
    return unused


def _groups_of_failed_stack(client: Any, stack: str) -> set[str]:
    """Return the log groups of a stack, by its id; none if a deploy of it succeeded."""
    events = list(list_events(client, stack))
    if any(physical == stack and status in _SUCCESSES for _, physical, status in events):
        return set()
    return {physical for resource_type, physical, _ in events if resource_type == _LOG_GROUP}


def _groups(client: Any, prefix: str) -> dict[str, int]:
    """Return when the log groups were made whose names begin so."""
    groups = list_all(client, "describe_log_groups", "logGroups", logGroupNamePrefix=prefix)
    return {group["logGroupName"]: group["creationTime"] for group in groups}


def _prefixes(environment: EnvironmentSettings) -> dict[str, tuple[str, ...]]:
    """Return how the names of log groups begin, by the stack that makes them."""
    log_names = {
        endpoint_stack_name(environment.name): (_FUNCTION, _CHECK),
        server_stack_name(environment.name): (_TASKS,),
    }
    return {stack: tuple(f"{stack}-{name}" for name in names) for stack, names in log_names.items()}
