"""Test that the picture can be read: no text overlaps another, or leaves the picture."""

import pytest

from operations.cost.numbers import dollars, number, parse_number, percent
from operations.cost.svg import spread
from tests.operations.cost.svg_text import boxes, check_readable


@pytest.mark.parametrize(
    "arguments",
    [
        ("dev",),
        ("dev", "--requests", "3M"),
        ("dev", "--requests", "1k"),
        ("provisioned", "--requests", "300M"),
        ("provisioned", "--requests", "3M", "--shape", "flat"),
        ("snapstart", "--requests", "30M", "--tokens", "256"),
    ],
)
def test_no_text_overlaps_another(cost, arguments):
    """And all of it is within the picture."""
    _, _, _, picture = cost(*arguments)
    check_readable(picture)


def test_the_picture_says_what_a_manager_asks(cost):
    """What it costs, what else would, cold starts; in light and dark."""
    _, out, _, picture = cost("provisioned", "--requests", "3M")
    texts = {text for text, _ in boxes(picture)}
    total = float(out.partition("  sum")[2].split()[0])
    assert f"provisioned costs about ${total:,.0f} a month" in texts
    assert {"Lambda on demand", "Fargate, 1 vCPU, load balancer", "now: 3M"} <= texts
    assert any(text.startswith("Cold starts: ") for text in texts)
    assert any(text.startswith("Cheapest for this traffic: ") for text in texts)
    assert "prefers-color-scheme: dark" in picture


def test_labels_are_moved_apart_in_their_order():
    """Up to the highest position, and further only if there is no room."""
    assert spread([10, 11, 50], gap=5, low=0, high=100) == [10, 15, 50]
    assert spread([98, 99, 97], gap=5, low=0, high=100) == [95, 100, 90]
    assert spread([0, 0, 0], gap=10, low=0, high=5) == [0, 10, 20]


@pytest.mark.parametrize(
    ("text", "value"), [("3M", 3e6), ("250k", 250e3), ("1.5G", 1.5e9), ("1,200", 1200)]
)
def test_numbers_are_read_with_their_units(text, value):
    """Thousands, millions, billions."""
    assert parse_number(text) == value


def test_numbers_are_written_short():
    """Three digits, cents below 1,000 dollars, and no zeros for a small share."""
    assert [number(v) for v in (3e6, 12.5e6, 390_000, 1e9, 999_900, 12)] == [
        "3M", "12.5M", "390k", "1G", "1M", "12",
    ]  # fmt: skip
    assert [dollars(v) for v in (0.5, 999.5, 1234.5)] == ["0.50", "999.50", "1,234"]
    assert [percent(v) for v in (0, 0.00001, 0.00084, 0.25, 1)] == [
        "0%", "under 0.01%", "0.084%", "25%", "100%",
    ]  # fmt: skip
