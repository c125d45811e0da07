"""The command of a deploy: it needs Python and an index of packages, and no other program."""

import base64
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from embedding_kit import package
from tests.fixtures.certificates import certificate
from tests.fixtures.local_server import QuietHandler, serving
from zip_builder.build import CERTIFICATES
from zip_builder.tree import VERSION

from .conftest import RECIPE

ABI = f"cp{VERSION.replace('.', '')}"
MODELS = '{"model": {"name": "org/model"}}'
TAG = f"{ABI}-{ABI}-manylinux_2_28_aarch64"


@pytest.fixture
def index(tmp_path, recipe, monkeypatch) -> Path:
    """Return a folder with a wheel for ARM64 that the recipe pins, which pip takes as its index."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel = folder / f"numpy-1-{TAG}.whl"
    files = {
        "numpy/__init__.py": b"VALUE = 1\n",
        "numpy/f2py/__init__.py": b"",
        "numpy-1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: numpy\nVersion: 1\n",
        "numpy-1.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: "
        + f"{TAG}\n".encode(),
    }
    record = "".join(f"{name},{_hash(content)},{len(content)}\n" for name, content in files.items())
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in {**files, "numpy-1.dist-info/RECORD": record.encode()}.items():
            archive.writestr(name, content)
    pin = f"numpy==1 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"
    (recipe / "requirements.txt").write_text(pin)
    for name in (".python-version", "build_zip.py", "zip_builder"):
        source, copy = RECIPE / name, recipe / name
        if source.is_dir():
            shutil.copytree(source, copy, dirs_exist_ok=True)
        else:
            shutil.copy(source, copy)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", folder.as_uri())  # pip divides it at spaces
    return folder


def _hash(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"


@pytest.fixture
def run(recipe, tmp_path):
    """Run the command with nothing on the PATH but a Python that copies byte code."""
    programs = tmp_path / "bin"
    programs.mkdir()
    # Its answer is all that is asked of it; the byte code is then this Python's.
    python = programs / f"python{VERSION}"
    python.write_text(
        f'#!/bin/sh\ncase "$2" in -c) echo cpython {VERSION.replace(".", " ")} ;; '
        f'*) exec {shlex.quote(sys.executable)} "$@" ;; esac\n'
    )
    python.chmod(0o755)

    def command(*arguments: str, prefix: Sequence[str] = ()) -> subprocess.CompletedProcess:
        script = str(recipe / "build_zip.py")
        return subprocess.run(
            [*prefix, sys.executable, script, *arguments, "--cache", str(tmp_path / "cache")],
            env=os.environ | {"PATH": str(programs), "PYENV_ROOT": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return command


@pytest.mark.usefixtures("index")
def test_without_docker_on_the_path_it_builds_and_prints_the_zip(run):
    """The CDK's command reads one line: the path. Progress goes to the other stream."""
    done = run('{"model": {"name": "org/model", "precision": "int8"}}')
    assert done.returncode == 0, done.stderr
    (printed,) = done.stdout.splitlines()
    with zipfile.ZipFile(printed) as archive:
        assert {
            "numpy/__init__.py",
            "embedder/aws_lambda/handler.py",
            "artifact/manifest.json",
        } <= {*archive.namelist()}
        said = json.loads(archive.read("artifact/manifest.json"))["said"]
    assert said == {"name": "org/model", "precision": "int8"}
    assert "zip: writing the zip: " in done.stderr
    again = run('{"model": {"name": "org/model", "precision": "int8"}}')
    assert again.stdout == done.stdout


@pytest.mark.usefixtures("index")
def test_a_zip_that_cannot_be_written_is_one_line(run, tmp_path):
    """As on a full disk. Nothing of it is left, and the same command works when there is room."""
    built = Path(run(MODELS).stdout.strip())
    built.unlink()
    full = run(MODELS, prefix=["/bin/bash", "-c", 'ulimit -f 1; exec "$0" "$@"'])
    assert (full.returncode, full.stdout) == (1, "")
    assert full.stderr.splitlines()[-1].startswith("error: [Errno 27] File too large")
    assert "Traceback" not in full.stderr
    assert not list((tmp_path / "cache").rglob("*.zip"))
    assert run(MODELS).returncode == 0
    assert built.exists()


def test_another_file_than_the_pinned_one_is_refused(run, index):
    """A package that was changed after it was pinned is in no zip."""
    (wheel,) = index.iterdir()
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("numpy/evil.py", "")
    done = run(MODELS)
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: the packages of requirements.txt could not be downloaded" in done.stderr
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("variable", CERTIFICATES)
def test_packages_come_from_a_private_index(run, index, tmp_path, monkeypatch, variable):
    """It has a password, and a certificate that only the variable's file vouches for."""
    (wheel,) = index.iterdir()
    password = base64.b64encode(b"me:secret").decode()

    class Index(QuietHandler):
        def respond(self) -> None:
            if self.headers.get("Authorization") != f"Basic {password}":
                self.answer(401, WWW_Authenticate="Basic realm=index")
            elif self.path == "/simple/numpy/":
                self.answer(
                    200, f'<a href="/{wheel.name}">_</a>'.encode(), Content_Type="text/html"
                )
            else:
                self.answer(200, wheel.read_bytes())

    for name in (*CERTIFICATES, "PIP_NO_INDEX", "PIP_FIND_LINKS", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "1")
    public, context = certificate(tmp_path)
    with serving(Index, tls=context) as url:
        monkeypatch.setenv("PIP_INDEX_URL", url.replace("//", "//me:secret@") + "/simple")
        refused = run(MODELS)
        assert refused.returncode == 1
        assert "CERTIFICATE_VERIFY_FAILED" in refused.stderr
        assert "secret" not in refused.stderr
        monkeypatch.setenv(variable, str(public))
        done = run(MODELS)
    assert done.returncode == 0, done.stderr
    assert "secret" not in done.stderr


def test_the_zip_trusts_as_the_image_does():
    """The builder is a program of its own, so the variables are listed twice."""
    assert CERTIFICATES == package._CERTIFICATES
