"""The charts of a run."""

import json
import re

import pytest

from tools.bench.picture import LIGHT, bars

RUN = {
    "model": "replica <full>",
    "machine": {"cpu": "A CPU"},
    "base": "baseline",
    "labels": {"baseline": "baseline", "kit": "Embedding Kit", "peer": "a peer"},
    "rows": [
        {"name": "8 tokens", "unit": "ms of CPU time", "values": {"baseline": 10.0, "kit": 8.0}},
        {"name": "init", "unit": "ms", "values": {"baseline": 1509, "kit": 162, "peer": 6000}},
        {"name": "other", "unit": "MB", "values": {"baseline": 100.0, "kit": 450.0}},
    ],
}


def texts(picture: str) -> list[str]:
    """Return the texts of an SVG file."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", picture)


def test_bars_have_values_and_gains():
    """A bar has its value; Embedding Kit's also the gain over the baseline, if there is one."""
    shown = texts(bars(json.dumps(RUN)))
    assert "replica &lt;full&gt;" in shown
    assert {"8 tokens, ms CPU", "8.0 (1.2× less)", "162 (9.3× less)", "1,509", "450"} <= set(shown)


@pytest.mark.parametrize("name", ["paper", "ink", "green"])
def test_every_color_has_one_in_the_dark(name: str):
    """The SVG follows the reader's scheme: each color of it has a rule for the dark one."""
    picture = bars(json.dumps(RUN))
    assert f'[style*="fill: {LIGHT[name]}"]' in picture
    colors = set(re.findall(r"(?:fill|stroke): (#\w{6})", picture))
    assert colors <= set(LIGHT.values())
