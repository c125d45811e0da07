"""The program that the CDK CLI runs as `docker`: the real client, with the emulator's registry.

The CLI builds, tags and pushes with the program that `CDK_DOCKER` names. This one records its
arguments, replaces ECR's address by that of the local registry, and runs the real client. Without
containers it builds nothing and pushes an empty image under the same tag, so that the deploy can
continue; the report says so.
"""

import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

__all__ = ["main", "push_empty", "write_client"]

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"


def write_client(
    folder: Path, *, registry: str, local: str, docker: list[str] | None, variables: dict[str, str]
) -> Path:
    """Write the program for `CDK_DOCKER`.

    Args:
        folder: The folder for the program, its settings and its record.
        registry: ECR's address, which the CLI uses.
        local: The address of the local registry.
        docker: The real client and its extra options for a build; None without containers.
        variables: The environment variables that select the real client's daemon.
    """
    settings = folder / "docker.json"
    record = folder / "docker.jsonl"
    settings.write_text(
        json.dumps(
            {
                "registry": registry,
                "local": local,
                "docker": docker,
                "variables": variables,
                "record": str(record),
                "built": str(folder / "built.json"),
            }
        )
    )
    client = folder / "docker"
    client.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {__name__} "{settings}" "$@"\n')
    client.chmod(0o755)
    return client


def main(arguments: list[str]) -> int:
    """Run the command with the CLI's arguments."""
    settings = json.loads(Path(arguments[0]).read_text())
    asked = arguments[1:]
    with Path(settings["record"]).open("a") as record:
        record.write(json.dumps({"arguments": asked, "folder": str(Path.cwd())}) + "\n")
    if asked[0] == "login":
        # The emulated registry has no passwords.
        sys.stdin.read()
        return 0
    words = [word.replace(settings["registry"], settings["local"]) for word in asked]
    if settings["docker"] is None:
        return _without_containers(words, settings)
    client, *extra = settings["docker"]
    if words[0] == "build":
        words[1:1] = extra
    return subprocess.run(
        [client, *words], env=os.environ | settings["variables"], check=False
    ).returncode


def _without_containers(words: list[str], settings: dict[str, str]) -> int:
    built = Path(settings["built"])
    names: dict[str, dict[str, str]] = json.loads(built.read_text()) if built.is_file() else {}
    match words[0]:
        case "build":
            names[words[words.index("--tag") + 1]] = _labels(words)
        case "inspect":
            return 0 if words[-1] in names else 1
        case "tag":
            names[words[-1]] = names[words[1]]
        case "push":
            push_empty(words[-1], labels=names.get(words[-1], {}))
    built.write_text(json.dumps(names))
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
    place, _, tag = reference.rpartition(":")
    host, _, name = place.partition("/")
    base = f"http://{host}/v2/{name}"
    # The tag is part of the image, so that two empty images have different digests.
    config = json.dumps(
        {
            "architecture": "arm64",
            "os": "linux",
            "config": {"Labels": {"tag": tag, **(labels or {})}},
            "rootfs": {"type": "layers", "diff_ids": []},
        }
    ).encode()
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
