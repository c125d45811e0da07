"""The image of the stacks: read from the cloud assembly, built as the CDK builds it.

`cdk deploy` builds the folder, file, arguments and platform of the assembly's asset manifest. This
module reads the same manifest, so the rehearsal builds the image that is deployed.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tools.rehearsal.image.docker import Docker


@dataclass(frozen=True, kw_only=True)
class ImageAsset:
    """One image of the cloud assembly, which builds `context` up to the stage `target`.

    `contexts` are further folders by name: the index's texts, a local model's folder.
    """

    hash: str
    context: Path
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
        words += ["--platform", self.platform] if self.platform else []
        return [*words, "."]


def synthesize(root: Path, environment: str, output: Path) -> Path:
    """Synthesize an environment's stacks into `output`, as `cdk synth` has the app do it."""
    # As the CLI: it also adds the construct's path to each resource.
    context = {"environment": environment, "aws:cdk:enable-path-metadata": True}
    configured = json.loads((root / "cdk.json").read_text()).get("context", {})
    cdk_variables = {
        "CDK_OUTDIR": str(output),
        "CDK_CONTEXT_JSON": json.dumps({**configured, **context}),
    }
    command, variables = [sys.executable, "app.py"], os.environ | cdk_variables
    subprocess.run(command, cwd=root, env=variables, check=True, stdout=subprocess.DEVNULL)
    return output


def image_assets(assembly: Path) -> list[ImageAsset]:
    """Read the images of a cloud assembly; an unknown build option is a ValueError."""
    images: list[ImageAsset] = []
    entries: dict[str, Any] = {}
    for manifest in sorted(assembly.glob("*.assets.json")):
        entries |= json.loads(manifest.read_text()).get("dockerImages", {})
    for name, entry in entries.items():
        source = dict(entry["source"])
        asset = ImageAsset(
            hash=name,
            context=assembly / source.pop("directory"),
            arguments=source.pop("dockerBuildArgs", {}),
            platform=source.pop("platform", None),
            secrets=source.pop("dockerBuildSecrets", {}),
            target=source.pop("dockerBuildTarget", None),
            contexts=source.pop("dockerBuildContexts", {}),
        )
        if source:
            raise ValueError(
                f"image asset {name} has {sorted(source)}, which the rehearsal does not support"
            )
        images.append(asset)
    return images


def build(docker: Docker, asset: ImageAsset) -> None:
    """Build an image with the CDK's command."""
    extra = certificates(asset)
    with tempfile.TemporaryDirectory(prefix="contexts-") as name:
        if asset.contexts and "--build-context" not in docker.run("build", "--help"):
            asset = _with_contexts(asset, Path(name) / "context")
        command, *arguments = asset.command
        docker.run(command, *extra, *arguments, cwd=asset.context)


def _with_contexts(asset: ImageAsset, folder: Path) -> ImageAsset:
    """Copy the further folders into the context, for a client that cannot pass them.

    Debian 12's is one. A stage of the Dockerfile stands for each folder, and copies it here.
    """
    shutil.copytree(asset.context, folder, symlinks=True)
    dockerfile = folder / "Dockerfile"
    text = dockerfile.read_text("utf-8")
    for name, source in asset.contexts.items():
        shutil.copytree(source, folder / "contexts" / name)
        stage = f"FROM scratch AS {name}\nCOPY "
        before, after = text.split(f"{stage}requirements.txt ")
        text = f"{before}{stage}contexts/{name} {after}"
    dockerfile.write_text(text, "utf-8")
    with (folder / ".dockerignore").open("a", encoding="utf-8") as ignored:
        ignored.write("\n!contexts\n")
    return replace(asset, context=folder, contexts={})


def certificates(asset: ImageAsset) -> list[str]:
    """Return the options that pass this machine's certificates to the build as a secret.

    pip in a build stage needs them behind a proxy with its own certificate authority. A secret is
    in no layer, so the image is the same without it.
    """
    bundle = os.environ.get("SSL_CERT_FILE") or "/etc/ssl/certs/ca-certificates.crt"
    asks = "id=certificates" in (asset.context / "Dockerfile").read_text()
    if not asks or "certificates" in asset.secrets or not Path(bundle).is_file():
        return []
    return ["--secret", f"id=certificates,src={bundle}"]
