"""The scripts in another folder, with a program in the place of Python and of the CDK's command."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def scripts_with(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that copies the scripts, given the program; it returns their folder."""

    def copy(program: str) -> Path:
        scripts, skipped = tmp_path / "scripts", shutil.ignore_patterns("node_modules")
        shutil.copytree(ROOT / "scripts", scripts, ignore=skipped)
        for file in (tmp_path / ".venv/bin/python", scripts / "node_modules/.bin/cdk"):
            file.parent.mkdir(parents=True)
            file.write_text(program)
            file.chmod(0o755)
        # The installed packages are newer than the lock file.
        os.utime(scripts / "package-lock.json", (0, 0))
        (scripts / "node_modules" / ".package-lock.json").touch()
        return scripts

    return copy
