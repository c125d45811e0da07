"""No command imports from the current folder, where a model's files may be, or those of anybody."""

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .pages import PAGES, ROOT

TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").iterdir())
IMAGE = ROOT / "lambda_image"
#: The packages with commands that users run in a folder of theirs.
PROGRAMS = sorted(path.parent.name for path in IMAGE.glob("*/__init__.py"))
INSTALLED = {*importlib.metadata.packages_distributions(), *PROGRAMS}


def documented() -> list[str]:
    """Return each module of an installed package that a page or a program runs with `-m`."""
    sources = [*PAGES, *IMAGE.rglob("*.py")]
    found = {
        name
        for source in sources
        for name in re.findall(r"python (?:-P )?-m ([a-z_.]*[a-z_])", source.read_text("utf-8"))
    }
    found |= {".".join(path.parent.relative_to(IMAGE).parts) for path in IMAGE.rglob("__main__.py")}
    return sorted(name for name in found if name.partition(".")[0] in PROGRAMS)


class Folder:
    """A folder with a module of each name that a program could import, which leaves a mark."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.path = path
        self._marks = path.parent / f"{path.name}.marks"
        first = path / "__planted.py"
        first.write_text(
            f"with open({str(self._marks)!r}, 'a') as marks:\n    marks.write(__name__)\n"
        )
        for name in INSTALLED | sys.stdlib_module_names:
            os.link(first, path / f"{name}.py")

    def run(self, *command: str | Path, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run a command in the folder; fail if it imported a module from there."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        done = subprocess.run(
            command,
            cwd=self.path,
            env=kept | variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not self._marks.exists(), f"{command} imported {self._marks.read_text()}"
        return done


@pytest.fixture
def folder(tmp_path) -> Folder:
    """Return a folder that a user may stand in."""
    return Folder(tmp_path / "model")


@pytest.mark.parametrize("module", documented())
def test_a_documented_command_imports_nothing_from_there(folder, module):
    """The pages, the messages and the helps write `python -P -m`."""
    done = folder.run(sys.executable, "-P", "-m", module, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(rf"^usage: (python -P -m )?{module} ", done.stdout)


def test_each_documented_command_has_the_option():
    """Without it, Python puts the current folder first on the path."""
    bare = re.compile(rf"python -m (?:{'|'.join(PROGRAMS)})\b")
    sources = [*PAGES, *TEMPLATES, *IMAGE.rglob("*.py")]
    assert not [source for source in sources if bare.search(source.read_text("utf-8"))]


@pytest.mark.parametrize("module", documented())
def test_without_the_option_no_package_that_is_installed_comes_from_there(folder, module):
    """Of the standard library, Python has imported a part before the program's first line."""
    for name in sys.stdlib_module_names | {module.partition(".")[0]}:
        (folder.path / f"{name}.py").unlink()
    done = folder.run(sys.executable, "-m", module, "--help")
    assert (done.returncode, done.stderr) == (0, "")


def test_after_setup_the_option_is_not_needed(folder):
    """`source scripts/setup` sets it for every Python that is started."""
    program = f"source {ROOT}/scripts/setup && cd {folder.path} && python -m model_compiler --help"
    done = folder.run("bash", "-c", program, UV_NO_SYNC="1")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["batch", "texts", "out", "--local", "1", "--artifact", "none"],
        ["index", "load", "out", "arn:aws:s3vectors:eu-west-1:1:bucket/b/index/i", "--local"],
        ["load", "--help"],
    ],
)
def test_embed_and_the_programs_that_it_starts_import_nothing_from_there(folder, command):
    """`embed` runs the local job, the local load and the load test in its place."""
    folder.run(Path(sys.executable).with_name("embed"), *command)
