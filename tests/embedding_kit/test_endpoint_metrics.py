"""Test the metric filters on real records, and that every metric has a writer."""

import json
from pathlib import Path
from typing import Any

import jmespath
import pytest
from aws_json_term_matcher.exceptions import MatchingError
from aws_json_term_matcher.matcher import match

from tests.embedding_kit.roles import of_kind

RECORDS = Path(__file__).with_name("records")


@pytest.fixture(scope="session")
def found(endpoint_template):
    """Return the values that the template's filters extract from a log event, by metric name."""
    filters = of_kind(endpoint_template(), "AWS::Logs::MetricFilter")

    def ask(line: str) -> dict[str, float]:
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            return {}  # A JSON pattern matches nothing in a line that is not JSON.
        return {
            transformation["MetricName"]: jmespath.search(
                transformation["MetricValue"].removeprefix("$."), event
            )
            for properties in filters
            if _matches(properties["FilterPattern"], event)
            for transformation in properties["MetricTransformations"]
        }

    return ask


def _matches(pattern: str, event: Any) -> bool:
    try:
        return bool(match(event, pattern))
    except MatchingError as error:
        # CloudWatch finds no match if a compared field is missing; the matcher reports it this way.
        if "'NoneType'" in str(error):
            return False
        raise


DOCUMENTED = (RECORDS / "documented.jsonl").read_text().splitlines()


@pytest.mark.parametrize(
    ("line", "metrics"),
    list(
        zip(
            DOCUMENTED,
            [
                {"InitDuration": 397.68, "MaxMemoryUsed": 84, "BilledDuration": 694},
                {"MaxMemoryUsed": 84, "BilledDuration": 694},
                {"RestoreDuration": 512.3, "MaxMemoryUsed": 84, "BilledDuration": 694},
                {},
                {"ProvisionedInitDuration": 125.33},
                {},
            ],
            strict=True,
        )
    ),
    ids=["cold", "warm", "restored", "init on demand", "init provisioned", "init snapshot"],
)
def test_each_record_gives_the_metrics_it_should(found, line, metrics):
    """Every kind of start is counted once, under its own name and with its own value."""
    assert found(line) == metrics


@pytest.mark.parametrize("line", (RECORDS / "emulator.txt").read_text().splitlines())
def test_text_records_give_no_metric(found, line):
    """The filters need JSON logs: a text record gives no metric."""
    assert found(line) == {}


def test_the_embedders_own_records_give_no_platform_metric(found):
    """A handler that writes fields of the same names cannot forge the platform's metrics."""
    line = {"type": "request", "record": {"metrics": {"initDurationMs": 5, "billedDurationMs": 1}}}
    assert found(json.dumps(line)) == {}


def test_filters_write_to_the_endpoints_own_namespace(endpoint_template):
    """Two endpoints of an account do not mix their cold starts."""
    (one,) = _namespaces(endpoint_template(name="one"))
    (two,) = _namespaces(endpoint_template(name="two"))
    assert (one, two) == ("EmbeddingKit/one", "EmbeddingKit/two")


def _namespaces(template: Any) -> set[str]:
    return {
        transformation["MetricNamespace"]
        for metric_filter in of_kind(template, "AWS::Logs::MetricFilter")
        for transformation in metric_filter["MetricTransformations"]
    }
