"""The cost of requests, and the budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedding_costs.duration import Speed, billed_seconds, core_seconds
from embedding_costs.extras import LOG_BYTES
from embedding_costs.lambda_options import LambdaUsage, on_demand, snapstart
from embedding_kit.prices import load_prices
from embedding_load.bill import bill_of
from embedding_load.limits import Budget
from embedding_load.outcomes import Kind, Outcome

PRICES = load_prices("us-east-1")
SPEED = Speed(points=((32, 10.0), (256, 60.0)), source="a test")


def bill(*, restores=False):
    return bill_of(PRICES, speed=SPEED, memory_mb=2048, threads=1, timeout=30.0, restores=restores)


def outcome(kind=Kind.OK, *, service=0.1, counted=128, cold=False):
    return Outcome(kind, 200, 0.0, 0.0, 0.0, service, 128, counted, cold)


def usage(requests, *, cold=0.0):
    seconds = billed_seconds(core_seconds(SPEED, 128), memory_mb=2048, threads=1)
    return LambdaUsage(requests=requests, seconds=seconds, memory_mb=2048, cold_starts=cold)


def test_a_million_requests_cost_what_the_cost_command_says():
    """Lambda's bill, and $1 of logs."""
    expected = on_demand(PRICES, usage(1e6)).usd + 0.5 * LOG_BYTES / 1e3
    assert 1e6 * bill().planned(128) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("restores", [False, True])
def test_a_cold_start_costs_an_initialization_or_a_restore(restores):
    """As the cost command prices it."""
    with_one, without = (
        snapstart(PRICES, usage(1, cold=cold), versions=0)
        if restores
        else on_demand(PRICES, usage(1, cold=cold))
        for cold in (1, 0)
    )
    made = bill(restores=restores)
    assert made.of(outcome(cold=True)).estimate - made.of(outcome()).estimate == pytest.approx(
        with_one.usd - without.usd
    )


def test_the_estimate_is_by_the_tokens_that_the_endpoint_counted():
    """And by those asked for only without an answer."""
    made = bill()
    assert made.of(outcome(counted=256)).estimate == made.planned(256)
    assert made.of(outcome(Kind.FAILED, counted=0)).estimate == made.planned(128)


def test_api_gateway_is_paid_by_request():
    """$3.50 a million, beside Lambda."""
    in_front = bill_of(PRICES, speed=SPEED, memory_mb=2048, threads=1, timeout=30.0, gateway=True)
    assert 1e6 * (in_front.planned(128) - bill().planned(128)) == pytest.approx(3.5)


@pytest.mark.parametrize("kind", [Kind.THROTTLED, Kind.REFUSED, Kind.UNSENT])
def test_what_did_not_run_the_function_is_not_billed(kind):
    """AWS bills invocations, and a throttled request is none."""
    assert bill().of(outcome(kind, service=20)).bound == 0


@pytest.mark.parametrize("kind", [Kind.TIMEOUT, Kind.UNANSWERED])
def test_what_got_no_answer_may_run_until_the_functions_timeout(kind):
    """Giving up does not stop the function: 30 s of 2 GB are $0.0008."""
    assert bill().of(outcome(kind, service=1.0)).bound == pytest.approx(0.0008, rel=0.01)


@given(st.sampled_from(Kind), st.floats(0, 100), st.integers(1, 2048), st.booleans())
def test_the_estimate_is_never_above_the_upper_bound(kind, service, counted, cold):
    """Also where the model takes a request for slower than it was."""
    cost = bill().of(outcome(kind, service=service, counted=counted, cold=cold))
    assert 0 <= cost.estimate <= cost.bound


@given(
    st.lists(st.tuples(st.floats(0.01, 2), st.integers(1, 400)), max_size=200),
    st.floats(1e-5, 5e-3),
    st.integers(1, 20),
)
def test_a_budget_is_kept(requests, usd, at_once):
    """Up to so many requests under way, of which each may be slower than all before."""
    budget, made = Budget(usd, bill()), bill()
    under_way: list[tuple[float, Outcome]] = []
    largest = 0.0
    for service, tokens in requests:
        if len(under_way) == at_once:
            budget.settle(*under_way.pop(0))
        amount = budget.reserve(tokens)
        if amount is None:
            break
        ended = outcome(service=service, counted=tokens)
        largest = max(largest, made.of(ended).bound)
        under_way.append((amount, ended))
    for amount, ended in under_way:
        budget.settle(amount, ended)
    assert budget.spent.bound <= usd + at_once * largest


def test_requests_of_one_length_never_exceed_the_budget():
    """The reserve of each is at least what it costs once the first has ended."""
    budget = Budget(0.001, bill())
    sent = 0
    while (amount := budget.reserve(128)) is not None:
        budget.settle(amount, outcome(service=0.1))
        sent += 1
    assert sent > 100
    assert 0.0009 < budget.spent.bound <= 0.001


def test_a_server_has_no_bill():
    """It is paid by the hour, so that nothing ends the test."""
    budget = Budget(0.001, None)
    assert budget.reserve(10**6) == 0
    budget.settle(0.0, outcome(service=1e6))
    assert budget.spent.bound == 0
