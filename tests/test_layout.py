"""Rules for the layout: source roots, PyPI's constructs, and allowed imports between packages."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import constructs
import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE_ROOTS = ("constructs", "lambda_image", "client", "local")
PACKAGES = {
    "embedding_kit": ROOT / "constructs" / "embedding_kit",
    "embedder": ROOT / "lambda_image" / "embedder",
    "release_check": ROOT / "lambda_image" / "release_check",
    "model_compiler": ROOT / "lambda_image" / "model_compiler",
    "embedding_client": ROOT / "client" / "embedding_client",
}
#: Allowed imports between packages: the compiler tests an artifact with the embedder that will
#: serve it, and the release check reads its manifest.
ALLOWED = {("model_compiler", "embedder"), ("release_check", "embedder")}


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_a_source_root_is_no_package(root):
    """An `__init__.py` in `constructs` would hide PyPI's package of the same name."""
    assert not (ROOT / root / "__init__.py").exists()


def test_constructs_is_pypis():
    """`import constructs` finds PyPI's package instead of the source root of the same name."""
    assert not Path(constructs.__file__).is_relative_to(ROOT / "constructs")


@pytest.mark.parametrize("folder", sorted((ROOT / "tests").rglob("*/")), ids=str)
def test_no_folder_of_tests_is_a_package(folder):
    """Test modules are imported by path, so that two of them can have the same name."""
    assert not (folder / "__init__.py").exists()


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_a_package_tells_that_it_is_typed(package):
    """Each package has a `py.typed` file, so that its users get its types."""
    assert (PACKAGES[package] / "py.typed").is_file()


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_the_programs_do_not_know_each_other(package):
    """The packages share the artifact and the environment variables, but no code."""
    imported = {
        (str(path.relative_to(ROOT)), other)
        for path in PACKAGES[package].rglob("*.py")
        for other in _imports(path)
        if other in PACKAGES and other != package and (package, other) not in ALLOWED
    }
    assert imported == set()


def test_only_synth_reads_the_cdk():
    """Packages for Lambda, compilation and clients do not depend on the CDK."""
    imported = {
        (package, other)
        for package in PACKAGES
        if package != "embedding_kit"
        for path in PACKAGES[package].rglob("*.py")
        for other in _imports(path)
        if other in {"aws_cdk", "constructs", "pydantic"}
    }
    assert imported == set()


def test_one_module_reads_the_environments_files():
    """The files with an environment's settings are parsed by one module."""
    readers = {
        str(path.relative_to(ROOT))
        for folder in (ROOT / "constructs", ROOT / "stacks")
        for path in folder.rglob("*.py")
        if "tomllib" in _imports(path)
    }
    assert readers == {"constructs/embedding_kit/environment.py"}


def test_the_embedder_reads_the_environment_in_one_place():
    """The handler passes it to the settings, and the package sets OpenBLAS's threads in it."""
    readers = {
        path.name
        for path in PACKAGES["embedder"].rglob("*.py")
        if re.search(r"\b(environ|getenv)\b", path.read_text())
    }
    assert readers == {"settings.py", "handler.py", "__init__.py"}


def test_settings_need_no_cdk():
    """An environment's settings can be read and tested without starting a Node process."""
    folder = ROOT / "constructs" / "embedding_kit" / "settings"
    imported = {name for path in folder.rglob("*.py") for name in _imports(path)}
    assert not imported & {"aws_cdk", "constructs", "jsii"}


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
    assert "TID251" in done.stdout


def _imports(path: Path) -> set[str]:
    """Return the top-level names of all modules that a module imports, at any level."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found
