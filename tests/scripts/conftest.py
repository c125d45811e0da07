"""The scripts in another folder, with a program in the place of Python and of the CDK's command."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


#: Runs a script with arguments and variables; returns the exit status and the calls.
Run = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def scripts_with(tmp_path: Path) -> Callable[[str], Run]:
    """Return a function that copies the scripts, given the program, which records its calls.

    They are in the file `$CALLS`. A script has none of this shell's variables of AWS.
    """

    def copy(program: str) -> Run:
        scripts, skipped = tmp_path / "scripts", shutil.ignore_patterns("node_modules")
        shutil.copytree(ROOT / "scripts", scripts, ignore=skipped)
        for file in (tmp_path / ".venv/bin/python", scripts / "node_modules/.bin/cdk"):
            file.parent.mkdir(parents=True)
            file.write_text(program)
            file.chmod(0o755)
        # The installed packages are newer than the lock file.
        os.utime(scripts / "package-lock.json", (0, 0))
        (scripts / "node_modules" / ".package-lock.json").touch()
        calls = tmp_path / "calls"

        def run(name: str, *arguments: str, **variables: str) -> tuple[int, list[str]]:
            calls.write_text("")
            shell = {key: value for key, value in os.environ.items() if key[:4] != "AWS_"}
            shell |= {"CALLS": str(calls), "UV_NO_SYNC": "1", **variables}
            command = ["bash", str(scripts / name), *arguments]
            # Ctrl-C is sent to all processes of a group, of which pytest should be none.
            done = subprocess.run(
                command, env=shell, capture_output=True, check=False, start_new_session=True
            )
            (tmp_path / "output").write_bytes(done.stdout)
            (tmp_path / "errors").write_bytes(done.stderr)
            return done.returncode, calls.read_text().splitlines()

        return run

    return copy
