"""Distributed maps with what MiniStack ignores: the result writer, size limits, unknown fields.

- The results of a map with a `ResultWriter` are files in S3, and the state's output names them.
  MiniStack returns the results themselves.
- The input and output of a child, and the output of the map, have up to 256 KiB.
- A state machine with a field of a distributed map that MiniStack ignores, such as `ItemBatcher`,
  or with a kind of input that it cannot read, is refused. MiniStack alone would run another one.

https://docs.aws.amazon.com/step-functions/latest/dg/input-output-resultwriter.html
https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
"""

import json
import uuid
from collections.abc import Iterator
from typing import Any

from ministack.core import responses
from ministack.services import s3
from ministack.services import stepfunctions as states
from ministack.services.cloudformation import provisioners

__all__ = ["PRIVATE_NAMES", "install"]

PRIVATE_NAMES = (
    (provisioners, "_RESOURCE_HANDLERS"),
    (provisioners, "_sfn_definition"),
    (s3, "_put_object"),
    (states, "_ExecutionError"),
    (states, "_apply_output_path"),
    (states, "_apply_result_path"),
    (states, "_apply_result_selector"),
    (states, "_create_state_machine"),
    (states, "_executions"),
    (states, "_map_runs"),
    (states, "_resolve_params_obj"),
    (states, "_run_distributed_map"),
    (states, "_run_sub_machine"),
    (states, "_update_state_machine"),
)

#: The most bytes of an input or output.
_MOST_BYTES = 262_144
#: The fields of a distributed map that MiniStack or this module executes.
_MAP_FIELDS = frozenset(
    {
        "Catch", "Comment", "End", "InputPath", "ItemProcessor", "ItemReader", "ItemSelector",
        "ItemsPath", "Label", "MaxConcurrency", "Next", "OutputPath", "Parameters",
        "ResultPath", "ResultSelector", "ResultWriter", "Retry", "ToleratedFailureCount",
        "ToleratedFailurePercentage", "Type",
    }
)  # fmt: skip
_READER_FIELDS = frozenset({"Parameters", "ReaderConfig", "Resource"})
_READER_SETTINGS = frozenset(
    {"CSVDelimiter", "CSVHeaderLocation", "CSVHeaders", "InputType", "MaxItems"}
)
_INPUT_TYPES = frozenset({"CSV", "JSON", "JSONL"})
_ENTRY_FIELDS = (
    "cause", "error", "executionArn", "input", "name", "output", "startDate", "stateMachineArn",
    "status", "stopDate",
)  # fmt: skip
_WRITER_FIELDS = frozenset({"Parameters", "Resource"})
_WRITER = "states:::s3:putObject"


def install() -> None:
    """Write results, check sizes, and refuse what would be ignored."""
    run_map, run_child = states._run_distributed_map, states._run_sub_machine
    create, update = states._create_state_machine, states._update_state_machine
    handler = provisioners._RESOURCE_HANDLERS["AWS::StepFunctions::StateMachine"]
    make = handler["create"]

    def run(state: dict[str, Any], raw: Any, effective: Any, *rest: Any) -> Any:
        writer = state.get("ResultWriter")
        if writer is None:
            return run_map(state, raw, effective, *rest)
        _, execution, context = rest
        changed = ("ResultSelector", "ResultPath", "OutputPath")
        plain = {name: value for name, value in state.items() if name not in changed}
        place = states._resolve_params_obj(writer["Parameters"], effective, context)
        before = set(states._map_runs)
        try:
            _, following = run_map(plain, raw, effective, *rest)
        finally:
            made = (states._map_runs[arn] for arn in set(states._map_runs) - before)
            (mine,) = (run for run in made if run["executionArn"] == execution["executionArn"])
            written = _write(mine, place)
        result = states._apply_result_selector(state, written)
        output = states._apply_result_path(state, raw, result)
        output = states._apply_output_path(state, output, context)
        _check_size("The state's output", output)
        return output, following

    def run_sub(steps: Any, start: Any, data: Any, execution: Any, context: Any) -> Any:
        _check_size("The execution's input", data)
        output = run_child(steps, start, data, execution, context)
        _check_size("The execution's output", output)
        return output

    def checked(call: Any) -> Any:
        def answer(data: dict[str, Any]) -> Any:
            for fault in _faults(json.loads(data.get("definition") or "{}")):
                return responses.error_response_json("InvalidDefinition", fault, 400)
            return call(data)

        return answer

    def created(logical: str, properties: dict[str, Any], stack: str) -> Any:
        for fault in _faults(json.loads(provisioners._sfn_definition(properties))):
            raise ValueError(fault)
        return make(logical, properties, stack)

    states._run_distributed_map = run
    states._run_sub_machine = run_sub
    states._create_state_machine = checked(create)
    states._update_state_machine = checked(update)
    handler["create"] = created


