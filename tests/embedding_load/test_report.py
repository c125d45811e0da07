"""The table, the live table and the picture of a finished test."""

import itertools
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from embedding_costs.duration import Speed
from embedding_kit.prices import load_prices
from embedding_kit.settings import FunctionSettings
from embedding_load.arguments import parse
from embedding_load.assumptions import Assumptions
from embedding_load.bill import Cost, bill_of
from embedding_load.forecast import forecast
from embedding_load.live import Moment, as_line, as_lines
from embedding_load.outcomes import Kind, Outcome
from embedding_load.picture import as_svg
from embedding_load.schedule import plan
from embedding_load.sender import End
from embedding_load.statistics import spread
from embedding_load.summary import Endpoint, summarize
from embedding_load.table import as_table, usd
from tests.embedding_costs.svg_text import boxes, check_readable

SPEED = Speed(points=((32, 10.0), (256, 60.0)), source="a test")
PRICES = load_prices()
FUNCTION = FunctionSettings()
BILL = bill_of(
    PRICES,
    speed=SPEED,
    memory_mb=FUNCTION.memory_mb,
    threads=None,
    timeout=30.0,
)
ASSUMED = Assumptions(bill=BILL, speed=SPEED, function=FUNCTION, prices=PRICES, provisioned=False)


def summary(*, rate=20.0, seconds=60.0, shape="diurnal", outcome=None, assumed=ASSUMED, **changes):
    """Return the result of a test whose outcomes a function makes from due time and tokens."""
    made = outcome or ok
    traffic = plan(rate=rate, shape=shape, seconds=seconds, tokens=(8, 400), most=10**5, seed=0)
    outcomes = [
        made(n, due, tokens)
        for n, (due, tokens) in enumerate(
            zip(traffic.due.tolist(), traffic.tokens.tolist(), strict=True)
        )
    ]
    outcomes = [each for each in outcomes if each is not None]
    cost = sum((BILL.of(each) for each in outcomes), Cost())
    result = summarize(
        parse(["--url", "http://127.0.0.1:9"]),
        Endpoint(
            url="https://abcdefghijklmnopqrstuvwxyz012345.lambda-url.eu-central-1.on.aws/",
            model="sentence-transformers/paraphrase-multilingual-mpnet-base-v2",
            vector_space="m@1",
            cold=True,
            longest=512,
        ),
        traffic,
        outcomes,
        end=End.TIME,
        cost=cost if assumed else None,
        basis=BILL.basis,
        forecast=forecast(traffic, outcomes, assumed) if assumed else None,
    )
    return replace(result, **changes)


def ok(n, due, tokens, *, cold=False, seconds=None):
    seconds = BILL.seconds(tokens) + 0.01 if seconds is None else seconds
    return Outcome(Kind.OK, 200, due, due, due, due + seconds, tokens, tokens + 3, cold)


def mixed(n, due, tokens):
    """Cold starts at the beginning, a stall, throttles and errors."""
    if n < 5:
        return ok(n, due, tokens, cold=True, seconds=1.4)
    if 20 < due < 24:
        return ok(n, due, tokens, seconds=24 - due)
    if n % 17 == 0:
        return Outcome(Kind.THROTTLED, 429, due, due, due, due + 0.01, tokens, 0, False)
    if n % 101 == 0:
        return Outcome(Kind.TIMEOUT, 0, due, due, due, due + 60, tokens, 0, False)
    return ok(n, due, tokens)


RESULTS = {
    "mixed": lambda: summary(outcome=mixed),
    "flat": lambda: summary(shape="flat"),
    "a fast second": lambda: summary(
        rate=300, seconds=1, outcome=lambda n, due, tokens: ok(n, due, tokens, seconds=0.0004)
    ),
    "hours": lambda: summary(rate=0.02, seconds=36_000, shape="bursty"),
    "slow": lambda: summary(
        outcome=lambda n, due, tokens: ok(n, due, tokens, seconds=100 + n / 10)
    ),
    "one request": lambda: summary(
        outcome=lambda n, due, tokens: ok(n, due, tokens) if n == 0 else None
    ),
    "no answer": lambda: summary(
        outcome=lambda _, due, tokens: Outcome(
            Kind.FAILED, 500, due, due, due, due + 0.1, tokens, 0, False
        )
    ),
    "nothing sent": lambda: summary(outcome=lambda *_: None),
    "a server": lambda: summary(assumed=None),
}


