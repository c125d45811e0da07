"""Writes an artifact as one object for S3, and the checksums of the object's parts.

`embedder.artifact_download.layout` describes both. `python -P -m model_compiler.artifact.packed
FOLDER --object FILE` writes the one, and `--parts FILE` the other.
"""

import argparse
import shutil
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from embedder.artifact import Artifact, load_artifact
from embedder.artifact_download.layout import PARTS_VERSION

__all__ = ["PART_BYTES", "main", "write_object", "write_parts"]

#: A request for each part: fewer parts leave connections without work at the end, more parts cost
#: more requests.
PART_BYTES = 16 << 20
_CHUNK = 1 << 20


def write_object(folder: Path, to: Path) -> None:
    """Write the artifact in a folder as one object.

    Raises:
        ArtifactError: The folder is not an artifact.
    """
    with to.open("wb") as out:
        for path in _paths(load_artifact(folder)):
            with path.open("rb") as file:
                shutil.copyfileobj(file, out, _CHUNK)


def write_parts(folder: Path, to: Path, *, part_bytes: int = PART_BYTES) -> None:
    """Write the checksums of the object's parts.

    Args:
        folder: The artifact.
        to: The file; in the function's package it is `parts.json` beside the manifest.
        part_bytes: The size of a part; the last one may be smaller.

    Raises:
        ArtifactError: The folder is not an artifact.
    """
    checksums: list[int] = []
    left = 0
    for piece in _pieces(load_artifact(folder)):
        view = memoryview(piece)
        while view:
            if not left:
                checksums.append(0)
                left = part_bytes
            checksums[-1] = zlib.crc32(view[:left], checksums[-1])
            left, view = left - min(left, len(view)), view[left:]
    document = {"format_version": PARTS_VERSION, "part_bytes": part_bytes, "crc32": checksums}
    to.write_bytes(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE))


def _pieces(artifact: Artifact) -> Iterator[bytes]:
    for path in _paths(artifact):
        with path.open("rb") as file:
            while piece := file.read(_CHUNK):
                yield piece


def _paths(artifact: Artifact) -> list[Path]:
    return [Path(artifact.folder, name) for name in sorted(artifact.manifest.files)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the files that are asked for."""
    parser = argparse.ArgumentParser(prog="model_compiler.artifact.packed", description=__doc__)
    parser.add_argument("folder", type=Path, help="the artifact")
    parser.add_argument("--object", type=Path, metavar="FILE")
    parser.add_argument("--parts", type=Path, metavar="FILE")
    asked = parser.parse_args(arguments)
    if asked.object:
        write_object(asked.folder, asked.object)
    if asked.parts:
        write_parts(asked.folder, asked.parts)


if __name__ == "__main__":
    main()
