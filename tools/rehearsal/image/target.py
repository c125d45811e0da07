"""An image of the Dockerfile: built, its files and layers checked, and run."""

import dataclasses
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.rehearsal.image.asset import ImageAsset, build
from tools.rehearsal.image.docker import PLATFORM, Docker
from tools.rehearsal.image.runtime import Tested
from tools.rehearsal.image.tree import check_tree, unpack_image
from tools.rehearsal.report import Report, first_few

EMBEDDER = "embedder.aws_lambda.handler.handler"
#: The emulator's timeout of one request. Answers are checked for correctness, not for speed: with
#: an emulated processor on a busy machine, one text took 407 s, too close to Lambda's 900 s.
_FUNCTION_SECONDS = 6 * 3600
# Runs with the image's Python. Python uses a .pyc without a look at its source if the flags of its
# header say so (PEP 552): 0b01 is a hash of the source that is not checked.
_BYTECODE = """
import importlib.util, pathlib
sources = list(pathlib.Path("/var/task").rglob("*.py"))
for source in sources:
    compiled = pathlib.Path(importlib.util.cache_from_source(source))
    header = compiled.read_bytes()[:16] if compiled.exists() else b""
    hashed = importlib.util.source_hash(source.read_bytes())
    if header != importlib.util.MAGIC_NUMBER + bytes([1, 0, 0, 0]) + hashed:
        print(source)
print(len(sources))
"""


@dataclass(frozen=True, kw_only=True)
class Target:
    """An image, and what it must be.

    Attributes:
        name: The image in the report.
        asset: The asset, with the Dockerfile's target.
        variables: The environment variables that the stacks set.
        command: The container's default command.
        own_layers: The numbers of the layers above the base's, from 0, that the endpoint's image
            does not have.
        most_bytes: The limit for everything except the base and the model, unpacked.
        check: Runs the image, and checks what it does.
    """

    name: str
    asset: ImageAsset
    variables: Mapping[str, str]
    command: tuple[str, ...]
    own_layers: list[int]
    most_bytes: int
    check: Callable[[Tested], None]


def build_target(
    report: Report, docker: Docker, target: Target, *, base: str, folder: Path
) -> Tested:
    """Build an image, and check its command, its files and its byte code.

    Args:
        report: The report of the checks.
        docker: The daemon, with the base images.
        target: The image.
        base: The base image of its last stage.
        folder: A folder for temporary files.
    """
    asset = target.asset
    with report.step(f"building the {target.name} image: docker {' '.join(asset.command)}"):
        build(docker, asset)
    tested = Tested(
        report=report,
        docker=docker,
        asset=asset,
        variables=target.variables,
        folder=folder,
        task=folder / "task",
    )
    with report.step(f"reading the files of the {target.name} image"):
        others = unpack_image(docker, asset.tag, tested.task)
        added = sorted(others - unpack_image(docker, base, folder / "base"))
    place = docker.run("image", "inspect", "--format", "{{.Os}}/{{.Architecture}}", asset.tag)
    command = tuple(_inspect(docker, asset.tag, ".Config.Cmd"))
    check = f"it is for {PLATFORM}, and its default command is {' '.join(target.command)}"
    holds = (place.strip(), command) == (PLATFORM, target.command)
    report.check(check, holds, f"{place.strip()}, {' '.join(command)}")
    report.check("it adds nothing outside /var/task", not added, first_few(added))
    check_tree(report, tested.task, most_bytes=target.most_bytes)
    check_bytecode(tested)
    return tested


def check_bytecode(tested: Tested, mounts: Mapping[Path, str] | None = None) -> None:
    """Check that Python compiles no module when it starts.

    Args:
        tested: The image, which has Lambda's Python.
        mounts: The files to check at /var/task; the image's own if None.
    """
    *faults, count = tested.python(_BYTECODE, mounts=mounts).split()
    check = f"each of its {count} modules has byte code that Python does not check at a start"
    tested.report.check(check, not faults and count != "0", first_few(faults))


def check_layers(tested: Tested, *, base: str, endpoint: list[str], own: list[int]) -> None:
    """Check that a push after the endpoint's sends only what this image has besides.

    Args:
        tested: The image of another target.
        base: Its base image.
        endpoint: The layers of the endpoint's image.
        own: The numbers of the layers above the base's that the endpoint's image does not have.
    """
    layers = layers_of(tested)[len(_inspect(tested.docker, base, ".RootFS.Layers")) :]
    found = [number for number, digest in enumerate(layers) if digest not in endpoint]
    check = "all layers except its own packages and code are those of the endpoint's image"
    tested.report.check(check, found == own, f"own: {found} of {len(layers)}")


def check_code_change(tested: Tested) -> None:
    """Build again with changed code and without a cache, and compare the layers."""
    context = tested.folder / "changed"
    shutil.copytree(tested.asset.context, context, symlinks=True)
    handler = context / "embedder" / "aws_lambda" / "handler.py"
    handler.write_text(handler.read_text() + "\n# changed by the rehearsal\n")
    name = f"{tested.asset.hash[:12]}-changed"
    changed = dataclasses.replace(
        tested, asset=dataclasses.replace(tested.asset, context=context, hash=name)
    )
    with tested.report.step("building again with changed code, without a cache"):
        build(tested.docker, changed.asset, cached=False)
    before, after = layers_of(tested), layers_of(changed)
    tested.docker.run("image", "rm", changed.asset.tag)
    check = "a change of code changes only the last layer, even without a build cache"
    holds = before[:-1] == after[:-1] and before[-1] != after[-1]
    tested.report.check(check, holds, f"{len(before)} layers")


def layers_of(tested: Tested) -> list[str]:
    """Return the digests of an image's layers, the base's first."""
    return _inspect(tested.docker, tested.asset.tag, ".RootFS.Layers")


def _inspect(docker: Docker, image: str, field: str) -> list[str]:
    found = docker.run("image", "inspect", "--format", f"{{{{json {field}}}}}", image)
    return list(json.loads(found) or [])


def function_variables(function: dict[str, Any]) -> dict[str, str]:
    """Return the variables that the stacks set for a function, and those that Lambda sets."""
    stated = function.get("Environment", {}).get("Variables", {})
    return {
        **{name: value for name, value in stated.items() if isinstance(value, str)},
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.get("MemorySize", 128)),
        "AWS_LAMBDA_FUNCTION_NAME": "rehearsal",
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(_FUNCTION_SECONDS),
        "LAMBDA_TASK_ROOT": "/var/task",
    }
