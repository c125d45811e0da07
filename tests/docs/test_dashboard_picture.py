"""Test the dashboard's picture in the docs."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))

from pictures.dashboard_sample import series


def test_a_line_without_made_up_data_is_an_error():
    """A new metric needs sample data, or the picture would show a false line."""
    with pytest.raises(KeyError):
        series("Unheard-of Sum")
