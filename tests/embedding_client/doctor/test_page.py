"""The doctor's policy and its table of checks, on two pages, are those of the package."""

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name

import embedding_client.doctor
from embedding_client.doctor.access import CONDITIONS
from embedding_client.doctor.command import CHECKS

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = Path(embedding_client.doctor.__file__).parent
SOURCE = "".join(path.read_text() for path in PACKAGE.glob("*.py"))
SECTION = (ROOT / "docs" / "security.md").read_text().partition("## The doctor's policy\n")[2]
POLICY = json.loads(re.findall(r"```json\n(.*?)```", SECTION, re.DOTALL)[0])
PREFIXES = {"stepfunctions": "states"}
#: Actions with another name than their call.
ACTIONS = {"s3:GetBucketNotificationConfiguration": "s3:GetBucketNotification"}


def called():
    """Return the actions of all calls in the package's source."""
    session = botocore.session.Session()
    calls = re.findall(r'\.(?:call|find|iterate|pages)\(\s*"([\w-]+)",\s*"(\w+)"', SOURCE)
    for service, operation in set(calls):
        names = session.get_service_model(service).operation_names
        (name,) = [name for name in names if xform_name(name) == operation]
        action = f"{PREFIXES.get(service, service)}:{name}"
        yield ACTIONS.get(action, action)


def test_the_policy_has_exactly_the_actions_that_are_called():
    """It also has the two permissions of a caller. GetCallerIdentity needs no permission."""
    listed = [statement["Action"] for statement in POLICY["Statement"]]
    allowed = {name for names in listed for name in ([names] if isinstance(names, str) else names)}
    assert allowed == {*called(), *CONDITIONS} - {"sts:GetCallerIdentity"}


@pytest.mark.parametrize("name", ["dev", "eleven-long", "twelve-longs", "thirteen-long", "n" * 31])
def test_the_policy_is_for_the_function_of_an_environment_of_any_name(name):
    """CloudFormation keeps 25 characters of the stack's name in the name of its function."""
    assert "`SHORT` (the first 12 characters of `NAME`" in " ".join(SECTION.split())
    (resources,) = (
        statement["Resource"]
        for statement in POLICY["Statement"]
        if "lambda:GetFunction" in statement["Action"]
    )
    stack = f"EmbeddingKit-{name}-Endpoint"
    function = f"function:{stack[:25]}-EndpointEmbedder12345678-AbCdEfGhIjKl"
    wanted = f"arn:aws:lambda:REGION:ACCOUNT:{function}"
    assert [one for one in resources if fnmatchcase(wanted, one.replace("SHORT", name[:12]))]


def test_each_check_is_in_the_table():
    """In the order of the report."""
    page = (ROOT / "docs" / "operations.md").read_text()
    table = page.partition("### Its checks")[2].partition("### Troubleshooting")[0]
    assert re.findall(r"^\| ([\w ]+) \|", table, re.MULTILINE)[1:] == [c.name for c in CHECKS]


def test_each_link_into_the_documentation_exists():
    """A section of a page in docs/."""
    links = set(re.findall(r"docs/([\w-]+\.md)#([\w-]+)", SOURCE))
    assert links
    for page, section in links:
        titles = re.findall(r"^#+ (.+)$", (ROOT / "docs" / page).read_text(), re.MULTILINE)
        slugs = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
        assert section in slugs, (page, section)
