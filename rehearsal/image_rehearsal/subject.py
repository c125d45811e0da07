"""What is being verified: the image, the daemon that has it, and the variables it runs with."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from image_rehearsal.asset import ImageAsset
from image_rehearsal.docker import Docker
from image_rehearsal.layers import Image
from image_rehearsal.report import Report

__all__ = ["FUNCTION_SECONDS", "Subject", "embedder_function", "some", "variables_of"]

#: How long the emulator lets the function work on one request. What is asked is whether an answer
#: is right, not how long it takes: with the processor emulated, on a busy machine, one text took
#: 407 s, which is too close to the 900 s that Lambda allows.
FUNCTION_SECONDS = 6 * 3600


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A built image under verification.

    Attributes:
        report: Where the checks go.
        docker: The daemon that has the image.
        asset: What it was built from.
        image: The image taken apart.
        variables: The environment variables that the deployed function would have.
        folder: A folder to work in.
    """

    report: Report
    docker: Docker
    asset: ImageAsset
    image: Image
    variables: dict[str, str]
    folder: Path


def embedder_function(assembly: Path) -> dict[str, Any]:
    """Find the properties of the function that runs the image's own command.

    Raises:
        ValueError: No template has such a function.
    """
    for template in sorted(assembly.glob("*.template.json")):
        for resource in json.loads(template.read_text()).get("Resources", {}).values():
            properties: dict[str, Any] = resource.get("Properties", {})
            own = "Command" not in properties.get("ImageConfig", {})
            if resource["Type"] == "AWS::Lambda::Function" and own:
                return properties
    raise ValueError(f"{assembly}: no function runs an image's own command")


def variables_of(function: dict[str, Any]) -> dict[str, str]:
    """Give the variables that the stacks set, and those that Lambda would set beside them."""
    stated = function.get("Environment", {}).get("Variables", {})
    return {
        **{name: value for name, value in stated.items() if isinstance(value, str)},
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.get("MemorySize", 128)),
        "AWS_LAMBDA_FUNCTION_NAME": "rehearsal",
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(FUNCTION_SECONDS),
        "LAMBDA_TASK_ROOT": "/var/task",
    }


def some(found: list[str], most: int = 4) -> str:
    """Name the first few of many."""
    rest = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + rest
