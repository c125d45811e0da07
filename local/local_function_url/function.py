"""What runs behind the URL: a function, and whatever runs it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Protocol

__all__ = ["Function", "FunctionError", "Runtime"]


class FunctionError(Exception):
    """The function raised, timed out, ended or returned too much: its caller gets a 502."""


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function to run.

    Attributes:
        handler: module and name, e.g. `embedder.handler.handler`.
        source_root: the folder to import it from.
        environment: the function's environment variables.
        memory: megabytes, told to the function and not enforced.
        timeout: seconds for one request.
    """

    handler: str
    source_root: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    memory: int = 1769
    timeout: int = 60

    def variables(self) -> dict[str, str]:
        """Returns the environment variables that Lambda sets, and the function's own."""
        return {
            "AWS_LAMBDA_FUNCTION_NAME": "local",
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(self.memory),
            "AWS_LAMBDA_FUNCTION_TIMEOUT": str(self.timeout),
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_LAMBDA_LOG_FORMAT": "JSON",
            "LAMBDA_TASK_ROOT": str(self.source_root),
            "AWS_REGION": os.environ.get("AWS_REGION", "us-east-1"),
            **self.environment,
        }


class Runtime(Protocol):
    """Something that answers an event."""

    description: str

    def invoke(self, event: bytes) -> bytes:
        """Returns the function's JSON answer to a JSON event.

        Raises:
            FunctionError: the function gave none.
        """

    def wait(self) -> NoReturn:
        """Waits for as long as the function can be served.

        Raises:
            FunctionError: it cannot any more; the message says why.
        """

    def close(self) -> None:
        """Ends the function's process."""
