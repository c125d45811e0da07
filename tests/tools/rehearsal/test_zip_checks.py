"""The checks of a zip: the rules of the layers, each broken once, and kept by the real one."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from embedding_kit.settings import Model
from embedding_kit.zip_command import build_command
from tools.rehearsal.image.report import Report
from tools.rehearsal.image.zip_checks import build_zip, check_zip
from zip_builder.cache import default_cache

MINILM = Model(name="sentence-transformers/all-MiniLM-L6-v2")
#: The headers of a library for ARM64 and for x86-64.
ARM, X86 = (b"\x7fELF" + bytes(14) + machine for machine in (b"\xb7\x00", b"\x3e\x00"))


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """Return the checks that fail for a zip with these files."""
    monkeypatch.setattr("tools.rehearsal.image.zip_checks.find_python", lambda: sys.executable)

    def check(files: dict[str, bytes]) -> list[str]:
        archive = tmp_path / "function.zip"
        with zipfile.ZipFile(archive, "w") as opened:
            for name, content in {"artifact/manifest.json": b"{}", **files}.items():
                entry = zipfile.ZipInfo(name)
                entry.external_attr = 0o100644 << 16
                opened.writestr(entry, content)
        report = Report(title="zip")
        check_zip(report, archive)
        return [row.checked for row in report.broken]

    return check


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"numpy/core.so": X86}, "each of its 1 libraries is for ARM64"),
        ({"numpy/tests/test_core.py": b""}, "no build stages, package caches, tests"),
        ({"onnxruntime/capi/libonnxruntime.so.1": ARM}, "no build stages, package caches, tests"),
        ({"a/b.so": bytes(1_000_000), "c/d.so": bytes(1_000_000)}, "no file of 1 MB or more is"),
        ({"embedder/aws_lambda/handler.py": b"pass\n"}, "has its .pyc"),
    ],
)
def test_what_a_layer_may_not_have_no_zip_has(broken, files, found):
    """Each broken zip fails the check that names its fault."""
    assert any(found in checked for checked in broken(files))


@pytest.mark.slow
def test_the_zip_of_minilm_keeps_every_rule_and_its_sizes(tmp_path):
    """Up to 50 MB, and 105 MB unpacked; built again from nothing but its wheels, the same bytes."""
    archive = build_zip(MINILM)
    report = Report(title="zip")
    check_zip(report, archive)
    assert report.broken == []
    with zipfile.ZipFile(archive) as opened:
        unpacked = sum(entry.file_size for entry in opened.infolist())
    assert archive.stat().st_size <= 50_000_000
    assert unpacked <= 105_000_000
    shutil.copytree(default_cache() / "wheels", tmp_path / "wheels")
    command = [*build_command(MINILM), "--cache", str(tmp_path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert Path(done.stdout.strip()).read_bytes() == archive.read_bytes()
