"""scripts/build, scripts/deploy and scripts/destroy are one process with all arguments.

A fake Python records its arguments. `tests/operations` tests the steps.
"""

import pytest

_PROGRAM = """\
#!/usr/bin/env bash
echo "$(basename "$0") $* ${AWS_DEFAULT_REGION:-}" >>"$CALLS"
exit 4
"""


@pytest.fixture
def run(scripts_with):
    """Return a function that runs a script; it returns the exit status and the calls."""
    return scripts_with(_PROGRAM)


@pytest.mark.parametrize("name", ["build", "deploy", "destroy"])
def test_one_program_runs_all_steps(run, name):
    """Its status is that of the script."""
    called = f"python -m operations.{name} dev --image=a -c x=y "
    assert run(name, "dev", "--image=a", "-c", "x=y") == (4, [called])


def test_all_steps_use_one_region(run):
    """The CDK's command prefers AWS_REGION; Python's botocore does not read it."""
    for regions, region in (
        ({"AWS_REGION": "eu-central-1", "AWS_DEFAULT_REGION": "us-east-1"}, "eu-central-1"),
        ({"AWS_REGION": "", "AWS_DEFAULT_REGION": "us-east-1"}, "us-east-1"),
    ):
        assert run("deploy", "dev", **regions)[1] == [f"python -m operations.deploy dev {region}"]
