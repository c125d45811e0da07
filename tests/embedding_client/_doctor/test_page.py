"""docs/doctor.md: its policy, its table of checks and its example are those of the package."""

import json
import re
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name

import embedding_client._doctor
from embedding_client._doctor.access import (
    CONDITIONS,
    identity_result,
    signed_result,
    unsigned_result,
)
from embedding_client._doctor.command import CHECKS, Checked, as_lines
from embedding_client._doctor.probes import Reply
from embedding_client._doctor.release import (
    release_result,
    stacks_result,
    version_result,
    weights_result,
)
from embedding_client._doctor.results import ok

from .conftest import ACCOUNT, NOW

ROOT = Path(__file__).resolve().parents[3]
PREFIXES = {"stepfunctions": "states"}


def called():
    """Return the actions of all calls in the package's source."""
    session = botocore.session.Session()
    source = "".join(
        path.read_text() for path in Path(embedding_client._doctor.__file__).parent.glob("*.py")
    )
    calls = re.findall(r'\.(?:call|find|iterate|pages)\(\s*"([\w-]+)",\s*"(\w+)"', source)
    for service, operation in set(calls):
        names = session.get_service_model(service).operation_names
        (name,) = [name for name in names if xform_name(name) == operation]
        yield f"{PREFIXES.get(service, service)}:{name}"


def test_the_policy_has_exactly_the_actions_that_are_called():
    """It also has the two permissions of a caller. GetCallerIdentity needs no permission."""
    (block,) = re.findall(
        r"```json\n(.*?)```", (ROOT / "docs" / "doctor.md").read_text(), re.DOTALL
    )
    listed = [statement["Action"] for statement in json.loads(block)["Statement"]]
    allowed = {name for names in listed for name in ([names] if isinstance(names, str) else names)}
    assert allowed == {*called(), *CONDITIONS} - {"sts:GetCallerIdentity"}


@pytest.mark.parametrize("name", ["dev", "eleven-long", "twelve-longs", "thirteen-long", "n" * 31])
def test_the_policy_is_for_the_function_of_an_environment_of_any_name(name):
    """CloudFormation keeps 25 characters of the stack's name in the name of its function."""
    page = (ROOT / "docs" / "doctor.md").read_text()
    (block,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert "`SHORT` (the first 12 characters of `NAME`" in page
    (resources,) = (
        statement["Resource"]
        for statement in json.loads(block)["Statement"]
        if "lambda:GetFunction" in statement["Action"]
    )
    stack = f"EmbeddingKit-{name}-Endpoint"
    function = f"function:{stack[:25]}-EndpointEmbedder12345678-AbCdEfGhIjKl"
    wanted = f"arn:aws:lambda:REGION:ACCOUNT:{function}"
    assert [one for one in resources if fnmatchcase(wanted, one.replace("SHORT", name[:12]))]


def test_each_check_is_in_the_table():
    """In the order of the report."""
    page = (ROOT / "docs" / "doctor.md").read_text()
    table = page.partition("## Checks")[2].partition("## Permissions")[0]
    assert re.findall(r"^\| ([\w ]+) \|", table, re.MULTILINE)[1:] == [c.name for c in CHECKS]


def test_each_link_into_the_documentation_exists():
    """A section of a page in docs/."""
    source = "".join(
        path.read_text() for path in Path(embedding_client._doctor.__file__).parent.glob("*.py")
    )
    links = set(re.findall(r"docs/([\w-]+\.md)#([\w-]+)", source))
    assert links
    for page, section in links:
        titles = re.findall(r"^#+ (.+)$", (ROOT / "docs" / page).read_text(), re.MULTILINE)
        slugs = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
        assert section in slugs, (page, section)


def test_the_example_is_a_report():
    """Each line is one that the package prints."""
    page = (ROOT / "docs" / "doctor.md").read_text()
    (block,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    url = re.search(r"https://\S+", block)[0]
    vector = json.dumps({"embedding": [0] * 384}).encode()
    stacks = dict.fromkeys(("Repository", "Endpoint", "Observability"), "UPDATE_COMPLETE")
    weights = {"RoutingConfig": {"AdditionalVersionWeights": {"8": 0.25}}}
    version = {"FunctionVersion": "7", "Version": "7", "State": "Active", "MemorySize": 1769}
    release = {"deploymentId": "d-A1B2C3", "status": "Succeeded"}
    arn = f"arn:aws:sts::{ACCOUNT}:assumed-role/doctor/me"
    findings = {
        "credentials": identity_result({"Arn": arn}, "us-east-1"),
        "unsigned": unsigned_result(Reply(403, {}, b"", 1)),
        "signed": signed_result(Reply(200, {}, vector, 60), NOW),
        "permissions": ok("both: a signed request is answered"),
        "stacks": stacks_result(stacks),
        "last release": release_result(release | {"completeTime": NOW - timedelta(hours=2)}, NOW),
        "weights": weights_result(version | weights, by="", name="dev"),
        "version": version_result(version),
    }
    results = [Checked(c, findings[c.name]) for c in CHECKS if c.name in findings]
    printed = [line for line in as_lines(results, title=f"dev at {url}", color=False) if line]
    shown = [line for line in block.splitlines() if line not in {"", "..."}]
    # The last line counts all checks, of which the page has some.
    assert shown[:-1] == printed[:-1]
    counts = [int(count) for count in re.findall(r"\d+", shown[-1])]
    assert sum(counts) == len(CHECKS)
