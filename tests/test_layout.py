"""The repository's layout: source roots, PyPI's constructs, and typed packages."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import constructs
import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE_ROOTS = ("constructs", "lambda_image", "client")
PACKAGES = {
    "embedding_kit": ROOT / "constructs" / "embedding_kit",
    "embedder": ROOT / "lambda_image" / "embedder",
    "jobs": ROOT / "lambda_image" / "jobs",
    "model_compiler": ROOT / "lambda_image" / "model_compiler",
    "embedding_client": ROOT / "client" / "embedding_client",
    "operations": ROOT / "operations",
}


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_a_source_root_is_no_package(root):
    """An `__init__.py` in `constructs` would hide PyPI's package of the same name."""
    assert not (ROOT / root / "__init__.py").exists()


def test_constructs_is_pypis():
    """`import constructs` finds PyPI's package instead of the source root of the same name."""
    assert not Path(constructs.__file__).is_relative_to(ROOT / "constructs")


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_a_package_is_marked_as_typed(package):
    """Each package has a `py.typed` file, so that its users get its types."""
    assert (PACKAGES[package] / "py.typed").is_file()


def test_embedding_kit_is_never_imported_through_constructs():
    """The linter refuses an import that would create a second copy of every class."""
    source = "import constructs.embedding_kit"
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--select", "TID251", "-"],
        input=source,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert "`constructs.embedding_kit` is banned" in done.stdout


def test_ruff_reads_no_folder_that_git_ignores(tmp_path):
    """Without `.git` it does not read .gitignore, and the tests leave files in .cache."""
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text("utf-8"), "utf-8")
    lines = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    folders = [line.strip("/").replace("*", "a") for line in lines if line.endswith("/")]
    for name in [*folders, "source"]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "module.py").touch()
    command = [Path(sys.executable).with_name("ruff"), "check", "--show-files", tmp_path]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    modules = [Path(line) for line in shown.splitlines() if line.endswith(".py")]
    assert [module.parent.name for module in modules] == ["source"]


#: What a path is called in the expression of an f-string.
PATH = re.compile(r"executable|folder|path|root|ROOT|\bplace\b|home|HOME")


def unquoted_paths(source: str) -> list[str]:
    """Return the paths that f-strings with a shell's text have without `shlex`."""
    shell = re.compile(r"#!/(usr/)?bin/|(^|&& |; )(cd|source|exec) |\becho [^|]*> ?$")
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            text = [str(part.value) for part in node.values if isinstance(part, ast.Constant)]
            values = [
                ast.unparse(part.value)
                for part in node.values
                if isinstance(part, ast.FormattedValue)
            ]
            if any(shell.search(each) for each in text):
                found += [v for v in values if PATH.search(v) and not v.startswith("shlex.")]
    return found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("f'source {ROOT}/scripts/setup'", ["ROOT"]),
        ("f'#!/bin/sh\\nexec {sys.executable} \"$@\"'", ["sys.executable"]),
        ("f'#!/bin/sh\\n' f'cat \"{tmp_path}/a\"'", ["tmp_path"]),
        ("f'a; cd {shlex.quote(str(folder))}; exit {status}'", []),
        ("f'{folder} is a source of errors'", []),
    ],
)
def test_a_path_without_quotes_is_found(source, found):
    """Also within quotes: a path may have these, too."""
    assert unquoted_paths(source) == found


def test_each_path_in_a_text_for_a_shell_is_quoted():
    """People have checkouts and temporary folders with spaces."""
    skipped = {".venv", ".cache", "node_modules", "cdk.out"}
    sources = {
        path: path.read_text("utf-8")
        for path in ROOT.rglob("*.py")
        if not skipped & set(path.relative_to(ROOT).parts)
    }
    quick = re.compile(r"#!/|\b(cd|source|exec) |> ?{")
    unquoted = {p: unquoted_paths(text) for p, text in sources.items() if quick.search(text)}
    assert not {path: found for path, found in unquoted.items() if found}
