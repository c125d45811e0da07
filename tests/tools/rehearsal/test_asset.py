"""The image asset of the stacks, and the command that builds it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tools.rehearsal.image.asset import ImageAsset, certificates, image_assets
from tools.rehearsal.image.base_image import Base, final_base, named_bases

DOCKERFILE = """\
FROM base:1-arm64 AS base-arm64
FROM base:1-x86_64 AS base-amd64
FROM --platform=$BUILDPLATFORM base:1 AS build
RUN --mount=type=secret,id=certificates true
FROM build AS model
FROM scratch AS texts
FROM unused:1 AS unused
FROM base-$TARGETARCH
COPY --from=model /a /
"""


@pytest.fixture
def asset(tmp_path: Path) -> ImageAsset:
    """Return an image whose build stages have another platform than its last stage."""
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    return ImageAsset(
        hash="abc",
        context=tmp_path,
        file="Dockerfile",
        arguments={"MODEL": "minilm", "PRECISION": "int8"},
        platform="linux/arm64",
        secrets={"hub_token": "env=HF_TOKEN"},
        contexts={"texts": "/texts"},
    )


def assembly(folder: Path, source: dict[str, Any]) -> Path:
    """Write an asset manifest as the CDK does."""
    manifest = {"dockerImages": {"abc": {"source": source}}}
    (folder / "stack.assets.json").write_text(json.dumps(manifest))
    return folder


def test_the_command_is_that_of_the_cli(asset):
    """In the same order, because `scripts/rehearse` compares both commands."""
    assert " ".join(asset.command) == (
        "build --build-arg MODEL=minilm --build-arg PRECISION=int8 --build-context texts=/texts "
        "--secret id=hub_token,env=HF_TOKEN --tag cdkasset-abc --platform linux/arm64 ."
    )


def test_the_asset_is_read_from_the_manifest(tmp_path):
    """With the folder, the file, the arguments and the platform."""
    source = {
        "directory": "asset.abc",
        "dockerBuildArgs": {"MODEL": "minilm"},
        "platform": "linux/arm64",
    }
    (found,) = image_assets(assembly(tmp_path, source))
    assert found.context == tmp_path / "asset.abc"
    assert (found.file, found.platform) == ("Dockerfile", "linux/arm64")
    assert found.arguments == {"MODEL": "minilm"}


def test_the_target_is_the_stage_that_is_built(tmp_path):
    """The image of batches is another stage of the same Dockerfile."""
    source = {"directory": "asset.abc", "dockerBuildTarget": "batch"}
    (found,) = image_assets(assembly(tmp_path, source))
    assert found.command == ["build", "--tag", "cdkasset-abc", "--target", "batch", "."]


def test_an_unsupported_option_is_an_error(tmp_path):
    """Without it, the rehearsal would build another image than the deploy."""
    source = {"directory": "asset.abc", "networkMode": "host"}
    with pytest.raises(ValueError, match=r"has \['networkMode'\]"):
        image_assets(assembly(tmp_path, source))


def test_the_bases_of_the_last_stage_are_listed(asset, monkeypatch):
    """Each with its platform. The base of an unused stage is not pulled."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert named_bases(asset) == [
        Base(name="base:1", architecture="amd64"),
        Base(name="base:1-arm64", architecture="arm64"),
    ]
    assert final_base(asset).name == "base:1-arm64"


def test_on_an_arm_machine_all_bases_are_arm(asset, monkeypatch):
    """Build stages run natively there."""
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert {base.architecture for base in named_bases(asset)} == {"arm64"}


def test_certificates_are_a_secret_of_the_build(asset, tmp_path, monkeypatch):
    """Only if the Dockerfile mounts them."""
    bundle = tmp_path / "bundle.crt"
    bundle.touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    assert certificates(asset) == ["--secret", f"id=certificates,src={bundle}"]
    (tmp_path / "Dockerfile").write_text("FROM base:1\n")
    assert certificates(asset) == []


def test_the_dockerfile_uses_each_tag_on_one_platform(root, monkeypatch):
    """Some daemons store only one platform per tag."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    own = ImageAsset(
        hash="abc",
        context=root / "lambda_image",
        file="Dockerfile",
        arguments={},
        platform="linux/arm64",
        secrets={},
    )
    bases = named_bases(own)
    assert len({base.name for base in bases}) == len(bases) == 2
    assert final_base(own).architecture == "arm64"
