"""Change sets that import an existing bucket.

Before it creates anything, MiniStack refuses a bucket's name that is taken, as AWS does, but also
that of a bucket which the change set imports
(https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/import-resources-automatically.html).
"""

from contextvars import ContextVar
from typing import Any

from ministack.services.cloudformation import changesets, stacks

__all__ = ["PRIVATE_NAMES", "install"]

PRIVATE_NAMES = ((changesets, "_deploy_stack_async"), (stacks, "_validation_errors"))

#: The logical ids that the running deploy imports. Each deploy is a task with its own value.
_imported: ContextVar[frozenset[str]] = ContextVar("imported", default=frozenset())


def install() -> None:
    """Let an imported bucket have the name of the existing one."""
    deploy, validate = changesets._deploy_stack_async, stacks._validation_errors

    async def deployed(*arguments: Any, imports: dict[str, Any] | None = None, **more: Any) -> None:
        _imported.set(frozenset(imports or ()))
        await deploy(*arguments, imports=imports, **more)

    def errors(*arguments: Any) -> list[tuple[str, ...]]:
        return [
            error
            for error in validate(*arguments)
            if error[2] != "NAME_CONFLICT_VALIDATION" or error[0] not in _imported.get()
        ]

    changesets._deploy_stack_async = deployed
    stacks._validation_errors = errors
