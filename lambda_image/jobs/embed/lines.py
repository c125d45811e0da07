"""Reads the lines that begin in a range of a file, plain or compressed with gzip."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from jobs.embed.errors import BatchError
from jobs.embed.storage import Folder, StoredFile

__all__ = ["Line", "lines_between", "open_stream"]

#: Read with a range, in bytes, for the line that begins in it and ends after it.
_BEYOND = 1 << 16
#: The size of the reads of a whole file, in bytes.
_BLOCK = 1 << 22


class Line(NamedTuple):
    """A line with its end, if it has one."""

    #: Where it begins, in bytes of the uncompressed file.
    offset: int
    data: bytes


def lines_between(
    folder: Folder, file: StoredFile, *, start: int, stop: int, compressed: bool
) -> Iterator[Line]:
    """Yield the lines that begin at `start` or later and before `stop`.

    Offsets are in bytes of the uncompressed file. Of a plain file, only the range is read. Of a
    compressed one, everything in front of the range is decompressed and dropped.

    Raises:
        ChangedInputError: If the file changed.
        BatchError: If it cannot be read.
    """
    # One byte more in front: the range begins with a line if that byte ends one.
    offset = max(0, start - 1)
    block = _BLOCK if compressed else stop - offset + _BEYOND
    with open_stream(folder, file, compressed=compressed, block=block) as stream:
        stream.seek(offset)
        if start:
            offset += len(stream.readline())
        while offset < stop and (data := stream.readline()):
            yield Line(offset, data)
            offset += len(data)


@contextmanager
def open_stream(
    folder: Folder, file: StoredFile, *, compressed: bool, block: int = _BLOCK
) -> Iterator[io.BufferedIOBase]:
    """Open a file as a stream of its uncompressed bytes, which is read in blocks of that size.

    Raises:
        BatchError: While it is read, if the compressed data is damaged.
    """
    raw = io.BufferedReader(folder.open(file), block)
    try:
        if compressed:
            with gzip.GzipFile(fileobj=raw) as stream:
                yield stream
        else:
            yield raw
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise BatchError(f"{file.key} is damaged: {error}.") from error
