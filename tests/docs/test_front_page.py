"""The page of the API in front: its examples are valid, its table of codes is complete."""

import re
import tomllib

import pytest

from embedding_kit.rest_api import GATEWAY_RESPONSES
from stacks.environment import EnvironmentSettings

from .pages import BLOCK, ROOT

PAGE = (ROOT / "docs" / "front.md").read_text("utf-8").partition("\n## Private networks\n")[0]
MODEL = {"name": "sentence-transformers/all-MiniLM-L6-v2"}


def tables(page):
    """Return each example of settings; the first is a whole, and most others are parts of it."""
    blocks = [block["code"] for block in BLOCK.finditer(page) if block["language"] == "toml"]
    examples = list(map(tomllib.loads, blocks))
    whole = examples[0]
    return [
        table if "kind" in table["front"] else {**whole, "front": whole["front"] | table["front"]}
        for table in examples
    ]


@pytest.mark.parametrize("table", tables(PAGE), ids=lambda table: ",".join(table["front"]))
def test_the_settings_on_the_page_are_valid(table):
    """Each example is accepted, alone or added to the first."""
    made = EnvironmentSettings.model_validate({"name": "test", "model": MODEL, **table})
    assert made.front is not None


def test_the_codes_of_api_gateways_answers_are_on_the_page():
    """A code in the templates is in the table; the two defaults are for what has no name."""
    section = PAGE.partition("### Answers of API Gateway itself")[2].partition("\n### ")[0]
    named = set(re.findall(r"`([a-z_]+)`", section))
    codes = {answer.code for answer in GATEWAY_RESPONSES.values()} - {"invalid_request"}
    assert codes <= named
