"""scripts/setup: quiet, and whole after it was interrupted. The installers are stand-ins."""

import os
import shutil
import signal
import subprocess
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# As `python3`, it makes an environment whose programs are copies of it. Each call is written down.
_PROGRAM = textwrap.dedent("""\
    #!/usr/bin/env bash
    echo "$(basename "$0") $*" >> "$CALLS"
    case "$1 $2" in
      "-c "*) exit 0 ;;
      "--version ") echo "Python 3.13.1"; exit 0 ;;
      "-m venv") rm -rf .venv; mkdir -p .venv/bin; cp "$0" .venv/bin/python; cp "$0" .venv/bin/uv ;;
    esac
    for line in $(seq 100); do echo "installer line $line of: $*"; done
    if [ -n "$STOP_AT" ] && [[ "$*" == *"$STOP_AT"* ]]; then
      if [ -n "$HANG" ]; then echo hangs > "$HANG"; read -r < "$HANG"; fi
      echo "no room on the disk" >&2
      exit 1
    fi
    """)


class Checkout:
    """A folder with scripts/setup and what it reads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls = root / "calls"
        (root / "scripts").mkdir()
        shutil.copy(ROOT / "scripts" / "setup", root / "scripts")
        (root / "lambda_image").mkdir()
        for name in ("requirements.txt", "pyproject.toml", "lambda_image/requirements.txt"):
            (root / name).write_text("numpy==1\n")
        command = 'source "$(dirname "$0")/setup"\necho "ready: $VIRTUAL_ENV"\n'
        (root / "scripts" / "command").write_text(command)
        (root / "python").write_text(_PROGRAM)
        (root / "python").chmod(0o755)

    def start(self, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
        """Starts the command in a session of its own."""
        settings = {"CALLS": str(self.calls), "STOP_AT": "", "HANG": "", **variables}
        return subprocess.Popen(
            ["bash", self.root / "scripts" / "command", *arguments],
            env={**os.environ, "PYTHON": str(self.root / "python"), **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, **variables: str) -> tuple[int, str, str]:
        """Runs the command; returns its status, standard output and standard error."""
        self.calls.write_text("")
        process = self.start(*arguments, **variables)
        output, errors = process.communicate()
        return process.returncode, output, errors

    @property
    def made_anew(self) -> bool:
        """Whether the last run made the environment from nothing."""
        return "venv --clear" in self.calls.read_text()


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_a_setup_prints_a_line_for_each_step(checkout):
    """What the installers print goes to the log; a second setup does nothing and prints nothing."""
    status, output, errors = checkout.run()
    assert (status, output) == (0, f"ready: {checkout.root}/.venv\n")
    lines = errors.splitlines()
    assert len(lines) == 5
    assert all(line.endswith(" s") for line in lines)
    assert (checkout.root / ".cache/setup.log").read_text().count("installer line") == 500
    assert checkout.run() == (0, output, "")


def test_a_verbose_setup_shows_everything(checkout):
    """As `scripts/demo --verbose` asks."""
    assert checkout.run("--verbose")[2].count("installer line") == 500


@pytest.mark.parametrize("arguments", [(), ("--verbose",)])
def test_a_setup_that_fails_ends_the_command(checkout, arguments):
    """It shows the end of the log and names the file; the next one makes the environment anew."""
    status, output, errors = checkout.run(*arguments, STOP_AT="-r requirements.txt")
    assert (status, output) == (1, "")
    assert errors.endswith("no room on the disk\n")
    if not arguments:
        assert f"the whole log is {checkout.root}/.cache/setup.log" in errors
        assert len(errors.splitlines()) == 24
    assert checkout.run()[:2] == (0, f"ready: {checkout.root}/.venv\n")
    assert checkout.made_anew


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("step", ["venv", "uv==", "-r requirements.txt", "aws-sam-cli", "-e ."])
def test_an_interrupted_setup_is_made_good(checkout, how, step):
    """Wherever it was ended: what it left is not trusted."""
    pipe = checkout.root / "pipe"
    os.mkfifo(pipe)
    with checkout.start(STOP_AT=step, HANG=str(pipe)) as process:
        assert pipe.read_text() == "hangs\n"
        os.killpg(process.pid, how)
        output = process.communicate()[0]
    assert process.returncode != 0
    assert "ready" not in output
    assert checkout.run()[:2] == (0, f"ready: {checkout.root}/.venv\n")
    assert checkout.made_anew


def test_changed_pins_keep_the_environment(checkout):
    """It is brought up to date; an update that was interrupted is not trusted either."""
    assert checkout.run()[0] == 0
    (checkout.root / "requirements.txt").write_text("numpy==2\n")
    assert checkout.run()[0] == 0
    assert not checkout.made_anew
    assert "pip install" in checkout.calls.read_text()
    (checkout.root / "requirements.txt").write_text("numpy==3\n")
    assert checkout.run(STOP_AT="-e .")[0] == 1
    assert checkout.run()[0] == 0
    assert checkout.made_anew


def test_two_setups_beside_each_other_take_turns(checkout):
    """The second finds what the first has made."""
    with checkout.start() as first, checkout.start() as second:
        for process in (first, second):
            assert process.communicate()[0] == f"ready: {checkout.root}/.venv\n"
    assert checkout.calls.read_text().count("venv --clear") == 1
