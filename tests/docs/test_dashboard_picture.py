"""Test the dashboard's picture in the docs."""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))

from pictures.dashboard import draw
from pictures.dashboard_sample import series


def test_a_line_without_made_up_data_is_an_error():
    """A new metric needs sample data, or the picture would show a false line."""
    with pytest.raises(KeyError):
        series("Unheard-of Sum", line=0)


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
