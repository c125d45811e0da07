"""Test the dashboard, and that every metric of a widget or an alarm is written."""

import contextlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Template

from embedder.core.settings import EmbedderSettings
from embedder.http.telemetry import UNITS, VERSION_UNITS, RequestRecord, Telemetry
from embedding_kit import (
    AlarmSettings,
    AlarmTopic,
    EmbeddingEndpoint,
    EndpointAlarms,
    EndpointDashboard,
    Provisioned,
    SnapStart,
)
from tests.embedding_kit.endpoints import once
from tests.embedding_kit.roles import of_kind, only

#: Metrics that AWS Lambda writes and the CDK has no method for, with their dimensions.
#: https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html
#: https://docs.aws.amazon.com/lambda/latest/dg/urls-monitoring.html
FUNCTION = frozenset({"FunctionName"})
RESOURCE = frozenset({"FunctionName", "Resource"})
VERSION = frozenset({"FunctionName", "Resource", "ExecutedVersion"})
DOCUMENTED = {
    "ConcurrentExecutions": {frozenset(), FUNCTION, RESOURCE},
    "ProvisionedConcurrentExecutions": {FUNCTION, RESOURCE},
    "ProvisionedConcurrencySpilloverInvocations": {FUNCTION, RESOURCE},
    "ProvisionedConcurrencyUtilization": {FUNCTION, RESOURCE},
    "Url4xxCount": {FUNCTION, RESOURCE},
    "Url5xxCount": {FUNCTION, RESOURCE},
    "UrlRequestCount": {FUNCTION, RESOURCE},
    "UrlRequestLatency": {FUNCTION, RESOURCE},
}


@dataclass(frozen=True)
class Seen:
    """A metric as an alarm or a widget names it."""

    namespace: str
    name: str
    dimensions: frozenset[str]


@pytest.fixture(scope="session")
def template(synthesize, model):
    """Return the template of an endpoint with alarms and dashboard."""

    @once
    def make(cold_start=None, *disabled: str) -> Template:
        def build(stack: Stack) -> None:
            endpoint = EmbeddingEndpoint(
                stack,
                "Endpoint",
                model=model,
                cold_start=cold_start,
                alarms=AlarmSettings.model_validate({"expected_traffic_interval": "1h"}),
                name="test",
            )
            topic = AlarmTopic(stack, "Notices").topic
            alarms = EndpointAlarms(
                stack, "Alarms", endpoint=endpoint, topic=topic, disabled=disabled
            )
            EndpointDashboard(stack, "Dashboard", endpoint=endpoint, alarms=alarms)

        return synthesize(build)

    return make


@pytest.fixture(params=[None, Provisioned(), SnapStart()], ids=["demand", "provisioned", "snap"])
def watching(request, template) -> Template:
    return template(request.param)


def _widgets(template: Template) -> list[dict[str, Any]]:
    pieces = only(template, "AWS::CloudWatch::Dashboard")["DashboardBody"]["Fn::Join"][1]
    text = "".join(piece if isinstance(piece, str) else "token" for piece in pieces)
    return json.loads(text)["widgets"]


def _on_widgets(template: Template) -> Iterator[Seen]:
    for widget in _widgets(template):
        for entry in widget["properties"].get("metrics", []):
            if isinstance(entry[0], str):
                names = [word for word in entry[2:] if isinstance(word, str)]
                yield Seen(entry[0], entry[1], frozenset(names[::2]))


def _in_alarms(template: Template) -> Iterator[Seen]:
    for alarm in of_kind(template, "AWS::CloudWatch::Alarm"):
        for metric in (
            entry["MetricStat"]["Metric"]
            for entry in alarm.get("Metrics", [{"MetricStat": {"Metric": alarm}}])
            if "MetricStat" in entry
        ):
            dimensions = {dimension["Name"] for dimension in metric.get("Dimensions", [])}
            yield Seen(metric["Namespace"], metric["MetricName"], frozenset(dimensions))


@pytest.fixture(scope="session")
def canned() -> set[str]:
    """Return the metric names of the CDK's own methods on a function."""
    function = lambda_.Function.from_function_name(Stack(App(), "Stack"), "Function", "f")
    methods = ("duration", "errors", "invocations", "throttles")
    metrics: list[cloudwatch.Metric] = [getattr(function, f"metric_{name}")() for name in methods]
    return {metric.metric_name for metric in metrics}


@pytest.fixture(scope="session")
def emitted() -> set[Seen]:
    """Return the metrics that the embedder writes; some requests have not all of them."""
    settings = EmbedderSettings(artifact=Path(), metrics_namespace="EmbeddingKit/test")
    with contextlib.redirect_stdout(io.StringIO()) as written:
        Telemetry(settings).write(RequestRecord("request-1"))
    directives = json.loads(written.getvalue().splitlines()[1])["_aws"]["CloudWatchMetrics"]
    return {
        Seen(directive["Namespace"], name, frozenset(dimensions))
        for directive, units in zip(directives, (UNITS, VERSION_UNITS), strict=True)
        for dimensions in directive["Dimensions"]
        for name in units
    }


def _filtered(template: Template) -> set[Seen]:
    return {
        Seen(transformation["MetricNamespace"], transformation["MetricName"], frozenset())
        for metric_filter in of_kind(template, "AWS::Logs::MetricFilter")
        for transformation in metric_filter["MetricTransformations"]
    }


def test_every_metric_that_is_read_is_written(watching, canned, emitted):
    """A widget on a metric that does not exist would stay blank and look like no traffic."""
    read = {*_on_widgets(watching), *_in_alarms(watching)}
    written = emitted | _filtered(watching)
    for name in canned:
        written |= {
            Seen("AWS/Lambda", name, dimensions) for dimensions in (FUNCTION, RESOURCE, VERSION)
        }
    for name, dimensions in DOCUMENTED.items():
        written |= {Seen("AWS/Lambda", name, keys) for keys in dimensions}
    assert len(read) > 20
    assert read - written == set()


def test_an_alarm_on_p99_has_its_line_unless_it_is_disabled(template):
    """Without the alarm it would be misleading."""
    without = template(None, "InitDurationP99", "DurationP99")
    lines = {
        widget["properties"]["title"]: line["value"]
        for widget in _widgets(without)
        for line in widget["properties"].get("annotations", {}).get("horizontal", [])
    }
    assert lines == {"Concurrent executions": 1000, "Memory, MB": 2048}


def test_widgets_lie_side_by_side_and_do_not_overlap(watching):
    """All widgets fit the 24 columns of CloudWatch's grid, and none overlaps another."""
    taken: set[tuple[int, int]] = set()
    for widget in _widgets(watching):
        cells = {
            (x, y)
            for x in range(widget["x"], widget["x"] + widget["width"])
            for y in range(widget["y"], widget["y"] + widget["height"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken
        taken |= cells
    assert taken
