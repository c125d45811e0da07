"""Change sets as CloudFormation makes them on AWS."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ministack.services import cloudformation
from ministack.services.cloudformation import changesets, handlers, helpers, stacks
from ministack_patches import replaces

_UNCHANGED = "The submitted information didn't contain changes."
#: The logical ids that the running deploy imports. Each deploy is a task with its own value.
_imported: ContextVar[frozenset[str]] = ContextVar("imported", default=frozenset())


@replaces(changesets, "_deploy_stack_async")
async def _deploy(
    original: Callable[..., Any], *arguments: Any, imports: Any = None, **more: Any
) -> None:
    _imported.set(frozenset(imports or ()))
    await original(*arguments, imports=imports, **more)


# The name of a bucket is taken, unless the change set imports the bucket:
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/import-resources-automatically.html
@replaces(stacks, "_validation_errors")
def _errors(original: Callable[..., Any], *arguments: Any) -> list[tuple[str, ...]]:
    return [
        error
        for error in original(*arguments)
        if error[2] != "NAME_CONFLICT_VALIDATION" or error[0] not in _imported.get()
    ]


# A stack that is being changed cannot be updated. MiniStack refuses `UpdateStack` alone:
# https://github.com/ansible-collections/amazon.aws/pull/1910
@replaces(handlers._ACTION_HANDLERS, "CreateChangeSet")
def _create(original: Callable[..., Any], params: dict[str, Any]) -> Any:
    name = helpers._p(params, "StackName")
    status = (handlers._resolve_stack(name) or {}).get("StackStatus", "")
    if status.endswith("_IN_PROGRESS") and status != "REVIEW_IN_PROGRESS":
        message = f"Stack:{name} is in {status} state and can not be updated."
        return helpers._error("ValidationError", message)
    answer = original(params)
    _allow_outputs(name, helpers._p(params, "ChangeSetName"))
    return answer


# A change of the outputs alone can be executed: https://github.com/aws/aws-cdk/issues/2029
def _allow_outputs(stack: str, name: str) -> None:
    _, made = changesets._find_change_set(name, stack)
    if not made or not made["StatusReason"].startswith(_UNCHANGED):
        return
    before = cloudformation._stacks[made["StackName"]]["_template"]
    if made["_template"].get("Outputs", {}) != before.get("Outputs", {}):
        made.update(Status="CREATE_COMPLETE", ExecutionStatus="AVAILABLE", StatusReason="")
