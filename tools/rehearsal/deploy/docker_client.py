"""The program that the CDK CLI runs as `docker`, for the emulator's registry.

It records its arguments, builds nothing, and pushes an empty image under the same tag and with the
same labels: `scripts/test-image` builds the images with the same command.
"""

import hashlib
import itertools
import json
import re
import shlex
import sys
import urllib.request
from pathlib import Path

from tools.rehearsal.deploy.emulator import Emulator

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"


def write_client(folder: Path, aws: Emulator) -> Path:
    """Write the program for `CDK_DOCKER` into a folder, which may be new."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"registry": aws.registry, "local": f"localhost:{aws.port}"}
    (folder / "docker.json").write_text(json.dumps(settings))
    client = folder / "docker"
    command = shlex.join([sys.executable, "-m", __name__, str(folder)])
    client.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    client.chmod(0o755)
    return client


def recorded_calls(client: Path) -> list[list[str]]:
    """Return the arguments of each call so far."""
    record = client.with_suffix(".jsonl")
    lines = record.read_text().splitlines() if record.is_file() else []
    return [json.loads(line) for line in lines]


def main(arguments: list[str]) -> int:
    """Remember the labels of images by their names, and push empty images with them.

    The arguments are those of the CLI, after the folder of the settings.
    """
    folder, (action, *options) = Path(arguments[0]), arguments[1:]
    settings = json.loads((folder / "docker.json").read_text())
    with (folder / "docker.jsonl").open("a") as record:
        record.write(json.dumps([action, *options]) + "\n")
    if action == "login":
        # The emulated registry has no passwords.
        sys.stdin.read()
        return 0
    words = [word.replace(settings["registry"], settings["local"]) for word in options]
    built = folder / "built.json"
    labels: dict[str, dict[str, str]] = json.loads(built.read_text()) if built.is_file() else {}
    match action:
        case "build":
            labels[words[words.index("--tag") + 1]] = _labels(words)
        case "inspect":
            return 0 if words[-1] in labels else 1
        case "tag":
            labels[words[-1]] = labels[words[0]]
        case "push":
            push_empty(words[-1], labels=labels.get(words[-1], {}))
    built.write_text(json.dumps(labels))
    return 0


def _labels(words: list[str]) -> dict[str, str]:
    """Return the labels that the Dockerfile in this folder gives to the image of a build."""
    options = list(itertools.pairwise(words))
    arguments = dict(value.split("=", 1) for name, value in options if name == "--build-arg")
    target = next((value for name, value in options if name == "--target"), None)
    text = Path("Dockerfile").read_text().replace("\\\n", " ")
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    stages = re.split(r"^FROM ", text, flags=re.MULTILINE)
    ends = (stage for stage in stages if stage.partition("\n")[0].endswith(f" AS {target}"))
    line = re.search(r"^LABEL (.*)$", next(ends, stages[-1]), re.MULTILINE)
    pairs = (word.split("=", 1) for word in line[1].split()) if line else ()
    return {
        name: re.sub(r"\$(\w+)", lambda m: (defaults | arguments).get(m[1], ""), value.strip('"'))
        for name, value in pairs
    }


def push_empty(reference: str, *, labels: dict[str, str] | None = None) -> None:
    """Push an image of no layers to `host:port/name:tag`, by the registry's own protocol."""
    repository, _, tag = reference.rpartition(":")
    host, _, name = repository.partition("/")
    base = f"http://{host}/v2/{name}"
    # The tag is part of the image, so that two empty images have different digests.
    labeled, rootfs = {"Labels": {"tag": tag, **(labels or {})}}, {"type": "layers", "diff_ids": []}
    image = {"architecture": "arm64", "os": "linux", "config": labeled, "rootfs": rootfs}
    config = json.dumps(image).encode()
    digest = f"sha256:{hashlib.sha256(config).hexdigest()}"
    _send("POST", f"{base}/blobs/uploads/?digest={digest}", config, "application/octet-stream")
    described = {"mediaType": _CONFIG, "size": len(config), "digest": digest}
    manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": described, "layers": []}
    _send("PUT", f"{base}/manifests/{tag}", json.dumps(manifest).encode(), _MANIFEST)


def _send(method: str, url: str, body: bytes, media_type: str) -> None:
    request = urllib.request.Request(url, body, {"Content-Type": media_type}, method=method)
    with urllib.request.urlopen(request, timeout=30):
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
