"""Finishing a layer: unneeded files removed, unchecked byte code, and reproducible bytes."""

import importlib.util
import marshal
import subprocess
import sys
from pathlib import Path

import pytest

import finish_layer


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """Return a layer with a module, a test, a header and a file that only its owner can read."""
    task = tmp_path / "layer" / "var" / "task"
    for name, text in {
        "lib/__init__.py": "VALUE = 1\n",
        "lib/tests/test_lib.py": "assert False\n",
        "lib/lib.h": "int x;\n",
        "lib/tools/make.py": "pass\n",
    }.items():
        (task / name).parent.mkdir(parents=True, exist_ok=True)
        (task / name).write_text(text)
    (task / "lib" / "__init__.py").chmod(0o600)
    return tmp_path / "layer"


def names(layer: Path) -> set[str]:
    return {str(p.relative_to(layer / "var" / "task")) for p in layer.rglob("*") if p.is_file()}


def test_what_is_named_is_removed(layer):
    """A name is removed in every folder with its contents, and a path only at its location."""
    finish_layer.finish(layer, remove=["tests", "*.h", "lib/tools"])
    compiled = f"lib/__pycache__/__init__.{sys.implementation.cache_tag}.pyc"
    assert names(layer) == {"lib/__init__.py", compiled}


def test_byte_code_is_never_checked_and_tells_where_it_will_stand(layer):
    """The byte code is unchecked (PEP 552: hash-based, without bit 1) and has its final path."""
    finish_layer.finish(layer)
    compiled = next((layer / "var/task/lib/__pycache__").glob("__init__*.pyc")).read_bytes()
    assert compiled[:4] == importlib.util.MAGIC_NUMBER
    assert int.from_bytes(compiled[4:8], "little") == 0b01
    assert marshal.loads(compiled[16:]).co_filename == "/var/task/lib/__init__.py"


def test_everybody_may_read_it_and_times_are_fixed(layer):
    """Lambda's user owns no file, and equal files give an equal layer."""
    finish_layer.finish(layer)
    paths = [layer, *layer.rglob("*")]
    assert all(path.stat().st_mode & 0o004 for path in paths)
    assert all(path.stat().st_mode & 0o001 for path in paths if path.is_dir())
    assert {int(path.stat().st_mtime) for path in paths} == {315_532_800}


def test_a_module_that_does_not_compile_is_an_error(layer, capsys):
    """A syntax error fails the build instead of a cold start."""
    (layer / "var" / "task" / "lib" / "broken.py").write_text("def\n")
    with pytest.raises(ValueError, match="does not compile"):
        finish_layer.finish(layer)
    capsys.readouterr()


def test_as_a_command_it_says_what_is_wrong(layer):
    """The build's log has one line with the error instead of a traceback."""
    command = [sys.executable, finish_layer.__file__, str(layer), "--remove", "lib/gone"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: nothing to remove: ")
