"""The skill for agents has the form that they read.

test_commands.py runs its commands, tests/operations/test_migration.py those of a migration, and the
rehearsal those of a deploy.
"""

import re

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
