"""The repository's layout: source roots, PyPI's constructs, and typed packages."""

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