@pytest.mark.parametrize("name", RESULTS)
def test_the_picture_is_well_formed_and_readable(name):
    """No text overlaps another or leaves the picture, and nothing is drawn outside."""
    picture = as_svg(RESULTS[name]())
    check_readable(picture)
    root = ET.fromstring(picture)
    width, height = map(float, root.get("viewBox").split()[2:])
    for line in root.iter("{http://www.w3.org/2000/svg}polyline"):
        for point in line.get("points").split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height
    for bar in root.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(bar.get("width")) >= 0
        assert float(bar.get("height")) >= 0


def test_the_picture_shows_percentiles_cold_starts_and_cost():
    """On light and dark backgrounds."""
    result = summary(outcome=mixed)
    picture = as_svg(result)
    texts = " ".join(text for text, _ in boxes(picture))
    assert "5 cold starts" in texts
    assert f"{result.kinds[Kind.THROTTLED]:,} throttled" in texts
    assert "99.9%" in texts
    assert f"at most {usd(result.cost.bound)}" in texts
    assert "prefers-color-scheme: dark" in picture


@pytest.mark.parametrize("name", RESULTS)
def test_the_table_counts_every_request(name):
    """Each kind has a line, and they add up."""
    result = RESULTS[name]()
    lines = as_table(result).splitlines()
    sent = next(line for line in lines if line.startswith("requests sent"))
    kinds = itertools.takewhile(lambda line: line.startswith("  "), lines[lines.index(sent) + 1 :])
    assert int(sent.split()[-1].replace(",", "")) == sum(
        int(line.split()[-1].replace(",", "")) for line in kinds
    )


def test_a_generator_that_falls_behind_is_named():
    """The endpoint is not to blame, and what to do is said."""
    late = summary(
        outcome=lambda n, due, tokens: ok(n, due, tokens)._replace(taken=due + 0.2, sent=due + 0.2)
    )
    assert "The generator fell behind: " in as_table(late)
    assert "Lower --rate" in as_table(late)
    assert "fell behind" in as_svg(late)
    missed = summary(outcome=lambda n, due, tokens: ok(n, due, tokens) if n < 100 else None)
    assert f"due, but not sent in time{len(missed.plan.due) - 100:>19,}" in as_table(missed)
    assert "late" not in as_table(summary()).replace("latency", "")


def test_a_few_late_requests_are_the_machines_other_work():
    """They are named, and the generator is not the bottleneck."""
    few = summary(
        outcome=lambda n, due, tokens: ok(n, due, tokens)._replace(taken=due + 0.02 * (n < 10))
    )
    assert "10 requests were started more than 10 ms late" in as_table(few)
    assert "fell behind" not in as_table(few) + as_svg(few)


def test_requests_that_waited_for_a_connection_are_named():
    """Their latencies contain it."""
    waited = summary(outcome=lambda n, due, tokens: ok(n, due, tokens)._replace(waited=True))
    assert "requests waited for one of the 1,000 connections" in as_table(waited)


def test_cold_starts_are_not_forecast_with_provisioned_concurrency():
    """None is expected up to its bound."""
    result = summary(assumed=replace(ASSUMED, provisioned=True))
    assert result.forecast.cold_starts is None
    assert result.forecast.month.cold_starts is None
    assert f"{'cold starts':34}{'none':>12}{0:>12}" in as_table(result)


MOMENT = Moment(
    seconds=12.0,
    planned=60.0,
    sent=240,
    waiting=3,
    answered=230,
    throttled=4,
    errors=3,
    cold_starts=2,
    rate=19.5,
    latency=spread([0.01, 0.02, 1.5]),
    usd=0.0123,
)


def test_the_live_table_shows_the_test():
    """Requests, latencies, cost; without a cost for a server."""
    assert as_lines(MOMENT) == [
        "  12 of 60 s   240 sent   3 waiting   19.5 answers a second",
        "  answered 230   throttled 4   errors 3   cold starts 2",
        "  latency in ms, lately: p50 20  p90 1,500  p99 1,500  max 1,500",
        "  cost so far: at most $0.012",
    ]
    assert len(as_lines(replace(MOMENT, usd=None))) == 3


def test_without_a_terminal_the_test_is_one_line():
    """For logs."""
    assert as_line(MOMENT) == (
        "12 s: 240 sent, 230 answered, 4 throttled, 3 errors, 2 cold starts, p99 1,500 ms, "
        "at most $0.012"
    )
