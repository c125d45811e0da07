"""scripts/setup prints little, and repairs a setup that was interrupted.

Python and uv are stand-ins, so that each step can fail or be interrupted.
"""

import os
import shutil
import signal
import subprocess
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# As `python3`, it makes a .venv with copies of itself in it. It records each call. As `uv`, it
# finds .venv up to date if the last `uv sync` that ended had the same lock file.
_PROGRAM = textwrap.dedent("""\
    #!/usr/bin/env bash
    echo "$(basename "$0") $*" >> "$CALLS"
    case "$*" in
      "-c import sys; print"*) echo "$0"; exit 0 ;;
      "-c "*) exit "${OLD_PYTHON:-0}" ;;
      --version) echo "Python 3.9.1"; exit 0 ;;
      *--check*) cmp --silent uv.lock .venv/synced; exit ;;
      "-m venv"*) rm -rf .venv; mkdir -p .venv/bin; tee .venv/bin/{python,uv} < "$0" > /dev/null
                  chmod +x .venv/bin/* ;;
    esac
    for line in $(seq 100); do echo "installer line $line of: $*"; done
    if [[ "$*" == "sync "* ]]; then
      # Files of an installed package that are missing are not missed.
      [[ "$*" != *--reinstall* ]] && cmp --silent uv.lock .venv/synced || touch .venv/bin/embed
      cp uv.lock .venv/synced
    fi
    if [ -n "$STOP_AT" ] && [[ "$*" == *"$STOP_AT"* ]]; then
      if [ -n "$HANG" ]; then echo hangs > "$HANG"; read -r < "$HANG"; fi
      echo "no room on the disk" >&2
      exit 1
    fi
    """)


class Checkout:
    """A folder with scripts/setup, a lock file and the stand-ins."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls = root / "calls"
        (root / "scripts").mkdir()
        shutil.copy(ROOT / "scripts" / "setup", root / "scripts")
        (root / "uv.lock").write_text("numpy 1\n")
        command = 'source "$(dirname "$0")/setup"\necho "ready: $VIRTUAL_ENV"\n'
        (root / "scripts" / "command").write_text(command)
        (root / "python").write_text(_PROGRAM)
        (root / "python").chmod(0o755)

    def start(self, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
        """Start the command in a new session."""
        settings = {"CALLS": str(self.calls), "STOP_AT": "", "HANG": "", "UV_NO_SYNC": ""}
        settings |= variables
        return subprocess.Popen(
            ["bash", self.root / "scripts" / "command", *arguments],
            env={**os.environ, "PYTHON": str(self.root / "python"), **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, **variables: str) -> tuple[int, str, str]:
        """Run the command. Return its exit status, standard output and standard error."""
        self.calls.write_text("")
        process = self.start(*arguments, **variables)
        output, errors = process.communicate()
        return process.returncode, output, errors

    @property
    def made_from_nothing(self) -> bool:
        """Whether the last run made a new .venv."""
        return "venv --clear" in self.calls.read_text()


@pytest.fixture
def checkout(tmp_path):
    """Return a checkout that was never set up."""
    return Checkout(tmp_path)


def test_a_setup_prints_a_line_for_each_step(checkout):
    """The installers' output goes to the log. A second setup does nothing and prints nothing."""
    status, output, errors = checkout.run()
    assert (status, output) == (0, f"ready: {checkout.root}/.venv\n")
    lines = errors.splitlines()
    assert len(lines) == 3
    assert all(line.endswith(" s") for line in lines)
    assert (checkout.root / ".cache/setup.log").read_text().count("installer line") == 300
    assert checkout.run() == (0, output, "")
    assert "--check" in checkout.calls.read_text().splitlines()[-1]


def test_a_verbose_setup_shows_the_output_of_the_installers(checkout):
    """The calling script's `--verbose` is enough, as in `scripts/demo --verbose`."""
    assert checkout.run("--verbose")[2].count("installer line") == 300


