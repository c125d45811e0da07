"""Wheels: which are asked of pip, how they are unpacked, and what an error says."""

import subprocess
import zipfile

import pytest

from zip_builder import ZipError
from zip_builder.tree import download_wheels, requirements_without, unpack_wheel

from .conftest import RECIPE


def test_a_package_is_left_out_with_its_hashes():
    """The others keep theirs, so pip still checks each."""
    text = (RECIPE / "requirements.txt").read_text()
    found = requirements_without(text, ["tokenizers"])
    pinned = [line.split("==")[0] for line in found.splitlines() if "==" in line]
    assert pinned == ["numpy", "onnxruntime", "orjson"]
    assert found in text
    assert requirements_without(text, []) == text[text.index("numpy") :]


def test_scripts_and_headers_are_not_unpacked(tmp_path):
    """They are not on the import path, and a script names this machine's Python."""
    wheel = tmp_path / "a.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a/", "")
        for name in ("a/x.py", "a-1.data/purelib/a/y.py", "a-1.data/scripts/a", "a-1.data/x"):
            archive.writestr(name, "pass\n")
    unpack_wheel(wheel, tmp_path / "out")
    found = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.*")}
    assert found == {"a/x.py", "a/y.py"}


def test_only_wheels_of_lambdas_machine_are_asked_for(tmp_path, monkeypatch):
    """Pip builds no source, and adds nothing that the file does not name."""
    asked = []

    def run(command, **_):
        asked.extend(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("zip_builder.tree.subprocess.run", run)
    download_wheels("", machine="aarch64", folder=tmp_path / "wheels")
    options = {"--no-deps", "--only-binary=:all:", "--require-hashes", "manylinux_2_28_aarch64"}
    assert options <= set(asked)


def test_pips_reason_is_in_the_error(tmp_path):
    """A pin without a hash is refused before the index is asked."""
    with pytest.raises(ZipError, match="Hashes are required in --require-hashes mode"):
        download_wheels("orjson==3.13.0\n", machine="aarch64", folder=tmp_path / "wheels")
