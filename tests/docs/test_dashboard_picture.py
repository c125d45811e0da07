"""Test the dashboard's picture in the docs."""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))

from pictures.dashboard import draw
from pictures.dashboard_sample import rows, series


def test_a_line_without_made_up_data_is_an_error():
    """A new metric needs sample data, or the picture would show a false line."""
    with pytest.raises(KeyError):
        series("Unheard-of Sum")


def test_a_title_cannot_break_the_picture():
    """A title is escaped, whatever characters it contains."""
    widget = {
        "type": "text",
        "x": 0,
        "y": 0,
        "width": 6,
        "height": 3,
        "properties": {"title": "a < b & c", "markdown": "<script>"},
    }
    picture = ET.fromstring(draw({"widgets": [widget]}))
    assert "a < b & c" in {element.text for element in picture.iter()}


def values(key):
    return [value for _, value in series(key)]


def test_the_lines_agree_with_each_other():
    """A function is never above its account, and no percentile above the maximum."""
    own, account = (values(f"ConcurrentExecutions Maximum{of}") for of in ("", " of the account"))
    assert all(one <= all_ for one, all_ in zip(own, account, strict=True))
    lines = [values(f"Duration {name}") for name in ("p50", "p90", "p99", "Maximum")]
    assert all(list(minute) == sorted(minute) for minute in zip(*lines, strict=True))
    assert f"{max(lines[-1]):5.0f} ms" in rows("Slowest requests")[0]
    assert values("ColdStarts Sum") == values("InitDuration SampleCount")
    assert len(rows("Cold starts")) == 4