def _write(run: dict[str, Any], place: dict[str, str]) -> dict[str, Any]:
    """Write the results of a map run as AWS does, and return the state's result."""
    bucket = place["Bucket"]
    folder = "/".join(filter(None, [place.get("Prefix", "").rstrip("/"), str(uuid.uuid4())]))
    children = [
        child for child in states._executions.values() if child.get("mapRunArn") == run["mapRunArn"]
    ]
    listed: dict[str, list[dict[str, Any]]] = {"FAILED": [], "PENDING": [], "SUCCEEDED": []}
    for status, files in listed.items():
        entries = [_entry(child) for child in children if child["status"] == status]
        if entries:
            key = f"{folder}/{status}_0.json"
            files.append({"Key": key, "Size": _put(bucket, key, entries)})
    manifest = {"DestinationBucket": bucket, "MapRunArn": run["mapRunArn"], "ResultFiles": listed}
    _put(bucket, f"{folder}/manifest.json", manifest)
    for counts in (run["itemCounts"], run["executionCounts"]):
        counts["resultsWritten"] = len(children)
    details = {"Bucket": bucket, "Key": f"{folder}/manifest.json"}
    return {"MapRunArn": run["mapRunArn"], "ResultWriterDetails": details}


def _entry(child: dict[str, Any]) -> dict[str, Any]:
    found = {name: child.get(name) for name in _ENTRY_FIELDS}
    return {name[0].upper() + name[1:]: value for name, value in found.items() if value is not None}


def _put(bucket: str, key: str, content: Any) -> int:
    body = json.dumps(content).encode()
    status, _, answer = s3._put_object(bucket, key, body, {})
    if status != 200:
        raise states._ExecutionError("States.ResultWriterFailed", answer.decode())
    return len(body)


def _check_size(what: str, value: Any) -> None:
    if len(json.dumps(value).encode()) > _MOST_BYTES:
        message = f"{what} exceeds the maximum number of bytes service limit."
        raise states._ExecutionError("States.DataLimitExceeded", message)


def _faults(definition: Any) -> Iterator[str]:
    """Yield what MiniStack would ignore in the distributed maps of a definition."""
    for name, state in _states(definition):
        processor = state.get("ItemProcessor") or {}
        if processor.get("ProcessorConfig", {}).get("Mode") != "DISTRIBUTED":
            continue
        reader, writer = state.get("ItemReader", {}), state.get("ResultWriter", {})
        kind = reader.get("ReaderConfig", {}).get("InputType", "JSON")
        for where, found, known in (
            ("", set(state), _MAP_FIELDS),
            ("ItemReader.", set(reader), _READER_FIELDS),
            ("ItemReader.ReaderConfig.", set(reader.get("ReaderConfig", {})), _READER_SETTINGS),
            ("ItemReader.ReaderConfig.InputType ", {kind}, _INPUT_TYPES),
            ("ResultWriter.", set(writer), _WRITER_FIELDS),
        ):
            for field in sorted(found - known):
                yield f"{name}: the emulated AWS does not execute {where}{field}"
        if writer and not writer["Resource"].endswith(_WRITER):
            yield f"{name}: the emulated AWS does not execute {writer['Resource']}"


def _states(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every state of a definition, at any depth, with its name."""
    if isinstance(value, list):
        for item in value:
            yield from _states(item)
    elif isinstance(value, dict):
        yield from value.get("States", {}).items()
        for item in value.values():
            yield from _states(item)
