"""The image under test, with its daemon and its environment variables."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.rehearsal.image.asset import ImageAsset
from tools.rehearsal.image.contents import TASK
from tools.rehearsal.image.docker import Docker
from tools.rehearsal.image.layers import Image
from tools.rehearsal.image.report import Report

__all__ = [
    "FUNCTION_SECONDS",
    "ImageUnderTest",
    "embedder_function",
    "first_few",
    "precision_of",
    "unpacked",
    "variables_of",
]

#: The emulator's timeout of one request. Answers are checked for correctness, not for speed: with
#: an emulated processor on a busy machine, one text took 407 s, too close to Lambda's 900 s.
FUNCTION_SECONDS = 6 * 3600


@dataclass(frozen=True, kw_only=True)
class ImageUnderTest:
    """A built image.

    Attributes:
        report: The report of the checks.
        docker: The daemon with the image.
        asset: The asset that it was built from.
        image: The image's layers.
        variables: The environment variables of the deployed function.
        folder: A folder for temporary files.
        name: The image in the report.
        imports: The modules that a start imports, as in an import statement.
        layers: The kinds of its layers, in order.
        most_bytes: The limit for everything except the base and the model, unpacked.
    """

    report: Report
    docker: Docker
    asset: ImageAsset
    image: Image
    variables: dict[str, str]
    folder: Path
    name: str = "image"
    imports: str = "embedder.aws_lambda.handler"
    layers: tuple[str, ...] = ("dependencies", "model", "code")
    most_bytes: int = 100_000_000


def embedder_function(assembly: Path) -> dict[str, Any]:
    """Return the properties of the function that runs the image's default command.

    Raises:
        ValueError: No template has such a function.
    """
    for template in sorted(assembly.glob("*.template.json")):
        for resource in json.loads(template.read_text()).get("Resources", {}).values():
            properties: dict[str, Any] = resource.get("Properties", {})
            own = "Command" not in properties.get("ImageConfig", {})
            if resource["Type"] == "AWS::Lambda::Function" and own:
                return properties
    raise ValueError(f"{assembly}: no function runs an image's default command")


def variables_of(function: dict[str, Any]) -> dict[str, str]:
    """Return the variables that the stacks set, and those that Lambda sets."""
    stated = function.get("Environment", {}).get("Variables", {})
    return {
        **{name: value for name, value in stated.items() if isinstance(value, str)},
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.get("MemorySize", 128)),
        "AWS_LAMBDA_FUNCTION_NAME": "rehearsal",
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(FUNCTION_SECONDS),
        "LAMBDA_TASK_ROOT": "/var/task",
    }


def unpacked(tested: ImageUnderTest) -> Path:
    """Unpack the image's code and artifact, once, and return the folder."""
    task = tested.folder / "task"
    for layer in tested.image.own if not task.is_dir() else ():
        for part in ("artifact", "index", "embedder"):
            for path, content in tested.image.read(layer, f"{TASK}/{part}/"):
                place = task / path.relative_to(TASK)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
    return task


def precision_of(tested: ImageUnderTest) -> str:
    """Return the precision of the image's model."""
    manifest = unpacked(tested) / "artifact" / "manifest.json"
    return str(json.loads(manifest.read_text())["precision"])


def first_few(found: list[str], most: int = 4) -> str:
    """Return the first few items, and the number of the others."""
    rest = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + rest
