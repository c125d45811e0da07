"""Lambda's report of an invocation, which `Invoke` with `LogType=Tail` returns.

MiniStack has no log of a function in proxy mode. The report is the record `platform.report` in JSON
(https://docs.aws.amazon.com/lambda/latest/dg/telemetry-schema-reference.html#platform-report). An
environment is initialized at the first invocation of a configuration; the report of that invocation
has an initialization.
"""

import json
import math
import time
from collections.abc import Callable
from typing import Any

__all__ = ["with_report"]

Execute = Callable[..., dict[str, Any]]


def with_report(execute: Execute) -> Execute:
    """Add the report to the result of each invocation."""
    initialized: dict[str, str] = {}

    def executed(function: dict[str, Any], *rest: Any) -> dict[str, Any]:
        config = function.get("config") or function
        began = time.perf_counter()
        result = execute(function, *rest)
        milliseconds = round(1000 * (time.perf_counter() - began), 3)
        metrics = {
            "durationMs": milliseconds,
            "billedDurationMs": math.ceil(milliseconds),
            "memorySizeMB": config["MemorySize"],
            "maxMemoryUsedMB": config["MemorySize"],
        }
        content = json.dumps([config["MemorySize"], config.get("Environment")])
        if initialized.get(config["FunctionArn"]) != content:
            initialized[config["FunctionArn"]] = content
            metrics["initDurationMs"] = milliseconds
        status = "error" if result.get("error") else "success"
        record = {"requestId": rest[-1], "status": status, "metrics": metrics}
        line = {"time": _now(), "type": "platform.report", "record": record}
        return {**result, "log": json.dumps(line) + "\n"}

    return executed


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
