"""The files that GitHub reads are valid, and the checks of CI find nothing in the workflows."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
FORMS = [
    path for path in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) if path.stem != "config"
]


def program(name: str, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run a program of the environment in the root of the repository."""
    return subprocess.run(
        [Path(sys.executable).parent / name, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", sorted((GITHUB / "workflows").glob("*.yml"))),
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
