"""The bar charts of a benchmark run."""

import json
from xml.etree import ElementTree as ET

import pytest

from tools.bench.picture import as_svg, chart_of

SVG = "{http://www.w3.org/2000/svg}"
RESULTS = {
    "model": "replica <full>",
    "machine": {"cpu": "A CPU"},
    "labels": {"baseline": "baseline", "kit": "Embedding Kit", "peer": "a peer"},
    "absent": {"a peer": "not installed"},
    "rows": [
        {"name": "8 tokens", "unit": "ms of CPU time", "values": {"baseline": 10.0, "kit": 8.0}},
        {"name": "init", "unit": "ms", "values": {"baseline": 1509, "kit": 162, "peer": 6000}},
        {"name": "other", "unit": "MB", "values": {"baseline": 100.0, "kit": 450.0}},
    ],
}


@pytest.fixture(scope="module")
def picture() -> ET.Element:
    """Return a picture of three measurements, in which one contender is missing twice."""
    return ET.fromstring(as_svg(chart_of(json.dumps(RESULTS))))


def test_a_bar_is_drawn_for_each_value(picture: ET.Element) -> None:
    """The longest bar of each panel has the same length, and each bar ends in the picture."""
    width = float(picture.get("viewBox", "").split()[2])
    bars = [bar for bar in picture.iter(f"{SVG}rect") if bar.get("rx")]
    lengths = [float(bar.get("width", "0")) for bar in bars]
    assert len(bars) == 7
    assert [length == max(lengths) for length in lengths].count(True) == 3
    assert all(float(bar.get("x", "0")) + float(bar.get("width", "0")) < width for bar in bars)


def test_a_gain_over_the_baseline_is_named(picture: ET.Element) -> None:
    """A measurement without a gain has no such note."""
    gains = [text.text for text in picture.iter(f"{SVG}text") if text.get("class") == "gain"]
    assert gains == ["1.2× less", "9.3× less"]


def test_names_absences_and_large_numbers_are_readable(picture: ET.Element) -> None:
    """Names are escaped, and numbers have separators."""
    words = [text.text for text in picture.iter(f"{SVG}text")]
    assert "Replica <full>: less is better" in words
    assert "8 tokens, ms CPU" in words
    assert "1,509" in words
    assert "Absent: a peer (not installed)" in words
