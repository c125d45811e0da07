"""Test the GitHub Actions workflows: they run the documented scripts and store no AWS key."""

import os
import subprocess
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
        return yaml.safe_load((WORKFLOWS / f"{name}.yml").read_text())

    return read


def test_images_are_built_once_and_deployed_everywhere(workflow, tmp_path):
    """The build compares all environments, and writes the options that each deploy gets."""
    jobs = workflow("deploy")["jobs"]
    names = jobs["diff"]["strategy"]["matrix"]["environment"]
    assert names
    for name in ("diff", *names):
        assert jobs[name]["with"]["images"] == "${{ needs.build.outputs.images }}"
    (job,) = workflow("environment")["jobs"].values()
    assert job["outputs"]["images"] == "${{ steps.command.outputs.images }}"
    (step,) = (step for step in job["steps"] if step.get("id") == "command")
    assert step["env"]["IMAGES"] == "${{ inputs.images }}"
    (tmp_path / "scripts").mkdir()
    build = tmp_path / "scripts" / "build"
    build.write_text(
        "#!/bin/sh\necho uri@sha256:a\necho uri@sha256:b\n"
        f'test "$*" = "{" ".join(names)}" && exit $STATUS\n'
    )
    build.chmod(0o755)
    output = tmp_path / "output"
    for status in (0, 1):
        output.write_text("")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", 'eval "$COMMAND"'],
            cwd=tmp_path,
            env={
                "PATH": os.environ["PATH"],
                "COMMAND": jobs["build"]["with"]["command"],
                "GITHUB_OUTPUT": str(output),
                "STATUS": str(status),
            },
            check=False,
        )
        assert done.returncode == status
        written = "images=--image=uri@sha256:a --image=uri@sha256:b \n"
        assert output.read_text() == ("" if status else written)


@pytest.mark.parametrize(("images", "works"), [("", False), ("none", True), ("--image=a ", True)])
def test_images_that_github_has_dropped_are_no_reason_to_build_again(
    workflow, tmp_path, images, works
):
    """An output with a secret is empty for the next job, such as an address with the account."""
    called = workflow("environment")
    assert called[True]["workflow_call"]["inputs"]["images"]["default"] == "none"
    (step,) = (step for step in called["jobs"]["run"]["steps"] if step.get("id") == "command")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "setup").write_text("setup_cdk() { :; }\n")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", step["run"]],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "COMMAND": "echo deployed", "IMAGES": images},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) is ("deployed" in done.stdout) is works
    assert ("::error::the build's output has no images" in done.stdout) is not works


def test_the_hubs_token_reaches_the_build(workflow):
    """A called workflow has only the secrets that it declares and that the job passes."""
    called = workflow("environment")
    token = {"HF_TOKEN": "${{ secrets.HF_TOKEN }}"}
    assert workflow("deploy")["jobs"]["build"]["secrets"] == token
    assert called[True]["workflow_call"]["secrets"].keys() == token.keys()
    (step,) = (step for step in called["jobs"]["run"]["steps"] if step.get("id") == "command")
    assert token.items() <= step["env"].items()


def test_only_a_job_that_publishes_or_deploys_proves_who_it_is(workflow):
    """With `id-token: write`, a job is this repository to AWS, PyPI, Sigstore and GitHub Pages."""
    workflows = {file.stem: workflow(file.stem) for file in WORKFLOWS.glob("*.yml")}
    deploy = workflows["deploy"]["jobs"]
    assert not any("id-token" in found["permissions"] for found in workflows.values())
    assert {
        (name, job)
        for name, found in workflows.items()
        for job, content in found["jobs"].items()
        if "id-token" in content.get("permissions", {})
    } == {
        ("docs", "publish"),
        ("environment", "run"),
        ("release", "publish"),
        *(
            ("deploy", job)
            for job, content in deploy.items()
            if "environment.yml" in content["uses"]
        ),
    }
    # PyPI trusts the job by this environment, and each role of AWS by that of its own name.
    assert workflows["release"]["jobs"]["publish"]["environment"] == "pypi"
    assert workflows["environment"]["jobs"]["run"]["environment"] == "${{ inputs.environment }}"


def test_a_release_that_failed_can_run_again(workflow, tmp_path):
    """A file of PyPI is skipped, and a release of GitHub gets its files again."""
    jobs = workflow("release")["jobs"]
    assert "--check-url" in jobs["publish"]["steps"][-1]["run"]
    (step,) = (step for step in jobs["notes"]["steps"] if "run" in step)
    gh = tmp_path / "gh"
    gh.write_text('#!/bin/sh\necho "$@" >>calls\n[ "$2" != view ] || exit $FOUND\n')
    (tmp_path / "python").write_text("#!/bin/sh\necho notes\n")
    for program in (gh, tmp_path / "python"):
        program.chmod(0o755)
    calls = {}
    for tag, missing in (("v1.0.0", 1), ("v1.0.0rc1", 1), ("v1.0.0", 0)):
        (tmp_path / "calls").write_text("")
        subprocess.run(
            ["bash", "-euo", "pipefail", "-c", step["run"]],
            cwd=tmp_path,
            env={
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "GITHUB_REF_NAME": tag,
                "RUNNER_TEMP": str(tmp_path),
                "FOUND": str(missing),
            },
            check=True,
        )
        calls[tag, missing] = (tmp_path / "calls").read_text().splitlines()[1]
    create = f"release create {{0}} --verify-tag --title {{0}} --notes-file {tmp_path}/notes"
    assert calls == {
        ("v1.0.0", 1): f"{create.format('v1.0.0')} dist/*",
        ("v1.0.0rc1", 1): f"{create.format('v1.0.0rc1')} --prerelease dist/*",
        ("v1.0.0", 0): "release upload v1.0.0 --clobber dist/*",
    }
