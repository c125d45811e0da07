"""The image of the stacks: read from the cloud assembly, built as the CDK builds it.

`cdk deploy` builds the folder, file, arguments and platform of the assembly's asset manifest. This
module reads the same manifest, so the rehearsal builds the image that is deployed.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.rehearsal.image.docker import Docker

__all__ = ["BUILD_ENVIRONMENT", "ImageAsset", "build", "image_assets", "synthesize"]

#: As the CDK's asset builder: otherwise newer builders create an index, which Lambda refuses.
BUILD_ENVIRONMENT = {"BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}


@dataclass(frozen=True, kw_only=True)
class ImageAsset:
    """One image of the cloud assembly.

    Attributes:
        hash: The asset's hash, which names the image.
        context: The staged folder that is built.
        file: The Dockerfile, relative to the context.
        arguments: The build arguments.
        platform: The platform, such as `linux/arm64`; None if the manifest has none.
        secrets: The build secrets by id, as the assembly writes them.
        target: The Dockerfile's stage; None for the last one.
        contexts: Further folders by name: the index's texts, a local model's folder.
    """

    hash: str
    context: Path
    file: str
    arguments: dict[str, str]
    platform: str | None
    secrets: dict[str, str]
    target: str | None = None
    contexts: dict[str, str] = field(default_factory=dict)

    @property
    def tag(self) -> str:
        """The name that the CDK gives to the built image."""
        return f"cdkasset-{self.hash}"

    @property
    def command(self) -> list[str]:
        """The client's arguments, in the same order as the CDK's."""
        words = ["build"]
        for name, value in self.arguments.items():
            words += ["--build-arg", f"{name}={value}"]
        for name, value in self.contexts.items():
            words += ["--build-context", f"{name}={value}"]
        for name, value in self.secrets.items():
            words += ["--secret", f"id={name},{value}"]
        words += ["--tag", self.tag]
        words += ["--target", self.target] if self.target else []
        words += ["--file", self.file] if self.file != "Dockerfile" else []
        words += ["--platform", self.platform] if self.platform else []
        return [*words, "."]


def synthesize(root: Path, environment: str, output: Path) -> Path:
    """Synthesize an environment's stacks into `output`, as `cdk synth` has the app do it."""
    variables = os.environ | {"CDK_OUTDIR": str(output)}
    # As the CLI: it also adds the construct's path to each resource.
    context = {"environment": environment, "aws:cdk:enable-path-metadata": True}
    configured = json.loads((root / "cdk.json").read_text()).get("context", {})
    variables["CDK_CONTEXT_JSON"] = json.dumps({**configured, **context})
    subprocess.run(
        [sys.executable, "app.py"], cwd=root, env=variables, check=True, stdout=subprocess.DEVNULL
    )
    return output


def image_assets(assembly: Path) -> list[ImageAsset]:
    """Read the images of a cloud assembly.

    Raises:
        ValueError: An image needs a build option that the rehearsal does not support.
    """
    found = {}
    for manifest in sorted(assembly.glob("*.assets.json")):
        for name, entry in json.loads(manifest.read_text()).get("dockerImages", {}).items():
            found[name] = _asset(name, entry["source"], assembly)
    return list(found.values())


def _asset(name: str, source: dict[str, Any], assembly: Path) -> ImageAsset:
    known = {
        "directory",
        "dockerBuildArgs",
        "dockerBuildContexts",
        "dockerBuildSecrets",
        "dockerBuildTarget",
        "dockerFile",
        "platform",
    }
    if unknown := sorted(set(source) - known):
        raise ValueError(f"image asset {name} has {unknown}, which the rehearsal does not support")
    return ImageAsset(
        hash=name,
        context=assembly / source["directory"],
        file=source.get("dockerFile", "Dockerfile"),
        arguments=source.get("dockerBuildArgs", {}),
        platform=source.get("platform"),
        secrets=source.get("dockerBuildSecrets", {}),
        target=source.get("dockerBuildTarget"),
        contexts=source.get("dockerBuildContexts", {}),
    )


def build(docker: Docker, asset: ImageAsset, *, cached: bool = True) -> str:
    """Build an image with the CDK's command and return its id.

    Args:
        docker: The daemon.
        asset: The image.
        cached: Whether to use the build cache.
    """
    extra = list(certificates(asset)) + ([] if cached else ["--no-cache"])
    command = asset.command
    with_environment = Docker(
        client=docker.client, environment=docker.environment | BUILD_ENVIRONMENT, own=docker.own
    )
    with_environment.run(command[0], *extra, *command[1:], cwd=asset.context)
    return docker.run("image", "inspect", "--format", "{{.Id}}", asset.tag).strip()


def certificates(asset: ImageAsset) -> list[str]:
    """Return the options that pass this machine's certificates to the build as a secret.

    pip in a build stage needs them behind a proxy with its own certificate authority. A secret is
    in no layer, so the image is the same without it.
    """
    bundle = os.environ.get("SSL_CERT_FILE") or "/etc/ssl/certs/ca-certificates.crt"
    asks = "id=certificates" in (asset.context / asset.file).read_text()
    if not asks or "certificates" in asset.secrets or not Path(bundle).is_file():
        return []
    return ["--secret", f"id=certificates,src={bundle}"]
