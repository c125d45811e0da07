"""The rules of `package = "zip"`: what a zip can hold, and what comes from S3 instead.

An artifact's size is exact only once the model is compiled. Those of the catalog's models were
measured, and the weights of a model's own folder are counted in its files.

Limits: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
"""

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path

from embedding_kit.settings.base import rule_error
from embedding_kit.settings.cold_start import ColdStart, SnapStart
from embedding_kit.settings.function import FunctionSettings
from embedding_kit.settings.model import ModelSettings, ModelSource

#: A weight takes a byte in int8; its scales and the tokenizer's tables are a few percent.
_FP32 = 4


def artifact_bytes(model: ModelSettings) -> int | None:
    """Return the bytes that a function's artifacts take, to a few percent; None if unknown."""
    sizes = [_bytes_of(source) for source in model.sources]
    return None if None in sizes else sum(size or 0 for size in sizes)


def _bytes_of(source: ModelSource) -> int | None:
    if source.folder is not None:
        route = source.route if isinstance(source, ModelSettings) else None
        return _bytes_of_folders(_served(source.folder, route), source.precision)
    megabytes = source.catalog.megabytes if source.catalog else None
    if megabytes is None:
        return None
    return round(megabytes * 1e6 * (_FP32 if source.precision == "fp32" else 1))


def _served(folder: Path, route: str | None) -> list[Path]:
    """Return the folders that are served: the whole model, or the modules of a Router's route."""
    if route is None:
        return [folder]
    try:
        router = json.loads((folder / "router_config.json").read_text("utf-8"))
        return [folder / name for name in router["structure"][route]]
    except (OSError, ValueError, KeyError, TypeError):
        return []  # the compiler says what is wrong with it


def _bytes_of_folders(folders: list[Path], precision: str | None) -> int | None:
    weights = sum(_weights(file) for folder in folders for file in _files(folder, "*.safetensors"))
    if weights:
        return weights * (_FP32 if precision == "fp32" else 1)
    # An export is served as it is. Several are of other precisions, and one of them is taken.
    exports = [file for folder in folders for file in _files(folder, "*.onnx*")]
    models = [file for file in exports if file.suffix == ".onnx"]
    return sum(file.stat().st_size for file in exports) if len(models) == 1 else None


