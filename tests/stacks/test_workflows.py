"""The workflows of GitHub Actions: the scripts that people type, and no stored key."""

from pathlib import Path
from typing import Any

import pytest
import yaml

WORKFLOWS = Path(__file__).resolve().parents[2] / ".github" / "workflows"
ROOT = WORKFLOWS.parents[1]


@pytest.fixture
def workflow():
    """Read a workflow; YAML 1.1 takes its key `on` for a truth."""

    def read(name: str) -> dict[Any, Any]:
        found: dict[Any, Any] = yaml.safe_load((WORKFLOWS / f"{name}.yml").read_text())
        return found

    return read


def _steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job.get("steps", [])]


def test_the_tests_run_by_the_one_script(workflow):
    """What CI runs is what a developer runs."""
    steps = workflow("test")["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == ["scripts/test"]


def test_every_change_is_rehearsed_with_containers(workflow):
    """Image and deploy are tried out in CI, where a missing container is a failure and no skip."""
    steps = workflow("test")["jobs"]["rehearse"]["steps"]
    scripts = [step["run"] for step in steps if step.get("run", "").startswith("scripts/")]
    assert scripts == [
        "scripts/verify-image --require-containers",
        "scripts/rehearse dev --require-containers",
    ]


def test_production_comes_after_all_else(workflow):
    """Test, diff, dev, production: each waits for the one before."""
    jobs = workflow("deploy")["jobs"]
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        "test": None,
        "diff": "test",
        "dev": "diff",
        "production": "dev",
    }


def test_deploys_are_the_scripts_that_people_type(workflow):
    """A deploy by hand and one by CI do the same."""
    jobs = workflow("deploy")["jobs"]
    assert jobs["dev"]["with"]["command"] == "scripts/deploy dev --require-approval never"
    assert jobs["production"]["with"]["command"].startswith("scripts/deploy production ")
    assert "cdk diff --all" in jobs["diff"]["with"]["command"]


@pytest.mark.parametrize("name", ["test", "deploy", "environment"])
def test_no_key_of_aws_is_stored(workflow, name):
    """GitHub's own token signs in; a key in a secret would live for ever."""
    text = (WORKFLOWS / f"{name}.yml").read_text()
    assert "AWS_ACCESS_KEY_ID" not in text
    assert "AWS_SECRET_ACCESS_KEY" not in text
    assert workflow(name)["permissions"]["contents"] == "read"


def test_the_role_is_the_environments_own(workflow):
    """A job of dev cannot take production's role: the role trusts the environment's name."""
    (job,) = workflow("environment")["jobs"].values()
    assert job["environment"] == "${{ inputs.environment }}"
    assert workflow("environment")["permissions"]["id-token"] == "write"
    (sign_in,) = (
        step for step in job["steps"] if "configure-aws-credentials" in step.get("uses", "")
    )
    assert sign_in["with"]["role-to-assume"] == "${{ vars.AWS_ROLE_ARN }}"


@pytest.mark.parametrize("name", ["test", "deploy", "environment"])
def test_the_scripts_that_are_named_are_there(name):
    """A renamed script breaks CI here, not on main."""
    words = (WORKFLOWS / f"{name}.yml").read_text().split()
    scripts = {word for word in words if word.startswith("scripts/")}
    assert all((ROOT / script).is_file() for script in scripts)


def test_no_input_is_put_into_a_shell_unquoted(workflow):
    """What comes from outside reaches a shell as a variable, never as text of the script."""
    for name in ("test", "deploy", "environment"):
        assert not [step for step in _steps(workflow(name)) if "${{" in step.get("run", "")]
