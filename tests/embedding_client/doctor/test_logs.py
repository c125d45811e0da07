"""The logs' format and retention, metrics, traces."""

import pytest

from embedding_client.doctor.findings import SkippedError, State
from embedding_client.doctor.logs import (
    check_format,
    check_metrics,
    check_retention,
    check_traces,
    judge_format,
    judge_metrics,
    judge_retention,
    judge_traces,
)

from .conftest import deployed

GROUP = "/aws/group"


def configured(aws, **more):
    deployed(aws)
    logging = {"LogFormat": "JSON", "SystemLogLevel": "INFO", "LogGroup": GROUP}
    aws.answers("lambda", "get_function_configuration", {"LoggingConfig": logging, **more})


@pytest.mark.parametrize(
    ("logging", "state"),
    [
        ({"LogFormat": "JSON", "SystemLogLevel": "INFO"}, State.OK),
        ({"LogFormat": "JSON", "SystemLogLevel": "DEBUG"}, State.OK),
        ({"LogFormat": "JSON", "SystemLogLevel": "WARN"}, State.ILL),
        ({"LogFormat": "Text"}, State.ILL),
        ({}, State.ILL),
    ],
)
def test_the_alarms_need_json_at_info(logging, state):
    """Their metrics are made from the platform's records."""
    found = judge_format(logging, "dev")
    assert found.state == state
    assert ("no data" in found.found) == (state == State.ILL)


@pytest.mark.parametrize(
    ("group", "state", "words"),
    [
        ({"retentionInDays": 7}, State.OK, "7 days"),
        ({}, State.WARNING, "logs are kept forever, and billed"),
        (None, State.ILL, f"the log group {GROUP} does not exist"),
    ],
)
def test_the_retention(group, state, words):
    """A group that was deleted is ill."""
    found = judge_retention(group, name=GROUP, environment="dev")
    assert (found.state, found.found) == (state, words)


def test_the_group_is_the_functions(aws, facts):
    """Not another one with the same beginning."""
    configured(aws)
    groups = [
        {"logGroupName": f"{GROUP}2", "retentionInDays": 1},
        {"logGroupName": GROUP, "retentionInDays": 30},
    ]
    asked = {"logGroupNamePrefix": GROUP}
    aws.answers("logs", "describe_log_groups", {"logGroups": groups}, asked)
    assert check_retention(facts()).found == "30 days"
    configured(aws)
    assert check_format(facts()).found == "JSON, system log level INFO"


@pytest.mark.parametrize(
    ("names", "state", "words"),
    [
        ({"Requests", "MaxMemoryUsed"}, State.OK, "2 metrics in Kit/dev"),
        (set(), State.WARNING, "no requests in Kit/dev in the last three hours"),
        (
            {"Requests"},
            State.WARNING,
            "Kit/dev has the embedder's metrics, but none from Lambda's platform logs",
        ),
    ],
)
def test_the_metrics_are_of_both_kinds(names, state, words):
    """Those of the embedder, and those of metric filters."""
    found = judge_metrics(names, "Kit/dev")
    assert (found.state, found.found) == (state, words)


def test_the_namespace_is_a_variable_of_the_function(aws, facts):
    """Without the permission to read variables, it is unknown."""
    configured(aws, Environment={"Variables": {"EMBEDDING_METRICS_NAMESPACE": "Kit/dev"}})
    asked = {"Namespace": "Kit/dev", "RecentlyActive": "PT3H"}
    aws.answers("cloudwatch", "list_metrics", {"Metrics": [{"MetricName": "Requests"}]}, asked)
    assert check_metrics(facts()).state == State.WARNING
    configured(aws)
    with pytest.raises(SkippedError, match="no permission to read the function's variables"):
        check_metrics(facts())


def test_traces(aws, facts):
    """Only with tracing."""
    configured(aws, TracingConfig={"Mode": "Active"})
    aws.answers("xray", "get_trace_summaries", {"TraceSummaries": [{"Id": "1"}]})
    found = check_traces(facts())
    assert (found.state, found.found) == (State.OK, "1 or more in six hours")
    assert judge_traces(0).state == State.WARNING
    configured(aws)
    with pytest.raises(SkippedError, match="tracing is off"):
        check_traces(facts())
