"""Change sets as CloudFormation makes them on AWS.

- A stack that is being changed can not be updated
  (https://github.com/ansible-collections/amazon.aws/pull/1910). MiniStack refuses `UpdateStack`
  then, but not a change set, which the CDK uses.
- A change of the outputs alone can be executed, with no changed resource
  (https://github.com/aws/aws-cdk/issues/2029). MiniStack finds no change.
- Before it creates anything, MiniStack refuses a bucket's name that is taken, as AWS does, but also
  that of a bucket which the change set imports
  (https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/import-resources-automatically.html).
"""

from contextvars import ContextVar
from typing import Any

from ministack.services import cloudformation
from ministack.services.cloudformation import changesets, handlers, helpers, stacks

__all__ = ["PRIVATE_NAMES", "install"]

PRIVATE_NAMES = (
    (changesets, "_deploy_stack_async"),
    (changesets, "_find_change_set"),
    (cloudformation, "_stacks"),
    (handlers, "_ACTION_HANDLERS"),
    (handlers, "_resolve_stack"),
    (helpers, "_error"),
    (helpers, "_p"),
    (stacks, "_validation_errors"),
)

_UNCHANGED = "The submitted information didn't contain changes."

#: The logical ids that the running deploy imports. Each deploy is a task with its own value.
_imported: ContextVar[frozenset[str]] = ContextVar("imported", default=frozenset())


def install() -> None:
    """Follow CloudFormation's rules."""
    deploy, validate = changesets._deploy_stack_async, stacks._validation_errors
    create = handlers._ACTION_HANDLERS["CreateChangeSet"]

    async def deployed(*arguments: Any, imports: dict[str, Any] | None = None, **more: Any) -> None:
        _imported.set(frozenset(imports or ()))
        await deploy(*arguments, imports=imports, **more)

    def errors(*arguments: Any) -> list[tuple[str, ...]]:
        return [
            error
            for error in validate(*arguments)
            if error[2] != "NAME_CONFLICT_VALIDATION" or error[0] not in _imported.get()
        ]

    def created(params: dict[str, Any]) -> Any:
        name = helpers._p(params, "StackName")
        status = (handlers._resolve_stack(name) or {}).get("StackStatus", "")
        if status.endswith("_IN_PROGRESS") and status != "REVIEW_IN_PROGRESS":
            message = f"Stack:{name} is in {status} state and can not be updated."
            return helpers._error("ValidationError", message)
        answer = create(params)
        _allow_outputs(name, helpers._p(params, "ChangeSetName"))
        return answer

    changesets._deploy_stack_async = deployed
    stacks._validation_errors = errors
    handlers._ACTION_HANDLERS["CreateChangeSet"] = created


def _allow_outputs(stack: str, name: str) -> None:
    """Let a change set that changes only the outputs be executed."""
    _, made = changesets._find_change_set(name, stack)
    if not made or not made["StatusReason"].startswith(_UNCHANGED):
        return
    before = cloudformation._stacks[made["StackName"]]["_template"]
    if made["_template"].get("Outputs", {}) != before.get("Outputs", {}):
        made.update(Status="CREATE_COMPLETE", ExecutionStatus="AVAILABLE", StatusReason="")
