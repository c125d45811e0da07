"""The copy to deploy from: the user's files, with a list of changes."""

import subprocess
import tomllib
from pathlib import Path

import pytest

from tools.rehearsal.deploy.checkout import Checkout, copy_checkout

FILE = """\
# A comment that stays.
[model]
name = "google/embeddinggemma-300m"

[callers]
accounts = ["111122223333"]
"""

GITIGNORE = "ignored\n.venv/\nnode_modules/\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Make a repository with an environment, an uncommitted file and an ignored one."""
    root = tmp_path / "source"
    for name, text in {
        "environments/dev.toml": FILE,
        "lambda_image/embedder/aws_lambda/handler.py": "A = 1\n",
        ".gitignore": GITIGNORE,
        "ignored": "",
        ".venv/bin/python": "",
        "scripts/setup": "",
        "scripts/node_modules/cdk": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "--quiet", root], check=True)
    return root


@pytest.fixture
def checkout(source: Path, tmp_path: Path) -> Checkout:
    """Its copy."""
    return copy_checkout(source, tmp_path / "copy", "dev")


def settings(checkout: Checkout) -> dict:
    return tomllib.loads(checkout.file.read_text())


def test_it_has_the_files_that_git_tracks_or_would_add(checkout):
    """Installed packages are linked."""
    assert (checkout.root / "lambda_image/embedder/aws_lambda/handler.py").is_file()
    assert not (checkout.root / "ignored").exists()
    assert (checkout.root / ".venv/bin/python").is_file()
    assert (checkout.root / ".venv").is_symlink()
    assert (checkout.root / "scripts/node_modules/cdk").is_file()


def test_the_users_files_are_unchanged(checkout, source):
    """The rehearsal changes only the copy."""
    checkout.let_call("arn:aws:iam::1:role/caller")
    checkout.use_demo_model()
    checkout.change_code()
    assert (source / "environments/dev.toml").read_text() == FILE
    assert (source / "lambda_image/embedder/aws_lambda/handler.py").read_text() == "A = 1\n"


def test_a_caller_is_added_and_listed(checkout):
    """The other callers and the rest of the file are unchanged."""
    checkout.let_call("arn:aws:iam::1:role/caller")
    callers = {"accounts": ["111122223333"], "roles": ["arn:aws:iam::1:role/caller"]}
    assert settings(checkout)["callers"] == callers
    assert checkout.file.read_text().startswith("# A comment that stays.")
    assert checkout.changes == [
        "environments/dev.toml: callers.roles: the rehearsal's own role caller was added"
    ]


def test_a_model_that_needs_a_hub_is_replaced_and_listed(checkout):
    """A model that needs no hub is kept, and no change is listed."""
    checkout.use_demo_model()
    assert settings(checkout)["model"] == {"name": "sentence-transformers/all-MiniLM-L6-v2"}
    assert len(checkout.changes) == 1
    checkout.use_demo_model()
    assert len(checkout.changes) == 1
