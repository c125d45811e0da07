"""The file of a fast tokenizer: tables that are mapped into memory and read where they are needed.

A vocabulary of 262,144 tokens with half a million merges takes a JSON reader most of a second and
hundreds of megabytes. Here nothing is read at start-up but the header; a page comes from the disk
when a text first needs it.

Layout, little-endian as every machine that Lambda has:

    offset  bytes  content
    0       8      magic, `EKTOKENS`
    8       4      u32 version of this layout, 1
    12      4      u32 number of sections, n
    16      8      u64 size of the whole file
    24      40 n   per section: name (16 bytes, ASCII, padded with zeros), u64 offset, u64 bytes,
                   u32 number of its first block in `checks`, u32 zero
    24+40n  4      u32 CRC-32 of everything before it

Sections begin at multiples of 64. The last one, `checks`, holds one u32 CRC-32 per block of 16 KiB
of each other section, and last its own. A block is compared with its CRC-32 the first time it is
used, so that a file that was changed raises an error and never gives wrong ids, while start-up
does not have to read all of it.
"""

import mmap
import struct
from zlib import crc32

from embedder.errors import ArtifactError

__all__ = ["BLOCK", "BLOCK_SHIFT", "HEADER", "MAGIC", "SECTION", "VERSION", "Section", "TableFile"]

MAGIC = b"EKTOKENS"
VERSION = 1
HEADER = struct.Struct("<8sIIQ")
SECTION = struct.Struct("<16sQQII")
#: Bytes that share one checksum: large enough to read ahead, small enough to check in 3 µs.
BLOCK_SHIFT = 14
BLOCK = 1 << BLOCK_SHIFT


class TableFile:
    """The sections of one file, by name.

    Raises:
        ArtifactError: if the file is not a table file, is of another version, was cut short or
            was changed. The same error comes later, from a section, if a block was changed.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            with open(path, "rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise ArtifactError(f"{path} cannot be read: {error}.") from error
        self._entries = self._read_header()
        self._checks = self._read_checks()

    def section(self, name: str) -> "Section":
        """Return the section of this name; `Section.check` stands between its bytes and their use.

        Raises:
            ArtifactError: if the file has none.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise ArtifactError(f"{self._path} has no section {name!r}. Compile the model again.")
        offset, size, first_check = entry
        blocks = -(-size // BLOCK)
        return Section(
            memoryview(self._bytes)[offset : offset + size],
            self._checks[first_check : first_check + blocks],
            f"{name!r} of {self._path}",
        )

    def _read_header(self) -> dict[str, tuple[int, int, int]]:
        data, path = self._bytes, self._path
        if len(data) < HEADER.size or data[:8] != MAGIC:
            raise ArtifactError(f"{path} is not a tokenizer's tables: it does not begin as one.")
        _, version, count, size = HEADER.unpack_from(data)
        if version != VERSION:
            raise ArtifactError(
                f"{path} has version {version}; this embedder reads {VERSION}. "
                "Compile the model again with the compiler of this version."
            )
        if size != len(data):
            raise ArtifactError(
                f"{path} has {len(data)} bytes and says {size}. It was changed or cut short."
            )
        end = HEADER.size + count * SECTION.size
        if end + 4 > size or crc32(data[:end]) != int.from_bytes(data[end : end + 4], "little"):
            raise ArtifactError(f"{path} was changed: its header does not fit its checksum.")
        entries = {}
        for index in range(count):
            name, offset, length, check, _ = SECTION.unpack_from(
                data, HEADER.size + index * SECTION.size
            )
            entries[name.rstrip(b"\0").decode("ascii")] = (offset, length, check)
        return entries

    def _read_checks(self) -> memoryview:
        # The header fits its checksum, so what it says is what the compiler wrote.
        offset, length, _ = self._entries["checks"]
        checks = self._bytes[offset : offset + length]
        if crc32(checks[:-4]) != int.from_bytes(checks[-4:], "little"):
            raise ArtifactError(f"{self._path} was changed: its checksums do not fit their own.")
        return memoryview(checks[:-4]).cast("I")


class Section:
    """The bytes of one section, to be read only after `check`."""

    __slots__ = ("_checks", "_where", "bytes", "pending")

    def __init__(self, content: memoryview, checks: memoryview, where: str) -> None:
        self.bytes = content
        self._checks = checks
        #: 1 for each block that has not been checked: what runs often asks here before it calls.
        self.pending = bytearray(b"\1" * len(checks))
        self._where = where

    def check(self, start: int, stop: int) -> None:
        """Compare the blocks that hold the bytes from `start` to `stop` with their checksums.

        Raises:
            ArtifactError: if one does not fit, or if there are no such bytes.
        """
        if not 0 <= start <= stop <= len(self.bytes):
            raise ArtifactError(f"Section {self._where} ends before byte {stop}; it was changed.")
        for block in range(start >> BLOCK_SHIFT, (stop + BLOCK - 1) >> BLOCK_SHIFT):
            if self.pending[block]:
                content = self.bytes[block << BLOCK_SHIFT : (block + 1) << BLOCK_SHIFT]
                if crc32(content) != self._checks[block]:
                    raise ArtifactError(
                        f"Section {self._where} was changed: block {block} does not fit its "
                        "checksum. Compile the model again."
                    )
                self.pending[block] = 0

    def checked(self) -> memoryview:
        """Check the whole section and return its bytes."""
        self.check(0, len(self.bytes))
        return self.bytes

    def numbers(self, code: str) -> memoryview:
        """Check the whole section and return it as numbers of a format code of `struct`."""
        return self.checked().cast(code)  # type: ignore[call-overload, no-any-return]
