"""The steps of the jobs: a plan, one run for each of its items, and a check of the whole.

All state is in files of the job's folder, so that a step may run twice, or on another machine. In
Lambda, each step writes one line of JSON to the log, and one with the metrics of an item. No line
has a text: the message of an unexpected error could quote one, so its class is logged and reported.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from types import NoneType, UnionType
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, get_args, get_type_hints

import orjson

from embedder.core.errors import EmbedderError, fault
from embedder.core.settings import EmbedderSettings
from jobs.errors import BatchError, IncompleteJobError, RejectedRowsError
from jobs.storage import Folder, open_folder

#: How many counts are read at a time in the end. In S3, each takes some requests.
_READERS = 32
#: How many missing items an error names.
_NAMED = 5
#: The types of settings, each with its name and a check of a value of JSON.
_TYPES: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    str: ("a text", lambda value: isinstance(value, str)),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a whole number", lambda value: type(value) is int),
    float: ("a number", lambda value: type(value) in {int, float}),
    tuple[str, ...]: (
        "a list of texts",
        lambda value: (
            isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
        ),
    ),
}


class _Item(Protocol):
    @property
    def done_key(self) -> str:
        """The path of the file that an item has in the job's folder once it is done."""


Job = TypeVar("Job")
Item = TypeVar("Item", bound=_Item)
Counts = TypeVar("Counts")


class UnexpectedError(Exception):
    """A step failed in a way that no message explains. The log has the place in the code."""