@pytest.mark.parametrize("arguments", [(), ("--verbose",)])
def test_a_failed_setup_ends_the_command(checkout, arguments):
    """It prints the end of the log and names the file. The next setup makes a new .venv."""
    status, output, errors = checkout.run(*arguments, STOP_AT="sync")
    assert (status, output) == (1, "")
    assert errors.endswith("no room on the disk\n")
    if not arguments:
        assert f"the whole log is {checkout.root}/.cache/setup.log" in errors
        assert len(errors.splitlines()) == 24
    assert checkout.run()[:2] == (0, f"ready: {checkout.root}/.venv\n")
    assert checkout.made_from_nothing


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("step", ["venv", "uv-requirements.txt", "sync"])
def test_the_next_setup_repairs_an_interrupted_one(checkout, how, step):
    """It makes a new .venv, at whatever step the first one was interrupted."""
    pipe = checkout.root / "pipe"
    os.mkfifo(pipe)
    with checkout.start(STOP_AT=step, HANG=str(pipe)) as process:
        assert pipe.read_text() == "hangs\n"
        os.killpg(process.pid, how)
        output = process.communicate()[0]
    assert process.returncode != 0
    assert "ready" not in output
    assert checkout.run()[:2] == (0, f"ready: {checkout.root}/.venv\n")
    assert checkout.made_from_nothing


def test_a_changed_lock_file_updates_the_environment(checkout):
    """The .venv is kept, unless the update was interrupted."""
    assert checkout.run()[0] == 0
    (checkout.root / "uv.lock").write_text("numpy 2\n")
    assert checkout.run()[0] == 0
    assert not checkout.made_from_nothing
    assert "uv sync --locked" in checkout.calls.read_text().splitlines()[-1]
    (checkout.root / "uv.lock").write_text("numpy 3\n")
    assert checkout.run(STOP_AT="sync")[0] == 1
    assert checkout.run()[0] == 0
    assert checkout.made_from_nothing


def test_a_command_that_moved_to_another_package_is_installed_again(checkout):
    """It is removed with the package that had it before, and uv finds nothing to do."""
    checkout.run()
    (checkout.root / ".venv" / "bin" / "embed").unlink()
    assert checkout.run()[0] == 0
    assert (checkout.root / ".venv" / "bin" / "embed").exists()
    assert "--reinstall-package embedding-client" in checkout.calls.read_text()
    assert not checkout.made_from_nothing


def test_a_setup_can_be_skipped(checkout):
    """With uv's UV_NO_SYNC, the command uses the .venv as it is."""
    assert checkout.run(UV_NO_SYNC="1") == (0, f"ready: {checkout.root}/.venv\n", "")
    assert checkout.calls.read_text() == ""
    assert not (checkout.root / ".cache").exists()


@pytest.mark.parametrize("locale", ["C", "POSIX", "de_DE.ISO-8859-1", "C.UTF-8"])
def test_the_encoding_is_utf8(tmp_path, locale):
    """Whatever the locale of the shell: a folder's name may not be ASCII."""
    (tmp_path / "a space and ü").mkdir()
    checkout = Checkout(tmp_path / "a space and ü")
    command = checkout.root / "scripts" / "command"
    command.write_text(command.read_text() + "locale charmap\n")
    shown = f"ready: {checkout.root}/.venv\nUTF-8\n"
    assert checkout.run(LC_ALL=locale)[:2] == (0, shown)


def test_an_unsupported_python_is_refused(checkout):
    """The message names the supported versions and the one that was found."""
    status, output, errors = checkout.run(OLD_PYTHON="1")
    assert (status, output) == (1, "")
    assert errors.startswith("error: Python 3.11 to 3.14 is needed, Python 3.9.1 was found")


def test_two_setups_at_the_same_time_take_turns(checkout):
    """The second one finds the .venv of the first up to date."""
    with checkout.start() as one_setup, checkout.start() as other_setup:
        for process in (one_setup, other_setup):
            assert process.communicate()[0] == f"ready: {checkout.root}/.venv\n"
    assert checkout.calls.read_text().count("venv --clear") == 1
