"""`scripts/base-image`: pin the base image of environments to the digest that its tag has now.

The file of the environment is edited as text: its comments stay.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import tomlkit
from tomlkit.exceptions import TOMLKitError

from embedding_kit.programs import exit_with, python_version

_ROOT = Path(__file__).parents[1]
#: The tag of the Dockerfile.
_TAG = "public.ecr.aws/lambda/python:$PYTHON-arm64"
_PINNED = re.compile(r"(?P<tag>[^@]+)@(?P<digest>sha256:[0-9a-f]{64})")


def main(arguments: list[str] | None = None) -> int:
    """Print the old and the new digest of each environment; return the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/base-image", description=__doc__)
    parser.add_argument("environments", nargs="+", metavar="NAME")
    options = parser.parse_args(arguments)
    files = {name: _ROOT / "environments" / f"{name}.toml" for name in options.environments}
    try:
        for name, file in files.items():
            if not file.is_file():
                allowed = ", ".join(sorted(path.stem for path in file.parent.glob("*.toml")))
                raise ValueError(f"there is no environment {name!r}; allowed: {allowed}")  # noqa: TRY301
        for name, file in files.items():
            for table, before, after in pin(file):
                shown = name if table == "model" else f"{name}, [{table}]"
                change = "unchanged" if before == after else after
                print(f"{shown}: {before or 'not pinned'} -> {change}")
    except (ValueError, TOMLKitError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(error.stderr.strip(), file=sys.stderr)
        return 1
    return 0


def pin(file: Path) -> list[tuple[str, str | None, str]]:
    """Pin the base image of each model in an environment's file to the current digest of its tag.

    A mirror that the file names keeps its address. Returned are each model's table, the digest
    before, None if none was pinned, and the digest now.
    """
    document = tomlkit.parse(file.read_text(encoding="utf-8"))
    pins = []
    # The tables of models that have an image.
    for table in [name for name in ("model", "standby") if name in document]:
        model = document[table]
        pinned_image = str(model.get("base_image", ""))
        pinned = _PINNED.fullmatch(pinned_image)
        if pinned_image and pinned is None:
            raise ValueError(
                f"{file.name}: base_image: found: {pinned_image}; allowed: IMAGE@sha256:..."
            )
        # If the image has another Python since the last pin, its tag is another one.
        tag = pinned["tag"] if pinned else _TAG
        tag = re.sub(r"(?<=python:)(\$PYTHON|3\.\d+)(?=-|$)", python_version(), tag)
        digest = _digest(tag)
        if f"{tag}@{digest}" != pinned_image:
            model["base_image"] = f"{tag}@{digest}"
        pins.append((table, pinned["digest"] if pinned else None, digest))
    if any(before != digest for _, before, digest in pins):
        file.write_text(tomlkit.dumps(document), encoding="utf-8")
    return pins


def _digest(tag: str) -> str:
    """Return the digest of a tag: https://docs.docker.com/reference/cli/docker/buildx/imagetools/inspect/."""
    # Without `json` some releases of buildx print a table: docker/buildx#1175.
    inspect = ["docker", "buildx", "imagetools", "inspect", tag]
    command = [*inspect, "--format", "{{json .Manifest.Digest}}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    printed = done.stdout.strip().strip('"')
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", printed):
        raise ValueError(
            f"{' '.join(inspect)} printed no digest; found: {printed or 'nothing'}; "
            "allowed: sha256:..."
        )
    return printed


if __name__ == "__main__":
    exit_with(main)