class ItemOutcome(NamedTuple):
    """Counts and duration of a worker's run over an item."""

    #: The name of the item's file.
    item: str
    #: A named tuple.
    counts: Any
    #: False if another run had done the item before.
    written: bool
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return the values for JSON, the counts among them."""
        return {
            "part": self.item,
            **self.counts._asdict(),
            "written": self.written,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class JobLayout:
    """Files of a kind of job, and the words for it in messages."""

    name: str
    #: Several items.
    items: str
    #: The settings, the plan (one item a line) and the result, written when the job is complete.
    settings_file: str
    items_file: str
    result_file: str = "manifest.json"
    #: The folder of the lists of rejected rows.
    rejected: str = "rejected"
    #: Where the state machine lists what became of each item.
    results_folder: str = "results"

    def write_plan(self, folder: str, settings: Mapping[str, Any], items: Iterable[Any]) -> None:
        """Write a plan into the job's folder."""
        output = open_folder(folder, create=True)
        output.write(self.items_file, json_lines(items))
        output.write(self.settings_file, orjson.dumps(settings, option=orjson.OPT_INDENT_2))

    def read_plan(self, folder: str, *, items: bool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Read the settings of a plan, and its items if they are wanted."""
        opened = open_folder(folder)
        settings: dict[str, Any] = orjson.loads(opened.read(self.settings_file))
        lines = opened.read(self.items_file).splitlines() if items else []
        return settings, [orjson.loads(line) for line in lines]

    def missing(self, folder: str, items: Iterable[Item]) -> list[Item]:
        """Return the items that are not done yet."""
        keys = {file.key for file in open_folder(folder).files()}
        return [item for item in items if item.done_key not in keys]

    def counts(
        self, folder: str, items: Sequence[Item], read: Callable[[Folder, str], Counts]
    ) -> list[Counts]:
        """Return the counts of all items, which `read` reads from the folder and a `done_key`.

        An item that is not done is an `IncompleteJobError`.
        """
        # The names of their files, without folder and suffixes.
        missing = [
            item.done_key.rpartition("/")[2].partition(".")[0]
            for item in self.missing(folder, items)
        ]
        if missing:
            names = ", ".join([*missing[:_NAMED], *(["..."] if len(missing) > _NAMED else [])])
            raise IncompleteJobError(
                f"{len(missing)} of {len(items)} {self.items} in {folder} are not done yet "
                f"({names}). Start the {self.name} again to continue it."
            )
        opened = open_folder(folder)
        with ThreadPoolExecutor(_READERS) as pool:
            return list(pool.map(lambda item: read(opened, item.done_key), items))

    def finish(
        self, folder: str, result: Mapping[str, Any], *, rejected: int, rows: int, allowed: float
    ) -> None:
        """Write the result; `RejectedRowsError` if more than `allowed` percent were rejected."""
        opened = open_folder(folder)
        opened.write(self.result_file, orjson.dumps(result, option=orjson.OPT_INDENT_2))
        percent = 100 * rejected / max(1, rows)
        if percent > allowed:
            raise RejectedRowsError(
                f"{rejected} of {rows} rows were rejected ({percent:.1f}%); the {self.name} allows "
                f"{allowed:g}%. {folder}/{self.rejected}/ lists them with the reasons. All others "
                "are done."
            )

    def place(self, folder: str) -> dict[str, str]:
        """Return where in S3 the state machine finds the items of a plan and writes the results."""
        bucket, _, prefix = folder.removeprefix("s3://").partition("/")
        return {
            "folder": folder,
            "bucket": bucket,
            f"{self.items}_key": f"{prefix}/{self.items_file}",
            "results_prefix": f"{prefix}/{self.results_folder}",
        }


class Steps:
    """The steps of a job's state machine. Each gets an event and returns values for JSON."""

    #: The message of the log's lines.
    message: ClassVar[str]
    #: The name of the step that works on an item.
    item: ClassVar[str]
    #: The metrics of an item, and those of the last step: each with its unit, and its name in the
    #: step's result.
    metrics: ClassVar[Mapping[str, tuple[str, str]]]
    final_metrics: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def plan(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Plan the job of `event["job"]`, with `event["defaults"]` for what it leaves out."""
        raise NotImplementedError

    def work(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Work on one item of the plan in `event["folder"]`."""
        raise NotImplementedError

    def finish(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Check that the job in `event["folder"]` is complete."""
        raise NotImplementedError

    def run(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Run the step that an event names."""
        steps = {"plan": self.plan, self.item: self.work, "finish": self.finish}
        step = steps.get(event.get("step", ""))
        if step is None:
            raise BatchError(
                f"step must be one of {', '.join(steps)}; found {event.get('step')!r}."
            )
        return step(event)


def logged(
    steps: Steps, settings: EmbedderSettings
) -> Callable[[Mapping[str, Any], Any], dict[str, Any]]:
    """Return Lambda's handler of the steps, `handler(event, context)`, which logs each step.

    The metrics of an item are written if the result says that this run has `written` it, and those
    of the last step always. The handler raises the errors of the steps. Their classes decide
    whether Step Functions tries again, and `UnexpectedError` for any other.
    """

    def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        began = time.monotonic()
        line: dict[str, Any] = {
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": "INFO",
            "message": steps.message,
            "requestId": getattr(context, "aws_request_id", None),
            "environment": settings.environment,
            "step": event.get("step"),
        }
        try:
            result = steps.run(event)
        except (BatchError, EmbedderError) as error:
            _log(line | {"level": "ERROR", "error": type(error).__name__}, began)
            raise
        except Exception as error:
            described = fault(error)
            _log(line | {"level": "ERROR", "error": "UnexpectedError", "fault": described}, began)
            raise UnexpectedError(f"{described['type']} at {described['trace'][-1]}") from None
        _log(line | result, began)
        # What an earlier run has written is not counted again.
        if result.get("written"):
            write_line(_record(settings, result, steps.metrics))
        elif event["step"] == "finish" and steps.final_metrics:
            write_line(_record(settings, result, steps.final_metrics))
        return result

    return handler


def read_settings(kind: type[Job], value: Mapping[str, Any], *, name: str) -> Job:
    """Read the settings of a job, a dataclass, from JSON; none is converted.

    `name` is that of what has the settings, for messages: "A job". A field without a default is
    required. What is unknown, missing or not allowed is a `BatchError`.
    """
    settings = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(value) - set(settings))
    missing = [
        key for key, field in settings.items() if field.default is MISSING and key not in value
    ]
    if unknown or missing:
        problem = f"unknown: {', '.join(unknown)}" if unknown else f"missing: {missing[0]}"
        raise BatchError(f"{name} has the settings {', '.join(settings)}; {problem}.")
    hints = get_type_hints(kind)
    for key, setting in value.items():
        hint = hints[key]
        allowed = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        words, fits = _TYPES[allowed[0]]
        if not fits(setting) and not (setting is None and NoneType in allowed):
            raise BatchError(f"{key} must be {words}; found {setting!r}.")
    return kind(
        **{
            key: tuple(setting) if isinstance(setting, list) else setting
            for key, setting in value.items()
        }
    )


def given_settings(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `event["job"]`, with `event["defaults"]` for what it leaves out."""
    job = event.get("job", {})
    if not isinstance(job, Mapping):
        raise BatchError(
            f"The input of an execution must be an object of settings; found {type(job).__name__}."
        )
    return {**event.get("defaults", {}), **job}


def read_variable(kind: type[Job], name: str) -> Job:
    """Read settings from a variable of the environment, which has them as JSON."""
    return read_settings(kind, orjson.loads(os.environ[name]), name=name)


def json_lines(values: Iterable[Any]) -> bytes:
    """Return values as lines of JSON."""
    return b"".join(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE) for value in values)


def _record(
    settings: EmbedderSettings, result: Mapping[str, Any], metrics: Mapping[str, tuple[str, str]]
) -> dict[str, Any]:
    """Return a record in Embedded Metric Format, of which CloudWatch makes metrics.

    It has none of a value that is None.
    """
    metrics = {
        name: (unit, key) for name, (unit, key) in metrics.items() if result[key] is not None
    }
    definitions = [{"Name": name, "Unit": unit} for name, (unit, _) in metrics.items()]
    return {
        "_aws": {
            "Timestamp": int(time.time() * 1000),
            "CloudWatchMetrics": [
                {
                    "Namespace": settings.metrics_namespace,
                    "Dimensions": [["FunctionName"]],
                    "Metrics": definitions,
                }
            ],
        },
        "FunctionName": settings.function_name,
        **{name: result[key] for name, (_, key) in metrics.items()},
    }


def _log(line: Mapping[str, Any], began: float) -> None:
    write_line({**line, "durationMs": round(1000 * (time.monotonic() - began), 3)})


def write_line(line: Mapping[str, Any]) -> None:
    """Write a line of JSON to the log."""
    sys.stdout.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE).decode())
    sys.stdout.flush()
