"""Test how numbers are read and written."""

import pytest

from operations.cost.command import amount
from operations.cost.forecast import number, percent


@pytest.mark.parametrize(
    ("text", "value"), [("3M", 3e6), ("250k", 250e3), ("1.5G", 1.5e9), ("1,200", 1200)]
)
def test_numbers_are_read_with_their_units(text, value):
    """Thousands, millions, billions."""
    assert amount(text) == value


def test_numbers_are_written_short():
    """Three digits, and no zeros for a small share."""
    assert [number(v) for v in (3e6, 12.5e6, 390_000, 1e9, 999_900, 12)] == [
        "3M", "12.5M", "390k", "1G", "1M", "12",
    ]  # fmt: skip
    assert [percent(v) for v in (0, 0.00001, 0.00084, 0.25, 1)] == [
        "0%", "under 0.01%", "0.084%", "25%", "100%",
    ]  # fmt: skip
