"""Every number of the README comes from a measurement, a price or a limit of the project."""

import json
import re
import tomllib

import pytest

from .pages import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
RUN = json.loads((ROOT / "docs" / "performance.json").read_text(encoding="utf-8"))
VALUES = {row["name"]: row["values"] for row in RUN["rows"]}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [
    found[1]
    for found in re.finditer(
        r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE
    )
]
#: Costs without traffic, by the forecast's names: metrics cost something only while they are sent.
IDLE = ["alarms, by metrics", "dashboard", "image"]


def costs() -> dict[str, str]:
    """Return the amounts of the forecast on the page about cost."""
    page = (ROOT / "docs" / "cost.md").read_text(encoding="utf-8")
    example = page.partition("<!-- cost-example")[2].partition("<!-- end")[0]
    return {
        found[1].strip(): found[2]
        for found in re.finditer(r"^(.+?) {2,}(\d+\.\d\d)\b", example, re.MULTILINE)
    }


def sources() -> dict[str, str]:
    """Return the numbers that the README may have, with the places that they come from."""
    cost = costs()
    init, memory, many = (
        VALUES[name] for name in ("init", "peak memory", "64 texts of 8 tokens, each")
    )
    return {
        f"{init['kit']:.0f}": "init",
        f"{round(init['kit'], -1)}": "init, in tens of milliseconds",
        f"{init['kit'] / 1000:.1f}": "init, in seconds",
        f"{init['baseline']:,.0f}": "init of the baseline",
        f"{init['sentence-transformers']:,.0f}": "init of sentence-transformers",
        f"{init['fastembed'] / 1000:.1f}": "init of fastembed, in seconds",
        f"{memory['kit']:.0f}": "peak memory",
        f"{memory['baseline']:.0f}": "peak memory of the baseline",
        f"{many['kit']:.1f}": "a short text of 64",
        f"{many['baseline']:.1f}": "a short text of 64, baseline",
        "64": "the number of short texts",
        PYTHONS[0]: "the oldest Python of pyproject.toml",
        PYTHONS[-1]: "the newest Python of pyproject.toml",
        f"${cost['Lambda on demand']}": "the forecast in docs/cost.md",
        f"${cost['sum']}": "the same, with all of the environment",
        f"${cost['OpenAI text-embedding-3-small']}": "the same, of OpenAI",
        f"${sum(float(cost[name]) for name in IDLE):.0f}": "the same, without traffic",
        "3": "millions of requests of the forecast",
        "128": "tokens of the forecast",
        "170": "docs/operations.md",
    }


def prose() -> str:
    """Return the README without generated tables, code, links and names that contain digits."""
    text = re.sub(
        r"<!-- models.*?end of models -->|```.*?```|<!--.*?-->|`[^`]*`|<[^>]+>",
        " ",
        README,
        flags=re.DOTALL,
    )
    text = re.sub(r"\]\([^)]*\)|https?://\S+", " ", text)
    return re.sub(r"text-embedding-3-small|int8|x86|Apache-2\.0|S3", " ", text)


@pytest.mark.parametrize("number", sorted(set(re.findall(r"\$?\d[\d,.]*\d|\$?\d", prose()))))
def test_a_number_of_the_readme_has_a_source(number):
    """A number that comes from nowhere is refused."""
    assert number in sources()


def test_the_forecast_has_the_traffic_that_the_readme_names():
    """3 million requests of 128 tokens with EmbeddingGemma."""
    page = (ROOT / "docs" / "cost.md").read_text(encoding="utf-8")
    assert "google/embeddinggemma-300m" in page
    assert "3M requests a month of 128 tokens" in page


def test_the_limit_of_a_zip_is_that_of_the_page_about_operations():
    """The README names the size of a model that fits."""
    assert re.search(r"170\s+MB", (ROOT / "docs" / "operations.md").read_text(encoding="utf-8"))


def test_the_demo_prints_what_the_picture_shows():
    """Its steps have the same headings."""
    program = (ROOT / "tools" / "local_endpoint" / "demo.py").read_text(encoding="utf-8")
    shown = (ROOT / "docs" / "pictures" / "demo.txt").read_text(encoding="utf-8")
    headings = [found[1] for found in re.finditer(r'_heading\(f?"(\d  [^:{"]+)', program)]
    assert len(headings) == 4
    assert all(f"\n{heading}" in f"\n{shown}" for heading in headings)
