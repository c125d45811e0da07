"""The policy in docs/doctor.md allows what the doctor asks AWS, and nothing else."""

import json
import re
from pathlib import Path

import botocore.session
from botocore import xform_name

import embedding_client.doctor
from embedding_client.doctor.permissions import CONDITIONS

ROOT = Path(__file__).resolve().parents[3]
PREFIXES = {"stepfunctions": "states"}


def called():
    """Return the actions of all calls in the package's source."""
    session = botocore.session.Session()
    source = "".join(
        path.read_text() for path in Path(embedding_client.doctor.__file__).parent.glob("*.py")
    )
    calls = re.findall(r'\.(?:call|find|pages)\(\s*"([\w-]+)",\s*"(\w+)"', source)
    for service, operation in set(calls):
        names = session.get_service_model(service).operation_names
        (name,) = [name for name in names if xform_name(name) == operation]
        yield f"{PREFIXES.get(service, service)}:{name}"


def test_the_policy_has_exactly_the_actions_that_are_called():
    """And the two permissions of a caller. GetCallerIdentity needs none."""
    (block,) = re.findall(
        r"```json\n(.*?)```", (ROOT / "docs" / "doctor.md").read_text(), re.DOTALL
    )
    listed = [statement["Action"] for statement in json.loads(block)["Statement"]]
    allowed = {name for names in listed for name in ([names] if isinstance(names, str) else names)}
    assert allowed == {*called(), *CONDITIONS} - {"sts:GetCallerIdentity"}


def test_each_check_is_in_the_table():
    """In the order of the report."""
    from embedding_client.doctor.checkup import CHECKS

    page = (ROOT / "docs" / "doctor.md").read_text()
    table = page.partition("## Checks")[2].partition("## Permissions")[0]
    assert re.findall(r"^\| ([\w ]+) \|", table, re.MULTILINE)[1:] == [c.name for c in CHECKS]


def test_each_link_into_the_documentation_exists():
    """A section of a page in docs/."""
    source = "".join(
        path.read_text() for path in Path(embedding_client.doctor.__file__).parent.glob("*.py")
    )
    links = set(re.findall(r"docs/([\w-]+\.md)#([\w-]+)", source))
    assert links
    for page, section in links:
        titles = re.findall(r"^#+ (.+)$", (ROOT / "docs" / page).read_text(), re.MULTILINE)
        slugs = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
        assert section in slugs, (page, section)
