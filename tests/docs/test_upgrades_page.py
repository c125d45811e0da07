"""The section on upgrades: the logical ids that it promises are those of the templates."""

import re

import pytest

from .pages import ROOT

PAGE = (ROOT / "docs" / "releases.md").read_text(encoding="utf-8")
SNAPSHOTS = ROOT / "tests" / "stacks" / "__snapshots__" / "test_snapshots"
ROWS = re.findall(r"^\| `(\w+)` \| (AWS::\S+) \| `([^`]+)` \|", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def templates():
    """Return the templates' snapshots, in which a logical id is before its resource's type."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(SNAPSHOTS.iterdir()))


@pytest.mark.parametrize(("construct", "kind", "path"), ROWS, ids=[row[2] for row in ROWS])
def test_a_promised_logical_id_is_in_a_template(templates, construct, kind, path):
    """A rename of a construct would replace the resource of everyone who upgrades."""
    logical_id = rf"^[+ ] {{1,2}}{path.replace('/', '')}[0-9A-F]{{8}}:\n"
    assert re.search(rf"{logical_id}[+ ] +Type: {kind}$", templates, re.MULTILINE)
