"""Test an endpoint's cost, computed with the expression that the dashboard shows."""

import re

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_cloudwatch as cloudwatch

from embedding_kit import EmbeddingEndpoint, Provisioned, SnapStart
from embedding_kit.monitoring.dashboard import cost_per_million_rows, endpoint_cost
from embedding_kit.prices import load_prices

PRICES = load_prices()


@pytest.fixture(scope="session")
def metrics(model):
    return EmbeddingEndpoint(Stack(App(), "Stack"), "Endpoint", model=model).metrics


def _value(expression: cloudwatch.MathExpression, **values: float) -> float:
    """Compute a metric math expression over one minute, as CloudWatch would."""
    python = re.sub(r"IF\((\w+) > 0, (.*)\)$", r"(\2) if \1 > 0 else None", expression.expression)
    python = re.sub(r"FILL\((\w+), 0\)", r"\1", python)
    python = re.sub(r"PERIOD\(\w+\)", "60", python)
    assert re.fullmatch(r"[\w\s.+*/()<>=]*", python), python
    return eval(python, {"__builtins__": {}}, values)


def test_a_million_requests_of_280_ms_at_2_gb_cost_7_dollars_47(metrics):
    """A million requests cost 2 GB x 0.28 s x 1M x $0.0000133334, and $0.20 per million."""
    thousand = endpoint_cost(metrics, memory_mb=2048, cold_start=None, prices=PRICES).per_thousand
    cost = _value(thousand, billed=280.0 * 1_000_000, requests=1_000_000, texts=1_000_000)
    assert cost * 1000 == pytest.approx(7.467 + 0.20, abs=0.001)


def test_batches_make_an_embedding_cheaper(metrics):
    """The cost is divided by the number of embeddings, not of requests."""
    thousand = endpoint_cost(metrics, memory_mb=2048, cold_start=None, prices=PRICES).per_thousand
    single = _value(thousand, billed=6000.0, requests=100, texts=100)
    batched = _value(thousand, billed=6000.0, requests=100, texts=1600)
    assert single / batched == pytest.approx(16)


def test_what_is_kept_ready_is_paid_while_nothing_runs(metrics):
    """Two environments of 1 GB are billed for an hour; duration in one has a price of its own."""
    rate = endpoint_cost(metrics, memory_mb=1024, cold_start=Provisioned(), prices=PRICES).per_hour
    provisioned = 2 * 3600 * PRICES["lambda_provisioned"].usd
    assert _value(rate, billed=0.0, requests=0, ready=2) == pytest.approx(provisioned, rel=1e-4)
    busy = 3600 * PRICES["lambda_provisioned_duration"].usd
    assert _value(rate, billed=60_000.0, requests=0, ready=0) == pytest.approx(busy, rel=1e-4)


def test_a_snapshot_is_paid_while_nothing_runs_and_each_restore(metrics):
    """That of a 2 GB version costs $7.91 for a month of 730 hours, and a restore $0.00028."""
    rate = endpoint_cost(metrics, memory_mb=2048, cold_start=SnapStart(), prices=PRICES).per_hour
    idle, ten = (_value(rate, billed=0.0, requests=0, restores=count) for count in (0, 10))
    assert idle * 730 == pytest.approx(7.91, abs=0.01)
    assert (ten - idle) / 60 == pytest.approx(10 * 0.00028, rel=0.002)


def test_a_million_rows_are_paid_to_lambda_and_to_step_functions(metrics):
    """2 GB of Lambda and 64 MB of Step Functions for 1,000 seconds, and 250 requests of both."""
    unused = metrics.of_embedder("Texts", "Sum")
    million = cost_per_million_rows(
        rows=unused, duration=unused, requests=unused, memory_mb=2048, prices=PRICES
    )
    cost = _value(million, rows=500_000, duration=500_000.0, requests=125)
    seconds = 1000 * (2 * 0.0000133334 + 64 / 1024 * 0.0000166667)
    assert cost == pytest.approx(seconds + 250 * (0.20e-6 + 1e-6), rel=1e-6)
