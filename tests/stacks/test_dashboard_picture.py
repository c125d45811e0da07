"""Test the dashboard's picture in the docs."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from stacks.dashboard_picture import dashboard_body, draw
from stacks.dashboard_sample import series

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "dashboard.svg"


@pytest.fixture(scope="module")
def body(synthesized) -> dict:
    return dashboard_body(synthesized("dev").templates["observability"])


def test_the_docs_show_the_dashboard_as_it_is_deployed(body):
    """The picture is up to date; `scripts/draw-dashboard` draws it again."""
    assert PICTURE.read_text() == draw(body)


def test_every_widget_is_drawn(body):
    """The picture is well-formed and contains every widget."""
    texts = {element.text for element in ET.fromstring(draw(body)).iter() if element.text}
    titles = {
        widget["properties"]["title"]
        for widget in body["widgets"]
        if "title" in widget["properties"]
    }
    assert titles <= texts


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
