"""The example for another CI system is valid."""

import subprocess
import sys
from pathlib import Path

from .pages import BLOCK, ROOT

PAGE = (ROOT / "docs" / "releases.md").read_text("utf-8").partition("## In CI")[2]
GITLAB = next(one["code"] for one in BLOCK.finditer(PAGE) if one["language"] == "yaml")


def test_gitlab_accepts_the_example(tmp_path):
    """By its own schema."""
    file = tmp_path / "gitlab-ci.yml"
    file.write_text(GITLAB)
    program = Path(sys.executable).with_name("check-jsonschema")
    command = [program, "--builtin-schema", "vendor.gitlab-ci", file]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
