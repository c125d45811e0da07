"""Wheels: which are asked of pip, how they are unpacked, and the Python for the byte code."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from zip_builder import ZipError
from zip_builder.tree import (
    VERSION,
    download_wheels,
    find_python,
    requirements_without,
    unpack_wheel,
)

from .conftest import RECIPE


def test_a_package_is_left_out_with_its_hashes():
    """The others keep theirs, so pip still checks each."""
    text = (RECIPE / "requirements.txt").read_text()
    remaining = requirements_without(text, ["tokenizers"])
    pinned = [line.split("==")[0] for line in remaining.splitlines() if "==" in line]
    assert pinned == ["numpy", "onnxruntime", "orjson"]
    assert remaining in text
    assert requirements_without(text, []) == text[text.index("numpy") :]


def test_scripts_and_headers_are_not_unpacked(tmp_path):
    """They are not on the import path, and a script names this machine's Python."""
    wheel = tmp_path / "a.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a/", "")
        for name in ("a/x.py", "a-1.data/purelib/a/y.py", "a-1.data/scripts/a", "a-1.data/x"):
            archive.writestr(name, "pass\n")
    unpack_wheel(wheel, tmp_path / "out")
    unpacked = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.*")}
    assert unpacked == {"a/x.py", "a/y.py"}


def test_only_wheels_of_lambdas_machine_are_asked_for(tmp_path, monkeypatch):
    """Pip builds no source, and adds nothing that the file does not name."""
    words = []

    def run(command, **_):
        words.extend(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("zip_builder.tree.subprocess.run", run)
    download_wheels("", machine="aarch64", folder=tmp_path / "wheels")
    options = {"--no-deps", "--only-binary=:all:", "--require-hashes", "manylinux_2_28_aarch64"}
    assert options <= set(words)


def test_pips_reason_is_in_the_error(tmp_path):
    """A pin without a hash is refused before the index is asked."""
    with pytest.raises(ZipError, match="Hashes are required in --require-hashes mode"):
        download_wheels("orjson==3.13.0\n", machine="aarch64", folder=tmp_path / "wheels")


ANSWERS = f"#!/bin/sh\necho cpython {VERSION.replace('.', ' ')}\n"


@pytest.fixture
def empty(tmp_path, monkeypatch) -> Path:
    """Return the only folder of the PATH, without pyenv, without uv, and with another Python."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    _write(tmp_path / "venv" / "python", "#!/bin/sh\necho cpython 3 9\n")
    monkeypatch.setattr("zip_builder.tree.sys.executable", str(tmp_path / "venv" / "python"))
    monkeypatch.setattr(
        "zip_builder.tree.sys.base_prefix", str(tmp_path / "job" / "versions" / "3.11.9")
    )
    return tmp_path


def _write(program: Path, text: str) -> str:
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(text)
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize("shim", [False, True])
@pytest.mark.parametrize(
    "place",
    [
        "venv/python",
        f"python{VERSION}",
        f"pyenv/versions/{VERSION}.5/bin/python",
        f"job/versions/{VERSION}.5/bin/python",
    ],
)
def test_an_installed_one_is_found(empty, place, shim):
    """This process's, on the PATH, or in pyenv: its shims fail for a version that is off.

    The pyenv may be known only by the Python of this process.
    """
    if shim:
        _write(empty / f"python{VERSION}", "#!/bin/sh\nexit 127\n")
    expected = _write(empty / place, ANSWERS)
    assert find_python() == expected


def test_uv_installs_one_as_the_last_resort(empty, monkeypatch):
    """Uv downloads nothing before it was asked to install."""
    python = empty / "managed"
    install = f'install) printf "{ANSWERS}" > "{python}"; /bin/chmod +x "{python}" ;;'
    find = f'find) [ -e "{python}" ] && echo "{python}" ;;'
    _write(empty / "venv" / "uv", f'#!/bin/sh\ncase "$2" in\n  {install}\n  {find}\nesac\n')
    assert find_python() == str(python)


def test_without_any_the_error_says_how_to_get_one(empty):
    """Without byte code, each cold start would compile every module."""
    with pytest.raises(
        ZipError, match=f"Python {VERSION} is needed .* `uv python install {VERSION}`"
    ):
        find_python()


def test_uvs_reason_is_in_the_error(empty):
    """Without a way to the internet, its download fails."""
    failing = "echo 'error: Failed to download' >&2; echo '  cause: dns error' >&2; exit 1"
    _write(empty / "venv" / "uv", f'#!/bin/sh\n[ "$2" = install ] && {{ {failing}; }}\nexit 2\n')
    reason = r"only, and uv cannot install it: error: Failed to download cause: dns error; allowed"
    with pytest.raises(ZipError, match=reason):
        find_python()
