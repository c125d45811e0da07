"""A Lambda function, and the interface of the runtimes that run it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Protocol

__all__ = ["Function", "FunctionError", "Runtime"]


class FunctionError(Exception):
    """The function raised an error, timed out, exited or returned too much. The status is 502."""


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function to run.

    Attributes:
        handler: The module and the name, such as `embedder.aws_lambda.handler.handler`.
        source_root: The folder to import it from.
        environment: The function's environment variables.
        memory: The memory setting in MB. It is passed to the function, but not enforced.
        timeout: Seconds per request.
        python: Another Python than this process's. It imports from `source_root` and
            `runtime_root` only.
        runtime_root: The folder with that Python's client of Lambda's runtime.
    """

    handler: str
    source_root: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    memory: int = 1769
    timeout: int = 60
    python: str | None = None
    runtime_root: Path | None = None

    def variables(self) -> dict[str, str]:
        """Return Lambda's environment variables and those of the function."""
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
    """Runs a function."""

    description: str

    def invoke(self, event: bytes) -> bytes:
        """Return the function's JSON result for a JSON event.

        Raises:
            FunctionError: If the function failed.
        """

    def wait(self) -> NoReturn:
        """Wait until the function cannot be run anymore.

        Raises:
            FunctionError: With the reason.
        """

    def close(self) -> None:
        """Stop the function's process."""
