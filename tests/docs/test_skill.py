"""The skill for agents has the form that they read, and its commands run.

tests/operations/test_migration.py runs those of a migration, and the rehearsal those of a deploy.
"""

import re
import shlex
import subprocess

import pytest
import yaml

from .pages import ROOT, SKILL


def test_an_agent_finds_the_skill():
    """Its name is that of its folder, the fields are in their limits, and llms.txt names it."""
    _, head, body = SKILL.read_text("utf-8").split("---\n", 2)
    fields = yaml.safe_load(head)
    assert fields.keys() == {"name", "description", "license", "compatibility"}
    assert fields["name"] == SKILL.parent.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fields["name"])
    assert len(fields["description"]) <= 1024
    assert len(fields["compatibility"]) <= 500
    assert len(body.splitlines()) < 500
    assert str(SKILL.relative_to(ROOT / "docs")) in (ROOT / "docs" / "llms.txt").read_text("utf-8")


@pytest.mark.slow
def test_the_commands_of_size_run():
    """From a clone, without an account."""
    size = SKILL.read_text("utf-8").partition("## Size")[2].partition("## Deploy")[0]
    commands = re.findall(r"^    (.+)$", size, re.MULTILINE)
    assert commands
    for command in commands:
        ran = subprocess.run(
            shlex.split(command), cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert (ran.returncode, "costs $" in ran.stdout) == (0, True), ran.stderr
