"""How commands end if the reader of their output has gone."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OF_SCRIPTS = {
    name
    for script in (ROOT / "scripts").iterdir()
    if script.is_file()
    for name in re.findall(r"python -m ((?:operations|tools)\S*)", script.read_text())
}
LONG = "from embedding_kit.programs import exit_with; exit_with(lambda: print('x' * 100_000))"


def without_reader(*arguments, stdout=None):
    """Run Python with an output, by default one that nobody reads; return status and errors."""
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


@pytest.mark.parametrize("name", sorted(OF_SCRIPTS))
def test_every_program_of_the_scripts_ends_so(name):
    """A package is run by its `__main__`."""
    spec = find_spec(name)
    spec = spec if spec.submodule_search_locations is None else find_spec(f"{name}.__main__")
    code = Path(spec.origin).read_text("utf-8")
    assert re.search(r'\nif __name__ == "__main__":\n    exit_with\([^\n]*\n$', code)
