"""The image asset of the stacks, the command that builds it, and its base images."""

import json
from pathlib import Path
from unittest import mock

import pytest

from tools.rehearsal.image.asset import ImageAsset, build, image_assets
from tools.rehearsal.image.substitute_base import DEBIAN_RELEASES, bases

SOURCE = {
    "directory": "asset.abc",
    "dockerBuildArgs": {"MODEL": "minilm", "PRECISION": "int8"},
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
    assert (root / "lambda_image/.python-version").read_text().strip() in DEBIAN_RELEASES
