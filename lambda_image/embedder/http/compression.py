"""Gzip for bodies: answers on their way out, requests on their way in (RFC 1952).

Imported on demand: most requests neither send nor get gzip.
"""

import re
import zlib

from embedder.core.errors import BodyTooLargeError, MalformedBodyError
from embedder.http.http_types import Response
from embedder.http.json_types import quote_name

#: Argument of `zlib`: gzip's header and trailer, and the largest window.
_GZIP = 16 + zlib.MAX_WBITS
#: 2,048 vectors of 384 floats, 9.7 MB of JSON, become 4.3 MB in 0.19 s of processor time. Level 6
#: takes several times as long and saves little: digits are nearly random.
_LEVEL = 1
#: Bytes of the sample that decides whether the rest is compressed.
_SAMPLE_BYTES = 8192
#: What gzip must leave at most, base64 included. Base64 of floats does not get smaller at all.
_WORTHWHILE = 0.9
_REFUSED = re.compile(r"q=0(\.0*)?")


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether this `Accept-Encoding` allows gzip (RFC 9110, section 12.5.3)."""
    weights = {}
    for coding in accept_encoding.lower().split(","):
        name, _, weight = coding.partition(";")
        weights[name.strip()] = weight.strip()
    chosen = weights.get("gzip", weights.get("*"))
    return chosen is not None and _REFUSED.fullmatch(chosen) is None


def packed(response: Response) -> Response:
    """Return a response in gzip, or as it is if gzip would not make the payload smaller."""
    sample = response.body[:_SAMPLE_BYTES]
    in_base64 = -(-len(_deflate(sample)) // 3) * 4
    if in_base64 > _WORTHWHILE * len(sample):
        return response
    return Response(
        status=response.status,
        body=_deflate(response.body),
        headers={**response.headers, "content-encoding": "gzip", "vary": "accept-encoding"},
    )


def decoded(body: bytes, encoding: str, limit: int) -> bytes:
    """Undo a request's `Content-Encoding`.

    Raises:
        MalformedBodyError: if it is not gzip, is cut short, or has something after its end.
        BodyTooLargeError: if more than `limit` bytes come out; no more than those are ever made.
    """
    if encoding != "gzip":
        raise MalformedBodyError(
            'The header "content-encoding" may be absent, or gzip, or identity; found '
            f"{quote_name(encoding)}."
        )
    inflater = zlib.decompressobj(_GZIP)
    try:
        plain = inflater.decompress(body, limit + 1)
    except zlib.error as error:
        raise MalformedBodyError(
            'The header "content-encoding" says gzip, and the body is not gzip.'
        ) from error
    if len(plain) > limit:
        raise BodyTooLargeError(
            f"The body has more than {limit} bytes once it is inflated; at most {limit} are "
            "allowed."
        )
    if not inflater.eof or inflater.unused_data:
        raise MalformedBodyError(
            "The body must be one gzip stream; found "
            + ("data after its end." if inflater.eof else "a stream that is cut short.")
        )
    return plain


def _deflate(body: bytes) -> bytes:
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return compressor.compress(body) + compressor.flush()
