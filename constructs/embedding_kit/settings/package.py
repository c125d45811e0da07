"""What a zip can hold: the rules of `package = "zip"`.

Limit: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
"""

from typing import Literal

from embedding_kit.settings.base import rule_error
from embedding_kit.settings.function import FunctionSettings
from embedding_kit.settings.model import Model
from embedding_kit.settings.model_sizes import artifact_bytes

__all__ = [
    "EMBEDDER",
    "LARGEST_ARTIFACT",
    "artifact_place",
    "check_package",
    "check_without_images",
]

#: The handler of the function that serves requests, as a zip names it.
EMBEDDER = "embedder.handler.handler"
#: Lambda unpacks up to 250 MB of 1,024².
_LIMIT = 262_144_000
#: Packages and code, unpacked; a test builds and weighs them. Source: docs/performance.md.
_BESIDE = 78_000_000
#: For other sizes of the expected artifact, for newer packages, and for `tokenizers` (11 MB).
_ROOM = 14_000_000
#: The largest artifact of a zip, in bytes.
LARGEST_ARTIFACT = _LIMIT - _BESIDE - _ROOM


def artifact_place(model: Model) -> Literal["inside", "outside"]:
    """Return whether the model's artifact fits into a zip; one of unknown size is tried inside."""
    size = artifact_bytes(model)
    return "inside" if size is None or size <= LARGEST_ARTIFACT else "outside"


def check_package(model: Model, function: FunctionSettings) -> None:
    """Refuse a zip that Lambda would not unpack, if the artifact's size is known.

    Raises:
        PydanticCustomError: A `ValueError` with the rule, the value found and the values allowed.
    """
    if function.package == "zip" and artifact_place(model) == "outside":
        size = (artifact_bytes(model) or 0) / 1e6
        raise rule_error(
            f"Lambda unpacks a zip of up to {_LIMIT / 1e6:.0f} MB",
            found=f"about {size + _BESIDE / 1e6:.0f} MB: {_BESIDE / 1e6:.0f} MB of packages and "
            f"code, and an artifact of about {size:.0f} MB of {model.name}"
            + (f" as {model.precision}" if model.precision else ""),
            allowed=f"an artifact of up to {LARGEST_ARTIFACT / 1e6:.0f} MB: a smaller model, "
            + ('precision = "int8", ' if model.precision == "fp32" else "")
            + 'or function.package = "image"',
        )


def check_without_images(
    function: FunctionSettings, *, batch: bool, loads: bool, server: bool
) -> None:
    """Refuse what runs from an image beside a zip, which is deployed where no image is built.

    Args:
        function: The function's settings.
        batch: Whether the environment has batch jobs.
        loads: Whether the environment's index is loaded from the output of batch jobs.
        server: Whether the environment has a server.

    Raises:
        PydanticCustomError: A `ValueError` with the rule, the value found and the values allowed.
    """
    tables = {"[batch]": batch, "[index] with a source": loads, "[server]": server}
    found = [table for table, there in tables.items() if there]
    if function.package == "zip" and found:
        raise rule_error(
            "batch jobs, loads of an index and the server run from an image, which Docker builds",
            found=f'{" and ".join(found)} with function.package = "zip"',
            allowed='function.package = "image", or another environment with an image for them: '
            "the same model has the same vectors in both",
        )
