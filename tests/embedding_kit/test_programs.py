"""How commands end if the reader of their output has gone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONG = "from embedding_kit.programs import exit_with; exit_with(lambda: print('x' * 100_000))"


def without_reader(*arguments, stdout=None):
    """Run Python, by default with a closed pipe as output; return status and errors."""
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(
        [sys.executable, *arguments],
        stdout=writer if stdout is None else stdout,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"},
        text=True,
        check=False,
    )
    os.close(writer)
    return ran.returncode, ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["-c", LONG],
        ["-u", "-c", LONG],
        ["-m", "embedding_kit"],
        ["-m", "embedding_kit", "model_compiler", "--help"],
        ["-m", "operations.base_image", "--help"],
        ["-m", "tools.cost", "--help"],
    ],
)
def test_a_command_ends_quietly_without_a_reader(arguments):
    """As `embed` does: with status 1."""
    assert without_reader(*arguments) == (1, "")


def test_another_broken_pipe_is_an_error():
    """It is not the reader's doing."""
    code = "from embedding_kit.programs import exit_with; import os; r, w = os.pipe(); os.close(r)"
    status, errors = without_reader("-c", f"{code}; exit_with(lambda: os.write(w, b'x'))", stdout=2)
    assert status == 1
    assert errors.endswith("BrokenPipeError: [Errno 32] Broken pipe\n")
