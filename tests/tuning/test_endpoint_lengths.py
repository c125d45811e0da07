"""Test the lengths that CloudWatch has, against botocore's stub of its API."""

from datetime import UTC, datetime, timedelta

import pytest
from botocore.stub import ANY

from tests.cloudwatch_session import CloudWatchSession
from tuning.endpoint_lengths import endpoint_workload
from tuning.errors import TuneError
from tuning.workload import Length

NOW = datetime(2026, 11, 22, 14, 44, tzinfo=UTC)
DAYS = [NOW - timedelta(days=2), NOW - timedelta(days=1)]


class Session(CloudWatchSession):
    """A session with the answers of an endpoint."""

    def answers(self, **values):
        """Answer with a value of each day, on two pages."""
        results = [
            {
                "Id": name,
                "Label": name,
                "Values": days,
                "Timestamps": DAYS[: len(days)],
                "StatusCode": "Complete",
            }
            for name, days in values.items()
        ]
        asked = {
            "MetricDataQueries": ANY,
            "StartTime": datetime(2026, 11, 8, 14, tzinfo=UTC),
            "EndTime": datetime(2026, 11, 22, 14, tzinfo=UTC),
        }
        first = {"MetricDataResults": results[:2], "NextToken": "2"}
        self.stub.add_response("get_metric_data", first, asked)
        self.stub.add_response(
            "get_metric_data", {"MetricDataResults": results[2:]}, {**asked, "NextToken": "2"}
        )


@pytest.fixture
def session():
    return Session()


def read(session):
    return endpoint_workload(session, "dev", "embedder", region="eu-central-1", now=NOW)


def test_percentiles_of_days_are_averaged_by_requests(session):
    """A day with three times the requests counts three times."""
    session.answers(
        p50=[40.0, 80.0],
        p90=[100.0, 100.0],
        p99=[400.0, 1000.0],
        requests=[100.0, 300.0],
        texts=[200.0, 600.0],
    )
    workload = read(session)
    assert workload.lengths == (Length(70, 0.70), Length(100, 0.245), Length(850, 0.055))
    assert workload.texts == 2
    assert "p50, p90 and p99 of the endpoint's own requests, 14 days" in workload.source


def test_equal_percentiles_are_one_length(session):
    """Their shares add up."""
    session.answers(p50=[64.0], p90=[64.0], p99=[90.0], requests=[10.0], texts=[10.0])
    lengths = read(session).lengths
    assert [length.tokens for length in lengths] == [64, 90]
    assert lengths[0].share == pytest.approx(0.945)


def test_an_endpoint_without_requests_asks_for_lengths(session):
    """The error names the option."""
    session.answers(p50=[], p90=[], p99=[], requests=[], texts=[])
    with pytest.raises(TuneError, match=r"dev has embedded nothing .* --tokens 32,128,512"):
        read(session)
