"""An HTTP request and its response, as plain values between Lambda and the router.

Values here and elsewhere in the embedder are named tuples: making a frozen dataclass costs half a
millisecond of every cold start, making a named tuple a tenth of that.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

#: Lambda's limit on the payload of a synchronous invocation: 6 MB.
#: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
MAX_REQUEST_BYTES = 6 * 1024 * 1024
#: What Lambda says when an answer is over the same 6 MB: "Response payload size exceeded maximum
#: allowed payload size (6291556 bytes)". It counts the whole JSON envelope.
MAX_RESPONSE_BYTES = 6_291_556
#: The most bytes around the body in that envelope: status and headers.
ENVELOPE_BYTES = 4096


_NONE: Mapping[str, str] = MappingProxyType({})


class Request(NamedTuple):
    """One HTTP request.

    `method` is in capitals, names of `headers` are in lower case.
    `deadline` is the `time.monotonic()` at which Lambda would cut the request off, if any.
    `caller` is the ARN of the role's session, or of the user, that Lambda has authenticated.
    """

    method: str
    path: str
    headers: Mapping[str, str] = _NONE
    body: bytes = b""
    id: str = ""
    deadline: float | None = None
    caller: str | None = None


class Response(NamedTuple):
    """One HTTP response; `body` is UTF-8 or encoded as the header `content-encoding` says."""

    status: int
    body: bytes
    headers: Mapping[str, str] = _NONE


def usable_id(value: object) -> str:
    """Return an id that was sent, if it may go into a header and a log, or an empty one."""
    text = value if isinstance(value, str) else ""
    return text if text.isascii() and text.isprintable() and len(text) <= 128 else ""
