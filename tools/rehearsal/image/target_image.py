"""The image of another target of the endpoint's Dockerfile: its layers, and what runs in it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.rehearsal.image import layers
from tools.rehearsal.image.asset import ImageAsset, build
from tools.rehearsal.image.base_image import final_base
from tools.rehearsal.image.docker import Docker
from tools.rehearsal.image.image_under_test import ImageUnderTest
from tools.rehearsal.image.layer_checks import check_bytecode, check_layers, check_shared_layers
from tools.rehearsal.image.layers import Image
from tools.rehearsal.image.report import Report

__all__ = ["TargetImage", "check_target_image"]


@dataclass(frozen=True, kw_only=True)
class TargetImage:
    """An image that shares layers with the endpoint's.

    Attributes:
        name: The image in the report.
        asset: The asset, with its target.
        variables: The environment variables that the stacks set.
        imports: The modules that a start imports, as in an import statement.
        layers: The kinds of its layers, in order.
        own_layers: The numbers of the layers, from 0, that the endpoint's image does not have.
        command: The container's default command.
        most_bytes: The limit for everything except the base and the model, unpacked.
        check: Runs the image, and checks what it does.
    """

    name: str
    asset: ImageAsset
    variables: dict[str, str]
    imports: str
    layers: tuple[str, ...]
    own_layers: list[int]
    command: tuple[str, ...]
    most_bytes: int
    check: Callable[[ImageUnderTest], None]


def check_target_image(
    report: Report, docker: Docker, target: TargetImage, *, folder: Path, endpoint: Image
) -> None:
    """Build a target, check its layers, and run it.

    Args:
        report: The report of the checks.
        docker: The daemon, with the base images.
        target: The target.
        folder: A folder for temporary files.
        endpoint: The endpoint's image.
    """
    asset = target.asset
    with report.step(f"building the {target.name}: docker " + " ".join(asset.command)):
        build(docker, asset)
    image = layers.save(docker, asset.tag, base=final_base(asset).name, folder=folder)
    tested = ImageUnderTest(
        report=report,
        docker=docker,
        asset=asset,
        image=image,
        variables=target.variables,
        folder=folder,
        name=target.name,
        imports=target.imports,
        layers=target.layers,
        most_bytes=target.most_bytes,
    )
    check_layers(tested)
    check_shared_layers(tested, endpoint, own=target.own_layers)
    report.check(
        target.name,
        f"the default command is {' '.join(target.command)}",
        image.command == target.command,
        by="docker save",
        found=" ".join(image.command),
    )
    check_bytecode(tested)
    target.check(tested)
    docker.run("image", "rm", asset.tag)
