"""An image's asset, the command that builds it, its bases, and the rules about its files.

Each rule is broken once, and kept by the real zip.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from embedding_kit.image_identity import build_command
from embedding_kit.settings import ModelSettings
from tools.debian import RELEASES
from tools.rehearsal.image.asset import ImageAsset, build, image_assets
from tools.rehearsal.image.other_images import _S3, _TESTS
from tools.rehearsal.image.substitute_base import bases
from tools.rehearsal.image.target import check_tree, unpack_zip
from tools.rehearsal.report import Report
from zip_builder.cache import default_cache

SOURCE = {
    "directory": "asset.abc",
    "dockerBuildArgs": {"MODELS": '{"model": {"name": "minilm"}}', "FILES": "0123"},
    "dockerBuildContexts": {"texts": "/texts"},
    "dockerBuildSecrets": {"hub_token": "env=HF_TOKEN"},
    "dockerBuildTarget": "batch",
    "platform": "linux/arm64",
}


def _read(folder: Path, source: dict) -> ImageAsset:
    """Read an asset from a manifest as the CDK writes it."""
    manifest = {"dockerImages": {"abc": {"source": source}}}
    (folder / "stack.assets.json").write_text(json.dumps(manifest))
    (asset,) = image_assets(folder)
    return asset


def test_a_client_without_contexts_finds_them_in_the_context(root, tmp_path, monkeypatch):
    """Each folder takes the place of its stage's file; nothing else of the Dockerfile changes."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
    (tmp_path / "asset.abc").symlink_to(root / "lambda_image")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.json").write_text("[]")
    asset = _read(tmp_path, SOURCE | {"dockerBuildContexts": {"texts": str(tmp_path / "texts")}})
    built = []

    def run(*arguments, cwd=None):
        if arguments == ("build", "--help"):
            return "--tag"
        copied = (cwd / "contexts" / "texts" / "a.json").read_text()
        built.append((arguments, (cwd / "Dockerfile").read_text(), copied))
        return ""

    build(mock.Mock(run=run), asset)
    ((arguments, dockerfile, copied),) = built
    assert not any("context" in argument for argument in arguments)
    assert copied == "[]"
    stage = "FROM scratch AS texts\nCOPY {} /"
    before = (asset.context / "Dockerfile").read_text()
    changed = before.replace(stage.format("requirements.txt"), stage.format("contexts/texts"))
    assert dockerfile == changed != before


def test_an_unsupported_option_is_an_error(tmp_path):
    """Without it, the rehearsal would build another image than the deploy."""
    with pytest.raises(ValueError, match=r"has \['networkMode'\]"):
        _read(tmp_path, SOURCE | {"networkMode": "host"})


@pytest.mark.parametrize(
    ("machine", "architectures"), [("x86_64", ["amd64", "arm64"]), ("aarch64", ["arm64", "arm64"])]
)
def test_the_bases_of_the_dockerfile_have_the_platform_of_their_stages(
    root, tmp_path, monkeypatch, machine, architectures
):
    """Build stages run natively, and the base of the last stages comes last."""
    monkeypatch.setattr("platform.machine", lambda: machine)
    (tmp_path / "asset.abc").symlink_to(root / "lambda_image")
    found = bases(_read(tmp_path, SOURCE))
    assert list(found.values()) == architectures
    assert [name.endswith("-arm64") for name in found] == [False, True]


def test_the_python_of_the_image_has_a_substitute(root):
    """Without one, nothing is rehearsed where no registry answers."""
    assert (root / "lambda_image/.python-version").read_text().strip() in RELEASES


MINILM = ModelSettings(name="sentence-transformers/all-MiniLM-L6-v2")
#: The headers of a library for ARM64 and for x86-64.
ARM, X86 = (b"\x7fELF" + bytes(14) + machine for machine in (b"\xb7\x00", b"\x3e\x00"))
LARGE = bytes(1_000_000)


def _broken(folder: Path, files: dict[str, bytes]) -> list[str]:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o644)
    report = Report()
    check_tree(report, folder, most_bytes=2_500_000)
    return report.broken


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"numpy/core.so": X86}, "each library is for ARM64; found: numpy/core.so"),
        ({"a/b.so": LARGE, "c/d.so": LARGE}, "no file of 1 MB or more is in it twice"),
        ({"a": LARGE, "b": LARGE + b"b", "c": LARGE + b"c"}, "is under 2 MB unpacked; found: 3.0"),
        *(
            ({name: ARM}, f"no caches, tests, compilers, sources .*; found: {name}")
            for name in (
                ".cache/pip/wheels/x",
                "x.whl",
                "numpy/tests/a.py",
                "numpy/conftest.py",
                "pip/__init__.py",
                "setuptools-80.dist-info/METADATA",
                "bin/gcc",
                "numpy/include/a.h",
                "model_compiler/compile.py",
                "artifact/model.safetensors",
                "onnxruntime/capi/libonnxruntime.so.1.32.0",
            )
        ),
    ],
)
def test_what_a_run_does_not_need_is_found(tmp_path, files, found):
    """Each broken tree fails the one check that names its fault."""
    (line,) = _broken(tmp_path, files)
    assert re.search(found, line)


def test_a_file_that_only_its_owner_can_read_is_found(tmp_path):
    """Lambda's user owns no file."""
    (tmp_path / "closed.py").touch(0o600)
    (line,) = _broken(tmp_path, {})
    assert line.endswith("can read each; found: closed.py")


@pytest.mark.slow
def test_the_zip_of_minilm_keeps_every_rule_and_its_sizes(tmp_path):
    """Up to 50 MB, and 108 MB unpacked; built again from nothing but its wheels, the same bytes."""

    def build(*options: str) -> Path:
        command = [*build_command(MINILM), *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return Path(done.stdout.strip())

    archive, report = build(), Report()
    unpack_zip(archive, tmp_path / "zip")
    check_tree(report, tmp_path / "zip", most_bytes=83_000_000)
    assert report.broken == []
    assert archive.stat().st_size <= 50_000_000
    files = (path for path in (tmp_path / "zip").rglob("*") if path.is_file())
    assert sum(path.stat().st_size for path in files) <= 108_000_000
    shutil.copytree(default_cache() / "wheels", tmp_path / "wheels")
    assert build("--cache", str(tmp_path)).read_bytes() == archive.read_bytes()


def test_s3_in_a_container_needs_only_the_files_that_are_mounted(tmp_path):
    """The container has neither this checkout nor the test environment's packages."""
    for file in _S3:
        (tmp_path / "tests" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(_TESTS / file, tmp_path / "tests" / file)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import tests.jobs.local_s3"
    subprocess.run([sys.executable, "-ISc", program], check=True)
