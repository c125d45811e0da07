"""No command imports from the current folder, where a model's files may be, or those of anybody."""

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from embedding_kit.programs import PROGRAMS

from .pages import PAGES, ROOT

TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").iterdir())
IMAGE = ROOT / "lambda_image"
PACKAGES = sorted(path.parent.name for path in IMAGE.glob("*/__init__.py"))
INSTALLED = {*importlib.metadata.packages_distributions(), *PACKAGES}


def documented() -> list[str]:
    """Return each program that a page or a message runs with `embedding-kit`."""
    sources = [*PAGES, *IMAGE.rglob("*.py")]
    return sorted(
        {
            name
            for source in sources
            for name in re.findall(
                r"embedding-kit ([a-z]+[._][a-z_.]*[a-z])", source.read_text("utf-8")
            )
        }
    )


def test_the_documented_programs_are_those_of_the_command():
    """No page or message names another one."""
    assert documented() == sorted(PROGRAMS)


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


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_imports_nothing_from_there(folder, program):
    """Neither by the command, nor as `embed` starts it."""
    module = [sys.executable, "-P", "-m", "embedding_kit"]
    for command in ([Path(sys.executable).with_name("embedding-kit")], module):
        done = folder.run(*command, program, "--help")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"usage: embedding-kit {program} ")


def test_no_page_or_message_runs_a_program_as_a_module():
    """An installed package has none of these names, and Python would search the current folder."""
    module = re.compile(rf"python (?:-P )?-m (?:embedding_kit|{'|'.join(PACKAGES)})\b")
    sources = [*PAGES, *TEMPLATES, *IMAGE.rglob("*.py")]
    found = {source.name for source in sources if module.search(source.read_text("utf-8"))}
    assert not found


@pytest.mark.parametrize("module", PROGRAMS)
def test_a_module_of_the_repository_imports_no_installed_package_from_there(folder, module):
    """Of the standard library, Python has imported a part before the program's first line."""
    for name in sys.stdlib_module_names | {module.partition(".")[0]}:
        (folder.path / f"{name}.py").unlink()
    done = folder.run(sys.executable, "-m", module, "--help")
    assert (done.returncode, done.stderr) == (0, "")


def test_after_setup_the_option_is_not_needed(folder):
    """`source scripts/setup` sets it for every Python that is started."""
    program = 'source "$0/scripts/setup" && cd "$1" && python -m model_compiler --help'
    done = folder.run("bash", "-c", program, str(ROOT), str(folder.path), UV_NO_SYNC="1")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["batch", "texts", "out", "--local", "1", "--artifact", "none"],
        ["index", "load", "out", "arn:aws:s3vectors:eu-west-1:1:bucket/b/index/i", "--local"],
    ],
)
def test_embed_and_the_programs_that_it_starts_import_nothing_from_there(folder, command):
    """`embed` runs the local job and the local load in its place."""
    folder.run(Path(sys.executable).with_name("embed"), *command)
