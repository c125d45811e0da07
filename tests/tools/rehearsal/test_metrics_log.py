"""Metrics of functions are published to the emulated AWS."""

import json
import time
from typing import Any

from tools.rehearsal.deploy.function import Invocation
from tools.rehearsal.deploy.metrics_log import MetricsLog, count_invocation


def dimensions_of(aws: Any, namespace: str, name: str) -> list[dict[str, str]]:
    """List the dimensions under which there is a metric."""
    found = aws.client("cloudwatch").list_metrics(Namespace=namespace, MetricName=name)["Metrics"]
    return [{d["Name"]: d["Value"] for d in metric["Dimensions"]} for metric in found]


def test_embedded_metrics_of_a_log_line_are_published(aws):
    """For each set of dimensions. Other lines are ignored."""
    record = {
        "_aws": {
            "Timestamp": int(time.time() * 1000),
            "CloudWatchMetrics": [
                {
                    "Namespace": "Kit/logged",
                    "Dimensions": [["FunctionName"], ["FunctionName", "Version"]],
                    "Metrics": [{"Name": "Requests"}],
                }
            ],
        },
        "FunctionName": "f",
        "Version": 3,
        "Requests": [1, 2],
    }
    log = MetricsLog(aws)
    log.write("a line\n")
    log.write(json.dumps(record) + "\n")
    assert dimensions_of(aws, "Kit/logged", "Requests") == [
        {"FunctionName": "f"},
        {"FunctionName": "f", "Version": "3"},
    ]


def test_lambda_counts_by_function_alias_and_version(aws):
    """A request through the URL also counts in the alias's metrics."""
    event = json.dumps({"requestContext": {"domainName": "d"}}).encode()
    invocation = Invocation(function="counted", version="7", event=event, credentials={})
    count_invocation(aws, invocation, status=502, milliseconds=3)
    name, resource = {"FunctionName": "counted"}, {"Resource": "counted:live"}
    places = [name, name | resource, name | resource | {"ExecutedVersion": "7"}]
    for metric in ("Errors", "Url5xxCount"):
        found = dimensions_of(aws, "AWS/Lambda", metric)
        assert [d for d in found if d["FunctionName"] == "counted"] == places
