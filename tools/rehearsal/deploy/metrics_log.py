"""The metrics of functions: embedded metrics in log lines, and Lambda's own metrics."""

import io
import json
from typing import Any

from tools.rehearsal.deploy.emulator import Emulator
from tools.rehearsal.deploy.function import Invocation

__all__ = ["MetricsLog", "count_invocation"]

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
        if '"_aws"' in line:
            record = json.loads(line[line.index("{") :])
            for directive in record["_aws"]["CloudWatchMetrics"]:
                data = _data(record, directive)
                self._aws.client("cloudwatch").put_metric_data(
                    Namespace=directive["Namespace"], MetricData=data
                )
        return len(line)


def _data(record: dict[str, Any], directive: dict[str, Any]) -> list[dict[str, Any]]:
    data = []
    for names in directive["Dimensions"]:
        dimensions = [{"Name": name, "Value": str(record[name])} for name in names]
        for metric in directive["Metrics"]:
            value = record[metric["Name"]]
            data.append(
                {
                    "MetricName": metric["Name"],
                    "Dimensions": dimensions,
                    "Values": [float(v) for v in (value if isinstance(value, list) else [value])],
                }
            )
    return data


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
    name = {"FunctionName": invocation.function}
    resource = {"Resource": f"{invocation.function}:{invocation.version}"}
    places = [name, name | resource]
    if invocation.through_url:
        values |= {
            "UrlRequestCount": 1.0,
            "Url4xxCount": float(400 <= status < 500),
            "Url5xxCount": float(status >= 500),
        }
        resource = {"Resource": f"{invocation.function}:{_ALIAS}"}
        executed = {"ExecutedVersion": invocation.version}
        places = [name, name | resource, name | resource | executed]
    data = [
        {
            "MetricName": metric,
            "Value": value,
            "Dimensions": [{"Name": key, "Value": place[key]} for key in place],
        }
        for metric, value in values.items()
        for place in places
    ]
    aws.client("cloudwatch").put_metric_data(Namespace="AWS/Lambda", MetricData=data)
