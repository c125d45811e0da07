"""The files that GitHub reads are valid, and the checks of CI find nothing in the workflows."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = [
    path for path in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) if path.stem != "config"
]
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
BIN = Path(sys.executable).parent


def program(name: str, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run a program of the environment in the root of the repository."""
    return subprocess.run(
        [BIN / name, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", WORKFLOWS),
        ("github-issue-forms", FORMS),
        ("github-issue-config", [GITHUB / "ISSUE_TEMPLATE" / "config.yml"]),
        ("dependabot", [GITHUB / "dependabot.yml"]),
    ],
)
def test_the_files_have_the_form_that_github_reads(schema, files):
    """A file that GitHub cannot read is ignored without an error in a pull request."""
    checked = program("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *files)
    assert checked.returncode == 0, checked.stdout


def test_zizmor_finds_nothing_in_the_workflows():
    """No template injection, broad permission, stored credential or action without a commit."""
    checked = program("zizmor", "--offline", "--no-progress", "--min-severity=medium", ".github")
    assert checked.returncode == 0, checked.stdout


def test_zizmor_would_find_something(tmp_path):
    """The options of the test above leave the findings that matter."""
    workflow = tmp_path / "workflow.yml"
    workflow.write_text(
        "on: issues\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n"
        "      - uses: actions/checkout@v5\n      - run: echo ${{ github.event.issue.title }}\n"
    )
    checked = program("zizmor", "--offline", "--no-progress", "--min-severity=medium", workflow)
    assert checked.returncode != 0
    assert "template-injection" in checked.stdout
    assert "unpinned-uses" in checked.stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_their_commit(path):
    """A tag can be moved to other code. The comment says the version; Dependabot updates both."""
    used = re.findall(r"uses: (.*)", path.read_text(encoding="utf-8"))
    others = [one for one in used if not one.startswith("./.github/")]
    assert not [one for one in others if not PINNED.fullmatch(one)]


def test_one_action_has_one_commit():
    """All workflows use the same version of an action."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    commits: dict[str, set[str]] = {}
    for name, pin in re.findall(r"uses: ([\w./-]+)@(.*)", text):
        commits.setdefault(name, set()).add(pin)
    assert commits
    assert not {name: pins for name, pins in commits.items() if len(pins) > 1}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_only_read_unless_a_job_says_more(path):
    """The default is to read; each job that runs steps ends at a time, and keeps no credential."""
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert "concurrency" in workflow or set(workflow[True]) == {"workflow_call"}
    for name, job in workflow["jobs"].items():
        if "steps" not in job:
            continue
        assert job["timeout-minutes"] <= 90, name
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, name


def test_every_python_is_tested():
    """The matrix, with the job that reports coverage, has each Python that the packages promise."""
    jobs = read(GITHUB / "workflows" / "test.yml")["jobs"]
    tested = set(jobs["test"]["strategy"]["matrix"]["python"])
    tested |= {step["with"]["python-version"] for step in jobs["coverage"]["steps"][1:2]}
    assert tested == {"3.11", "3.12", "3.13", "3.14"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["requires-python"] == ">=3.11"
    setup = (ROOT / "scripts" / "setup").read_text(encoding="utf-8")
    assert "(3, 11) <= sys.version_info < (3, 15)" in setup


def test_the_image_is_verified_on_its_own_cpu():
    """The job of the image runs on ARM64, so nothing is emulated."""
    job = read(GITHUB / "workflows" / "test.yml")["jobs"]["image"]
    assert job["runs-on"].endswith("-arm")
    assert "scripts/verify-image --require-containers" in [step.get("run") for step in job["steps"]]


def test_dependabot_updates_every_kind_of_dependency_once_a_week():
    """One pull request for each ecosystem, from folders that have its files."""
    updates = read(GITHUB / "dependabot.yml")["updates"]
    files = {
        "uv": "uv.lock",
        "npm": "package-lock.json",
        "github-actions": ".github/workflows/test.yml",
        "docker": "Dockerfile",
    }
    assert [one["package-ecosystem"] for one in updates] == list(files)
    for one in updates:
        for folder in one.get("directories") or [one["directory"]]:
            assert (ROOT / folder.strip("/") / files[one["package-ecosystem"]]).is_file()
        assert one["schedule"] == {"interval": "weekly"}
        assert [group["patterns"] for group in one["groups"].values()] == [["*"]]


def test_codeowners_names_no_owner():
    """An owner must exist, and each fork has its own: the file is a template of valid paths."""
    lines = (GITHUB / "CODEOWNERS").read_text(encoding="utf-8").splitlines()
    assert all(line.startswith("#") for line in lines)
    paths = [line.split()[1] for line in lines if line.endswith("@ORGANIZATION/TEAM")]
    assert "*" in paths
    assert not [path for path in paths if path != "*" and not (ROOT / path.strip("/")).is_dir()]
