"""Reads the body of an ASGI request, up to a limit of bytes and of time."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from embedder.core.errors import BodyTooLargeError, MalformedBodyError, SlowBodyError
from embedder.http.http_types import MAX_REQUEST_BYTES

__all__ = ["Receive", "check_length", "read_body"]

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
#: A body over the limit is read and dropped up to this size, so that the client, which reads when
#: it has written, can read the error. Beyond it, the connection is closed.
_DROPPED_BYTES = 64 << 20


class _DisconnectedError(Exception):
    """The client closed the connection within the body."""


def check_length(headers: Mapping[str, str]) -> None:
    """Check the `Content-Length`, which a body in chunks does not have.

    Raises:
        BodyTooLargeError: if it is over what is read.
        MalformedBodyError: if it is not a number.
    """
    declared = headers.get("content-length", "0")
    if not (declared.isascii() and declared.isdecimal()):
        raise MalformedBodyError('The header "content-length" must be a number of bytes.')
    length = int(declared[:18])
    if length > _DROPPED_BYTES:
        raise BodyTooLargeError(
            f"The body has {length} bytes; at most {MAX_REQUEST_BYTES} are allowed.",
            headers={"connection": "close"},
        )


async def read_body(
    receive: Receive, *, timeout: float, arrived: Callable[[int], None]
) -> bytes | None:
    """Return a body; None if the client has gone.

    Args:
        receive: ASGI's.
        timeout: the seconds in which it has to be there.
        arrived: called with the size of each part that is kept; it may raise an error.

    Raises:
        BodyTooLargeError: if it is over what is read.
        SlowBodyError: if it is not there in time.
    """
    try:
        async with asyncio.timeout(timeout):
            return await _read(receive, arrived)
    except _DisconnectedError:
        return None
    except TimeoutError:
        raise SlowBodyError(
            f"The body was not there after {timeout:g} s.", headers={"connection": "close"}
        ) from None


async def _read(receive: Receive, arrived: Callable[[int], None]) -> bytes:
    message = await _message(receive)
    pieces, kept, total = [], 0, 0
    while True:
        piece = message.get("body", b"")
        total += len(piece)
        if total > _DROPPED_BYTES:
            raise BodyTooLargeError(
                f"The body has more than {_DROPPED_BYTES} bytes; at most {MAX_REQUEST_BYTES} are "
                "allowed.",
                headers={"connection": "close"},
            )
        if piece and kept <= MAX_REQUEST_BYTES:
            arrived(len(piece))
            pieces.append(piece)
            kept += len(piece)
        if not message.get("more_body"):
            break
        message = await _message(receive)
    if total > MAX_REQUEST_BYTES:
        raise BodyTooLargeError(
            f"The body has {total} bytes; at most {MAX_REQUEST_BYTES} are allowed."
        )
    return b"".join(pieces)


async def _message(receive: Receive) -> MutableMapping[str, Any]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise _DisconnectedError
    return message
