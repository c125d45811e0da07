"""The file of a fast tokenizer: tables that are mapped into memory and read on demand.

A JSON reader takes most of a second and hundreds of megabytes for a vocabulary of 262,144 tokens
with half a million merges. Here an initialization reads only the header; the operating system loads
a page when a text first needs it.

The contents are not checked: the compiler wrote the file, the manifest has its size, and the image
is immutable. `python -m model_compiler verify` compares the file's SHA-256.

Layout, little-endian like every machine that Lambda has:

    offset  bytes  content
    0       8      magic, `EKTOKENS`
    8       4      u32 version of this layout, 2
    12      4      u32 number of sections, n
    16      8      u64 size of the whole file
    24      32 n   per section: name (16 bytes, ASCII, padded with zeros), u64 offset, u64 bytes

Sections begin at multiples of 64.
"""

import mmap
import struct

from embedder.errors import ArtifactError

__all__ = ["HEADER", "MAGIC", "SECTION", "VERSION", "TableFile"]

MAGIC = b"EKTOKENS"
VERSION = 2
HEADER = struct.Struct("<8sIIQ")
SECTION = struct.Struct("<16sQQ")


class TableFile:
    """The sections of one file, by name.

    Raises:
        ArtifactError: The file is not a table file, has another version, or is incomplete.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            with open(path, "rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise ArtifactError(f"{path} cannot be read: {error}.") from error
        self._entries = self._read_header()

    def section(self, name: str) -> memoryview:
        """Return the bytes of a section.

        Raises:
            ArtifactError: The file has no section of this name.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise ArtifactError(f"{self._path} has no section {name!r}. Compile the model again.")
        offset, size = entry
        return memoryview(self._bytes)[offset : offset + size]

    def text(self, name: str) -> str:
        """Return a section as text."""
        return self.section(name).tobytes().decode()

    def _read_header(self) -> dict[str, tuple[int, int]]:
        data, path = self._bytes, self._path
        if len(data) < HEADER.size or data[:8] != MAGIC:
            raise ArtifactError(f"{path} is not a tokenizer's table file: the magic is missing.")
        _, version, count, size = HEADER.unpack_from(data)
        if version != VERSION:
            raise ArtifactError(
                f"{path} has version {version}; this embedder reads {VERSION}. "
                "Compile the model again with the compiler of this version."
            )
        if size != len(data):
            raise ArtifactError(
                f"{path} has {len(data)} bytes and its header says {size}. The file is incomplete."
            )
        entries = {}
        for index in range(count):
            name, offset, length = SECTION.unpack_from(data, HEADER.size + index * SECTION.size)
            entries[name.rstrip(b"\0").decode("ascii")] = (offset, length)
        return entries
