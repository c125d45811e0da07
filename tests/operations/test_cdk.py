"""The CDK's command runs at the terminal of the script: its output, its status, Ctrl-C."""

import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = """\
import subprocess, sys
from pathlib import Path
from operations import cdk

cdk._PROGRAM = Path(sys.argv[1])
print("before")
try:
    cdk.run_cdk("deploy", "a b", to_stderr=sys.argv[2] == "stderr")
except subprocess.CalledProcessError as error:
    sys.exit(error.returncode)
"""


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a shell's text as the CDK's command; it returns the process."""

    def run(text: str, output: str = "stdout") -> subprocess.CompletedProcess[str]:
        program = tmp_path / "cdk"
        program.write_text(f"#!/usr/bin/env bash\n{text}\n")
        program.chmod(0o755)
        # Ctrl-C is sent to all processes of a group, of which pytest should be none.
        return subprocess.run(
            [sys.executable, "-c", _SCRIPT, program, output],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
        )

    return run


def test_no_image_is_built_before_its_repository_is_made(run):
    """The CDK's command would build first, and a first deploy would fail without the repository."""
    done = run('printf "%s\\n" "$@" "$CDK_ASSET_PREBUILD"; exit 4')
    assert (done.returncode, done.stdout) == (4, "before\ndeploy\na b\nfalse\n")


def test_the_output_of_a_build_is_its_result_alone(run):
    """The command's own goes to standard error."""
    done = run("echo progress", "stderr")
    assert (done.returncode, done.stdout, done.stderr) == (0, "before\n", "progress\n")


def test_after_ctrl_c_the_script_continues(run):
    """The command has the status of an interrupted program, and the next step can run."""
    done = run("kill -INT 0; sleep 60")
    assert (done.returncode, done.stderr) == (130, "")
