"""Test what the command reads from CloudWatch, against botocore's stubs of its API."""

import json
from datetime import UTC, datetime

import pytest

from operations.cost.endpoint_metrics import observe
from operations.cost.errors import CostError
from tests.cloudwatch_session import CloudWatchSession

NOW = datetime(2026, 11, 22, 14, 44, tzinfo=UTC)
FUNCTION = "EmbeddingKit-dev-Endpoint-Function"
BY_FUNCTION = {"Name": "FunctionName", "Value": FUNCTION}


class Session(CloudWatchSession):
    """A session with the answers of an endpoint."""

    def lists(self, *functions):
        """Answer which functions write the metric; one entry has further dimensions."""
        metrics = [
            {"Namespace": "EmbeddingKit/dev", "MetricName": "Requests", "Dimensions": dimensions}
            for name in functions
            for dimensions in (
                [{"Name": "FunctionName", "Value": name}],
                [{"Name": "FunctionName", "Value": name}, {"Name": "Version", "Value": "7"}],
            )
        ]
        self.stub.add_response(
            "list_metrics",
            {"Metrics": metrics},
            {"Namespace": "EmbeddingKit/dev", "MetricName": "Requests"},
        )

    def answers(self, **values):
        """Answer with values of each metric by its id, on two pages."""
        results = [
            {"Id": name, "Label": name, "Values": hours, "Timestamps": [], "StatusCode": "Complete"}
            for name, hours in values.items()
        ]
        self.stub.add_response(
            "get_metric_data", {"MetricDataResults": results[:3], "NextToken": "2"}
        )
        self.stub.add_response("get_metric_data", {"MetricDataResults": results[3:]})


@pytest.fixture
def session():
    return Session()


def read(session, days=1):
    return observe(session, "dev", region="eu-central-1", days=days, now=NOW)


MEASURED = {
    "requests": [100.0, 300.0],
    "cold_starts": [1.0, 3.0],
    "tokens": [20_000.0, 40_000.0],
    "milliseconds": [10_000.0, 22_000.0],
    "invocations": [100.0, 300.0],
    "init_milliseconds": [900.0, 2700.0],
    "inits": [1.0, 3.0],
}


def test_requests_durations_and_cold_starts_are_those_of_the_endpoint(session):
    """400 requests in two of 24 hours, of 150 tokens and 80 ms; 1% met a cold start of 0.9 s."""
    session.lists(FUNCTION)
    session.answers(**MEASURED)
    found = read(session)
    assert found.traffic.requests == pytest.approx(400 / 24 * 730)
    assert found.traffic.tokens == 150
    assert found.seconds == pytest.approx(0.080)
    assert found.cold_share == pytest.approx(0.01)
    assert found.init_seconds == pytest.approx(0.9)
    loads = {load.multiple: load.share for load in found.traffic.loads}
    assert loads == pytest.approx({0.0: 22 / 24, 6.0: 1 / 24, 18.0: 1 / 24})
    session.stub.assert_no_pending_responses()


def test_each_metric_is_asked_for_where_the_kit_writes_it(session):
    """By function in the environment's namespace, of the alias in Lambda's, for whole hours."""
    session.lists(FUNCTION)
    asked = {}
    session.client.meta.events.register(
        "before-parameter-build.cloudwatch.GetMetricData", lambda params, **_: asked.update(params)
    )
    session.answers(**MEASURED)
    read(session, days=14)
    queries = {query["Id"]: query["MetricStat"] for query in asked["MetricDataQueries"]}
    assert asked["EndTime"] == datetime(2026, 11, 22, 14, tzinfo=UTC)
    assert asked["StartTime"] == datetime(2026, 11, 8, 14, tzinfo=UTC)
    assert queries["cold_starts"] == {
        "Metric": {
            "Namespace": "EmbeddingKit/dev",
            "MetricName": "ColdStarts",
            "Dimensions": [BY_FUNCTION],
        },
        "Period": 3600,
        "Stat": "Sum",
    }
    assert queries["milliseconds"]["Metric"] == {
        "Namespace": "AWS/Lambda",
        "MetricName": "Duration",
        "Dimensions": [BY_FUNCTION, {"Name": "Resource", "Value": f"{FUNCTION}:live"}],
    }
    assert queries["inits"]["Metric"]["Dimensions"] == []
    assert queries["inits"]["Stat"] == "SampleCount"


def test_the_observed_duration_is_the_duration_of_the_forecast(cost, session, monkeypatch):
    """At the environment's own memory; and the measured share of cold starts is billed."""
    session.lists(FUNCTION)
    session.answers(**MEASURED)
    found = read(session)
    monkeypatch.setattr("operations.cost.command._observe", lambda *_: found)
    answer = json.loads(cost("dev", "--json", "--from-endpoint")[1])
    assert answer["seconds"] == pytest.approx(0.080)
    assert answer["times"] == "the deployed endpoint, 1 days"
    assert answer["cold_start_share"]["method"] == "measured"
    assert answer["cold_start_share"]["highest"] == pytest.approx(0.01)
    _, out, _, _ = cost("dev", "--from-endpoint")
    assert "cold starts: 1% of requests, as measured" in out


@pytest.mark.parametrize(("functions", "found"), [((), "none"), (("old", "new"), "new, old")])
def test_the_environments_function_must_be_known(session, functions, found):
    """One function has written to the environment's namespace in the last two weeks."""
    session.lists(*functions)
    with pytest.raises(CostError, match=f"EmbeddingKit/dev; found: {found}; allowed: one"):
        read(session)


def test_an_endpoint_without_requests_is_an_error(session):
    """Nothing can be forecast from it."""
    session.lists(FUNCTION)
    session.answers(**{name: [] for name in MEASURED})
    with pytest.raises(CostError, match="dev had no requests in the last 24 hours"):
        read(session)


def test_a_missing_permission_is_an_error(session):
    """With the words of AWS."""
    session.stub.add_client_error("list_metrics", "AccessDenied", "not authorized to ListMetrics")
    with pytest.raises(CostError, match=r"CloudWatch cannot be read: .*not authorized"):
        read(session)


def test_more_days_than_cloudwatch_lists_are_refused(cost, capsys):
    """Two weeks; and a trace is another source."""
    with pytest.raises(SystemExit):
        cost("dev", "--from-endpoint", "--days", "15")
    assert "found: 15; allowed: 1 to 14" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cost("dev", "--from-endpoint", "--trace", "arrivals.csv")
    assert "not allowed with argument" in capsys.readouterr().err
