"""All steps of a script that acts on AWS use the credentials of `--profile`.

The programs of the steps are stand-ins that record their arguments and variables.
"""

import re
import textwrap

import pytest

from .conftest import ROOT

SCRIPTS = sorted(
    script.name
    for script in (ROOT / "scripts").iterdir()
    if script.is_file() and re.search(r"python -m operations", script.read_text())
)
assert {"build", "deploy", "destroy", "prune", "rollback"} <= {*SCRIPTS}
VARIABLES = (
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)
_PROGRAM = textwrap.dedent(f"""\
    #!/usr/bin/env bash
    echo "$(basename "$0") $* ${{{":-}|${".join(VARIABLES)}:-}}" >> "$CALLS"
    """)


@pytest.fixture
def run(scripts_with):
    """Return a function that runs a script; it returns the exit status and the calls."""
    return scripts_with(_PROGRAM)


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize(
    "arguments", [("dev", "--profile", "sandbox", "--x"), ("--profile=sandbox", "dev", "--x")]
)
def test_a_profile_is_of_all_steps(run, name, arguments):
    """No program gets the option, and none gets other credentials of the shell."""
    variables = dict.fromkeys(VARIABLES, "other")
    status, calls = run(name, *arguments, **variables)
    assert status == 0
    assert calls
    assert {call.rpartition(" ")[2] for call in calls} == {"sandbox|sandbox|||"}
    assert "--profile" not in "".join(calls)
    # The other options are passed on.
    assert "--x" in "".join(calls)


@pytest.mark.parametrize("variable", ["AWS_PROFILE", "AWS_DEFAULT_PROFILE"])
def test_the_shells_profile_comes_before_its_other_credentials(run, variable):
    """The CDK's command prefers the profile, and botocore does not: all steps do as the CDK."""
    credentials = {"AWS_ACCESS_KEY_ID": "key", "AWS_WEB_IDENTITY_TOKEN_FILE": "token"}
    calls = run("rollback", "dev", **{variable: "a"}, **credentials)[1]
    assert calls == ["python -m operations.rollback dev a|a|||"]
    calls = run("rollback", "dev", **credentials)[1]
    assert calls == ["python -m operations.rollback dev ||key||token"]


@pytest.mark.parametrize("given", [("--profile",), ("--profile=",), ("--profile", "")])
def test_a_profile_has_a_name(run, given):
    """Nothing runs without one."""
    assert run("rollback", "dev", *given) == (1, [])
