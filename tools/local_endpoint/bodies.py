"""Reads the body of an HTTP/1.1 request, with a Content-Length or chunked, up to a limit."""

from collections.abc import Iterator
from email.message import Message
from typing import Protocol

__all__ = ["BodyError", "check_length", "read_body", "too_large"]

# A body over the limit is read up to this size, so that the caller can read the response.
_READ_LIMIT = 64 * 1024 * 1024
_PIECE = 64 * 1024


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...
    def readline(self, size: int, /) -> bytes: ...


class BodyError(Exception):
    """A body that is too large or invalid.

    Attributes:
        status: The HTTP status of the response.
        message: The reason.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def check_length(headers: Message, *, limit: int) -> None:
    """Check the Content-Length before the body is read.

    Raises:
        BodyError: If it is over `limit` bytes (413), or is not a number (400).
    """
    if "chunked" not in headers.get("transfer-encoding", "").lower() and _length(headers) > limit:
        raise too_large(limit)


def read_body(headers: Message, stream: _Stream, *, limit: int) -> bytes:
    """Return the body.

    Raises:
        BodyError: If it is over `limit` bytes (413), or its framing is invalid (400).
    """
    if "chunked" in headers.get("transfer-encoding", "").lower():
        pieces = _chunks(stream)
    else:
        pieces = _pieces(stream, _length(headers))
    body = bytearray()
    total = 0
    for piece in pieces:
        total += len(piece)
        if total <= limit:
            body += piece
        elif total > _READ_LIMIT:
            break
    if total > limit:
        raise too_large(limit)
    return bytes(body)


def too_large(limit: int) -> BodyError:
    """Return Lambda's error for a request over the limit."""
    return BodyError(
        413, f"Request must be smaller than {limit} bytes for the InvokeFunction operation"
    )


def _length(headers: Message) -> int:
    declared = headers.get("content-length", "0")
    if not (declared.isascii() and declared.isdigit()) or len(declared) > 18:
        raise BodyError(400, f"Content-Length should be a number of bytes, got {declared[:40]!r}")
    return int(declared)


def _pieces(stream: _Stream, length: int) -> Iterator[bytes]:
    while length:
        piece = stream.read(min(_PIECE, length))
        if not piece:
            raise BodyError(400, f"the body ended {length} bytes before its Content-Length")
        length -= len(piece)
        yield piece


def _chunks(stream: _Stream) -> Iterator[bytes]:
    while True:
        header = stream.readline(100).split(b";")[0].strip()
        try:
            size = int(header, 16)
        except ValueError:
            raise BodyError(400, "a chunk of the body has no size") from None
        if size < 0:
            raise BodyError(400, "a chunk of the body has a negative size")
        yield from _pieces(stream, size)
        # The end of the chunk. After the last chunk, the first trailer or the end of the body.
        line = stream.readline(8192)
        while size == 0 and line.strip():
            line = stream.readline(8192)
        if size == 0:
            return
