"""The metrics of functions: embedded metrics in log lines, and Lambda's own metrics."""

import io
import json
from typing import Any

from tools.rehearsal.deploy.emulator import Emulator
from tools.rehearsal.deploy.function_server import Invocation

#: The alias that callers reach through the Function URL.
_ALIAS = "live"


class MetricsLog(io.StringIO):
    """A log that publishes the metrics of its lines in embedded metric format.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
    """

    def __init__(self, aws: Emulator) -> None:
        super().__init__()
        self._aws = aws

    def write(self, line: str) -> int:
        """Publish the metrics of a line."""
        record = json.loads(line[line.index("{") :]) if '"_aws"' in line else {"_aws": {}}
        for directive in record["_aws"].get("CloudWatchMetrics", []):
            data = [
                _datum(metric["Name"], record[metric["Name"]], {n: record[n] for n in names})
                for names in directive["Dimensions"]
                for metric in directive["Metrics"]
            ]
            self._aws.client("cloudwatch").put_metric_data(
                Namespace=directive["Namespace"], MetricData=data
            )
        return len(line)


def count_invocation(
    aws: Emulator, invocation: Invocation, *, status: int, milliseconds: float
) -> None:
    """Publish Lambda's metrics of an invocation, by function, alias and version.

    https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html

    Args:
        aws: The emulated AWS.
        invocation: The invocation.
        status: The HTTP status of its response; 502 if the function failed.
        milliseconds: Its duration.
    """
    values = {"Invocations": 1.0, "Errors": float(status == 502), "Duration": milliseconds}
    name, qualifier = {"FunctionName": invocation.function}, invocation.version
    if invocation.through_url:
        values |= {
            "UrlRequestCount": 1.0,
            "Url4xxCount": float(400 <= status < 500),
            "Url5xxCount": float(status >= 500),
        }
        qualifier = _ALIAS
    resource = name | {"Resource": f"{invocation.function}:{qualifier}"}
    places = [name, resource]
    if invocation.through_url:
        places.append(resource | {"ExecutedVersion": invocation.version})
    data = [_datum(metric, value, place) for metric, value in values.items() for place in places]
    aws.client("cloudwatch").put_metric_data(Namespace="AWS/Lambda", MetricData=data)


def _datum(metric: str, value: Any, dimensions: dict[str, Any]) -> dict[str, Any]:
    return {
        "MetricName": metric,
        "Values": [float(v) for v in (value if isinstance(value, list) else [value])],
        "Dimensions": [{"Name": key, "Value": str(given)} for key, given in dimensions.items()],
    }
