"""The examples for other CI systems are valid, and call what there is."""

import json
import re
import subprocess
import sys
from pathlib import Path

import yaml

from .pages import BLOCK, ROOT

PAGE = (ROOT / "docs" / "releases.md").read_text("utf-8").partition("## In CI")[2]
GITLAB, BUILD = [one["code"] for one in BLOCK.finditer(PAGE) if one["language"] == "yaml"][:2]


def test_gitlab_accepts_the_example(tmp_path):
    """By its own schema."""
    file = tmp_path / "gitlab-ci.yml"
    file.write_text(GITLAB)
    program = Path(sys.executable).with_name("check-jsonschema")
    command = [program, "--builtin-schema", "vendor.gitlab-ci", file]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def test_both_run_the_same_commands():
    """The tests, then a deploy that asks nothing."""
    build = yaml.safe_load(BUILD)
    assert build["version"] == 0.2
    commands = build["phases"]["build"]["commands"]
    assert commands == yaml.safe_load(GITLAB)["deploy"]["script"][-2:]
    programs = re.findall(r"scripts/[a-z]+", json.dumps(commands))
    assert programs == ["scripts/test", "scripts/deploy"]
