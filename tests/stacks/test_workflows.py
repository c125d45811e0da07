"""Test the GitHub Actions workflows: they run the documented scripts and store no AWS key."""

from pathlib import Path
from typing import Any

import pytest
import yaml

WORKFLOWS = Path(__file__).resolve().parents[2] / ".github" / "workflows"
ROOT = WORKFLOWS.parents[1]


@pytest.fixture
def workflow():
    """Read a workflow; YAML 1.1 parses its key `on` as a boolean."""

    def read(name: str) -> dict[Any, Any]:
        found: dict[Any, Any] = yaml.safe_load((WORKFLOWS / f"{name}.yml").read_text())
        return found

    return read


def _steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job.get("steps", [])]


def test_the_tests_run_by_the_one_script(workflow):
    """CI runs the same script as a developer."""
    steps = workflow("test")["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == ["scripts/test"]


def test_every_change_is_rehearsed_with_containers(workflow):
    """CI tests image and deploy with containers, and fails instead of skipping without them."""
    steps = workflow("test")["jobs"]["rehearse"]["steps"]
    scripts = [step["run"] for step in steps if step.get("run", "").startswith("scripts/")]
    assert scripts == [
        "scripts/verify-image --require-containers",
        "scripts/rehearse dev --require-containers",
    ]


def test_production_comes_after_all_else(workflow):
    """The jobs test, diff, dev and production each wait for the one before."""
    jobs = workflow("deploy")["jobs"]
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        "test": None,
        "diff": "test",
        "dev": "diff",
        "production": "dev",
    }


def test_deploys_are_the_scripts_that_people_type(workflow):
    """CI deploys with the same script as a deploy by hand."""
    jobs = workflow("deploy")["jobs"]
    assert jobs["dev"]["with"]["command"] == "scripts/deploy dev --require-approval never"
    assert jobs["production"]["with"]["command"].startswith("scripts/deploy production ")
    assert "cdk diff --all" in jobs["diff"]["with"]["command"]


def test_the_doctor_looks_at_each_environment(workflow):
    """`scripts/deploy` ends with it, and an ill dev keeps production from being deployed."""
    jobs = workflow("deploy")["jobs"]
    assert not [name for name in jobs if "--no-doctor" in str(jobs[name].get("with"))]


@pytest.mark.parametrize("name", ["test", "deploy", "environment"])
def test_no_key_of_aws_is_stored(workflow, name):
    """The workflow signs in with GitHub's own token, since a key in a secret would never expire."""
    text = (WORKFLOWS / f"{name}.yml").read_text()
    assert "AWS_ACCESS_KEY_ID" not in text
    assert "AWS_SECRET_ACCESS_KEY" not in text
    assert workflow(name)["permissions"]["contents"] == "read"


def test_the_role_is_the_environments_own(workflow):
    """A job for dev cannot assume production's role, which trusts the environment's name."""
    (job,) = workflow("environment")["jobs"].values()
    assert job["environment"] == "${{ inputs.environment }}"
    assert workflow("environment")["permissions"]["id-token"] == "write"
    (sign_in,) = (
        step for step in job["steps"] if "configure-aws-credentials" in step.get("uses", "")
    )
    assert sign_in["with"]["role-to-assume"] == "${{ vars.AWS_ROLE_ARN }}"


@pytest.mark.parametrize("name", ["test", "deploy", "environment"])
def test_the_scripts_that_are_named_are_there(name):
    """Every script that a workflow names exists."""
    words = (WORKFLOWS / f"{name}.yml").read_text().split()
    scripts = {word for word in words if word.startswith("scripts/")}
    assert all((ROOT / script).is_file() for script in scripts)


def test_no_input_is_put_into_a_shell_unquoted(workflow):
    """Input from outside reaches a shell as a variable, never as text of the script."""
    for name in ("test", "deploy", "environment"):
        assert not [step for step in _steps(workflow(name)) if "${{" in step.get("run", "")]