def _files(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a model, without its training's checkpoints."""
    return [
        file
        for file in folder.rglob(pattern)
        if not file.relative_to(folder).parts[0].startswith("checkpoint-")
    ]


def _weights(file: Path) -> int:
    """Count the weights of a file by its header: 8 bytes of length, then JSON."""
    try:
        with file.open("rb") as content:
            header = json.loads(content.read(int.from_bytes(content.read(8), "little")))
        return sum(prod(entry["shape"]) for name, entry in header.items() if name[:2] != "__")
    except (ValueError, KeyError, TypeError, AttributeError, MemoryError, OverflowError):
        return 0  # the compiler says what is wrong with it


#: Lambda unpacks up to 250 MB of 1,024².
_LIMIT = 262_144_000
#: Packages and code, unpacked; a test builds and weighs them. Source: docs/performance.md.
_BESIDE = 81_000_000
#: Reserve for other sizes of the expected artifact, newer packages, and `tokenizers` (11 MB).
_ROOM = 14_000_000
#: The largest artifact of a zip, in bytes.
LARGEST_ARTIFACT = _LIMIT - _BESIDE - _ROOM
#: Sizes of /tmp: what SnapStart takes, which is what every function has, and the maximum.
SNAPSTART_STORAGE_MB, _MOST_STORAGE_MB = 512, 10_240
#: What an environment receives: 625 Mbit/s.
_BYTES_PER_SECOND = 78_125_000


def artifact_in_s3(model: ModelSettings, function: FunctionSettings) -> bool:
    """Return whether the function is a zip that downloads its artifact from S3.

    If the settings do not say, an artifact of unknown size is tried in the package.
    """
    if function.package == "image":
        return False
    if function.artifact is not None:
        return function.artifact == "s3"
    return (artifact_bytes(model) or 0) > LARGEST_ARTIFACT


def storage_mb(model: ModelSettings, *, in_s3: bool, snap_start: bool) -> int:
    """Return the size of /tmp in MB: an artifact in S3 is downloaded to it."""
    if snap_start or not in_s3:
        return SNAPSTART_STORAGE_MB
    size = artifact_bytes(model)
    needed = _MOST_STORAGE_MB if size is None else -(-(size + _ROOM) >> 20)
    return max(SNAPSTART_STORAGE_MB, needed)


def check_package(
    model: ModelSettings, function: FunctionSettings, cold_start: ColdStart | None
) -> None:
    """Refuse a zip that Lambda would not unpack, and an artifact in S3 where it does not belong.

    What depends on the artifact's size is checked only if the size is known.
    """
    if function.package == "image":
        if function.artifact is None:
            return
        raise rule_error(
            "only a zip can have its artifact in S3",
            found='function.artifact with function.package = "image"',
            allowed='no function.artifact, or function.package = "zip"',
        )
    size = artifact_bytes(model)
    if not artifact_in_s3(model, function):
        if size is not None and size > LARGEST_ARTIFACT:
            raise _too_large(model, size)
        return
    if cold_start is None:
        raise _too_slow(model, size)
    if size is not None and isinstance(cold_start, SnapStart) and size > SNAPSTART_STORAGE_MB << 20:
        raise rule_error(
            f"an artifact in S3 is downloaded to /tmp, of which SnapStart takes "
            f"{SNAPSTART_STORAGE_MB} MB",
            found=f"an artifact of about {size / 1e6:.0f} MB",
            allowed='cold_start.kind = "provisioned", or function.package = "image"',
        )


def _too_large(model: ModelSettings, size: int) -> Exception:
    return rule_error(
        f"Lambda unpacks a zip of up to {_LIMIT / 1e6:.0f} MB",
        found=f"about {(size + _BESIDE) / 1e6:.0f} MB: {_BESIDE / 1e6:.0f} MB of packages and "
        f"code, and an artifact of about {size / 1e6:.0f} MB of {_shown(model)}",
        allowed=f"an artifact of up to {LARGEST_ARTIFACT / 1e6:.0f} MB: {_smaller(model)}"
        'function.artifact = "s3", or function.package = "image"',
    )


def _too_slow(model: ModelSettings, size: int | None) -> Exception:
    seconds = "" if size is None else f" of {size / _BYTES_PER_SECOND:.0f} s"
    does_not_fit = size is not None and size > LARGEST_ARTIFACT
    return rule_error(
        "each environment that is initialized downloads an artifact in S3, so without SnapStart or "
        "provisioned concurrency every cold start would wait for it",
        found=f"no cold_start with a download{seconds} of {_shown(model)}"
        + (
            f": {size / 1e6:.0f} MB of artifact and {_BESIDE / 1e6:.0f} MB of packages and code "
            f"are more than the {_LIMIT / 1e6:.0f} MB that Lambda unpacks"
            if does_not_fit and size
            else ' by function.artifact = "s3"'
        ),
        allowed='cold_start.kind = "snapstart" or "provisioned", '
        + (_smaller(model) if does_not_fit else 'function.artifact = "package", ')
        + 'or function.package = "image"',
    )


def _shown(model: ModelSettings) -> str:
    return " and ".join(
        source.name + (f" as {source.precision}" if source.precision else "")
        for source in model.sources
    )


def _smaller(model: ModelSettings) -> str:
    return "a smaller model, " + ('precision = "int8", ' if model.precision == "fp32" else "")


def check_without_images(function: FunctionSettings, tables: Mapping[str, object]) -> None:
    """Refuse what runs from an image next to a zip, which is deployed where no image is built.

    `tables` has the tables of such parts by name, where they are set.
    """
    tables_with_images = [table for table, is_set in tables.items() if is_set]
    if function.package == "zip" and tables_with_images:
        raise rule_error(
            "batch jobs, loads of an index, documents and the server run from an image, which "
            "Docker builds",
            found=f'{" and ".join(tables_with_images)} with function.package = "zip"',
            allowed='function.package = "image", or a second environment with package = "image" '
            "for them: the same model has the same vectors in both",
        )
