"""What the object in S3 has: the artifact's files one after the other, and its parts' checksums.

The files are sorted by name, without `manifest.json`. The manifest and the checksums of the parts
come with the function's package, so the function need not trust what it downloads.
"""

import os
from typing import NamedTuple

import orjson

from embedder.artifact import MANIFEST_FILE, parse_manifest
from embedder.errors import ArtifactError

__all__ = ["PARTS_FILE", "PARTS_VERSION", "Layout", "Part", "StoredFile", "read_layout"]

PARTS_FILE = "parts.json"
PARTS_VERSION = 1


class StoredFile(NamedTuple):
    """A file of the artifact, at its place in the object."""

    name: str
    #: Where it starts in the object, in bytes.
    start: int
    size: int
    #: Its SHA-256, in hexadecimal.
    sha256: str


class Part(NamedTuple):
    """A range of the object that one request reads."""

    start: int
    size: int
    #: The CRC-32 of its bytes (ISO 3309, as zlib computes it).
    crc32: int

    @property
    def range(self) -> str:
        """The value of the header `Range`."""
        return f"bytes={self.start}-{self.start + self.size - 1}"


class Layout(NamedTuple):
    """The object."""

    #: All files together, in bytes.
    size: int
    files: tuple[StoredFile, ...]
    parts: tuple[Part, ...]
    #: The manifest as it is in the package.
    manifest: bytes


def read_layout(folder: str | os.PathLike[str]) -> Layout:
    """Read the manifest and the checksums of the parts from the function's package.

    Raises:
        ArtifactError: If one is missing, is not valid, or does not match the other.
    """
    path = os.path.join(folder, MANIFEST_FILE)
    raw = _read(path)
    files: list[StoredFile] = []
    size = 0
    for name, entry in sorted(parse_manifest(raw, where=path).files.items()):
        files.append(StoredFile(name, size, entry.bytes, entry.sha256))
        size += entry.bytes
    return Layout(size, tuple(files), _parts(os.path.join(folder, PARTS_FILE), size), raw)


def _parts(path: str, size: int) -> tuple[Part, ...]:
    try:
        document = orjson.loads(_read(path))
        version, step, checksums = (
            document[key] for key in ("format_version", "part_bytes", "crc32")
        )
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ArtifactError(
            f"{path} has no checksums of parts. Build the package again."
        ) from error
    if version != PARTS_VERSION or step < 1 or len(checksums) != -(-size // step):
        raise ArtifactError(
            f"{path} has format_version {version} and {len(checksums)} parts of {step} bytes; "
            f"format_version {PARTS_VERSION} and parts of {size} bytes in total are expected. "
            "Build the package again."
        )
    return tuple(
        Part(start, min(step, size - start), checksum)
        for start, checksum in zip(range(0, size, step), checksums, strict=True)
    )


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ArtifactError(
            f"{path} cannot be read ({error.strerror}). Build the package again."
        ) from error
