"""The throw-away function: a copy of the serving version under a name of its own.

It has no URL, no alias and no version, and its logs and metrics are not kept: its role may write
only to the log group of the serving function. It is deleted in the end. If that is prevented, the
next run finds it by its name and tag, and deletes it.
"""

import base64
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tuning.errors import SizeRefusedError, TuneError
from tuning.invocation import Report, http_event, parse_answer, parse_report
from tuning.live import LiveFunction
from tuning.sizes import Size

__all__ = ["TAG", "ThrowAway", "function_name", "throw_away"]

#: Marks a function as one of this command.
TAG = "embedding-kit:tune"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_DELETE_SECONDS = 60


def function_name(environment: str) -> str:
    """Return the function's name. One name, so that a policy can allow this function alone."""
    return f"EmbeddingKit-{environment}-Tune"


class ThrowAway:
    """The function while it exists.

    Args:
        client: The Lambda client. Its read timeout must be longer than the function's timeout.
        name: The function's name.
        live: The function that it is a copy of.
        poll: Seconds between two looks at the function's state.
    """

    def __init__(self, client: Any, name: str, live: LiveFunction, *, poll: float) -> None:
        self._client, self._name, self._live = client, name, live
        self._waiting = {"Delay": poll, "MaxAttempts": 600}
        self._size: Size | None = None

    def create(self, size: Size, tags: Mapping[str, str]) -> None:
        """Create the function; it can be invoked after `wait`."""
        live = self._live
        self._client.create_function(
            FunctionName=self._name,
            Description="Throw-away function of scripts/tune",
            **live.package,
            Role=live.role,
            Architectures=list(live.architectures),
            Timeout=live.timeout,
            MemorySize=size.memory_mb,
            EphemeralStorage={"Size": live.ephemeral_storage_mb},
            Environment={"Variables": self._variables(size, 0)},
            # In JSON at the system level INFO, each invocation's log ends with the report.
            LoggingConfig={
                "LogFormat": "JSON",
                "ApplicationLogLevel": "INFO",
                "SystemLogLevel": "INFO",
            },
            Tags=dict(tags),
        )
        self._size = size

    def wait(self) -> None:
        """Wait until a created function can be invoked."""
        self._client.get_waiter("function_active_v2").wait(
            FunctionName=self._name, WaiterConfig=self._waiting
        )

    def start(self, size: Size, number: int) -> None:
        """Give the function a size, so that the next invocation meets a new environment.

        Args:
            size: The size.
            number: Another number for each start of a size.

        Raises:
            SizeRefusedError: The account does not allow so much memory.
        """
        try:
            self._client.update_function_configuration(
                FunctionName=self._name,
                MemorySize=size.memory_mb,
                Environment={"Variables": self._variables(size, number)},
            )
        except ClientError as error:
            if "MemorySize" in str(error):
                raise SizeRefusedError(
                    f"{size} is left out: the account does not allow a function "
                    f"{size.memory_mb:,} MB (AWS Support raises it)"
                ) from error
            raise
        self._client.get_waiter("function_updated_v2").wait(
            FunctionName=self._name, WaiterConfig=self._waiting
        )
        self._size = size

    def call(self, method: str, path: str, body: object = None) -> tuple[Mapping[str, Any], Report]:
        """Send a request to the function; return the body of its answer and Lambda's report.

        Raises:
            TuneError: The function failed, or is another one than this run has created.
        """
        response = self._client.invoke(
            FunctionName=self._name, LogType="Tail", Payload=http_event(method, path, body)
        )
        answer = parse_answer(response["Payload"].read(), path=path)
        report = parse_report(base64.b64decode(response.get("LogResult", "")).decode())
        if self._size and report.memory_mb != self._size.memory_mb:
            raise TuneError(
                f"{self._name} has {report.memory_mb:,} MB and should have {self._size}: "
                "another run is measuring the same environment; one at a time is allowed"
            )
        return answer, report

    def _variables(self, size: Size, number: int) -> dict[str, str]:
        return {
            **self._live.variables,
            "EMBEDDING_THREADS": str(size.threads),
            # A vector from the cache takes no time.
            "EMBEDDING_CACHE_ENTRIES": "0",
            # If the role may write the logs, they become no metrics of the environment.
            "EMBEDDING_METRICS_NAMESPACE": "EmbeddingKit-tune",
            # A changed variable makes Lambda initialize new environments.
            "TUNE_START": str(number),
        }


@contextmanager
def throw_away(
    client: Any,
    live: LiveFunction,
    *,
    environment: str,
    size: Size,
    tags: Mapping[str, str],
    say: Callable[[str], None],
    poll: float = 1.0,
) -> Iterator[ThrowAway]:
    """Create the function, and delete it in the end, however the block ends.

    If it cannot be deleted, a line says so: the measurement is not lost.

    Args:
        client: The Lambda client.
        live: The function to copy.
        environment: The environment's name.
        size: The first size.
        tags: The function's tags, beside the one that marks it.
        say: Prints a line.
        poll: Seconds between two looks at the function's state.

    Raises:
        TuneError: A function of this name exists and is not one of this command.
        ClientError: Lambda refuses.
    """
    name = function_name(environment)
    _delete_leftover(client, name, say=say, poll=poll)
    function = ThrowAway(client, name, live, poll=poll)
    try:
        function.create(size, {**tags, TAG: environment})
    except ClientError:  # Lambda refused: there is nothing to delete.
        raise
    except BaseException:
        _delete_at_the_end(client, name, say=say)
        raise
    try:
        function.wait()
        yield function
    finally:
        _delete_at_the_end(client, name, say=say)


def _delete_leftover(client: Any, name: str, *, say: Callable[[str], None], poll: float) -> None:
    found = _find(client, name)
    if found is None:
        return
    if TAG not in found.get("Tags", {}):
        raise TuneError(
            f"a function {name} exists that scripts/tune has not created (it has no tag {TAG}, or "
            "lambda:ListTags is not allowed); nothing was changed"
        )
    client.delete_function(FunctionName=name)
    say(f"deleted {name}, which an earlier run has left")
    end = time.monotonic() + _DELETE_SECONDS
    while _find(client, name) is not None and time.monotonic() < end:
        time.sleep(poll)


def _find(client: Any, name: str) -> dict[str, Any] | None:
    try:
        return dict(client.get_function(FunctionName=name))
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return None
        raise


def _delete_at_the_end(client: Any, name: str, *, say: Callable[[str], None]) -> None:
    # A second Ctrl-C must not prevent it.
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _SIGNALS}
    try:
        client.delete_function(FunctionName=name)
    except (BotoCoreError, ClientError) as error:
        if "ResourceNotFoundException" not in str(error):
            say(
                f"warning: {name} could not be deleted: {error}. It costs nothing while it is not "
                "invoked. The next run deletes it, or: "
                f"aws lambda delete-function --function-name {name}"
            )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
