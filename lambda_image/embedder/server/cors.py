"""Cross-origin requests: which pages may call the server from a browser.

https://fetch.spec.whatwg.org/#http-cors-protocol
"""

from collections.abc import Mapping, Sequence

__all__ = ["Cors"]

_METHODS = "GET, HEAD, POST, OPTIONS"
_HEADERS = "authorization, content-type, content-encoding, x-request-id, traceparent"
#: What a page may read besides the few headers that it always may.
_EXPOSED = "retry-after, x-request-id, x-vector-space"


class Cors:
    """Makes the headers for the pages of some origins.

    Args:
        origins: as browsers send them, `https://example.com`; `*` is every one. Keys are sent in a
            header, which a page must set itself, so no page can use another's.
    """

    def __init__(self, origins: Sequence[str]) -> None:
        self._origins = frozenset(origins)

    def headers(self, request_headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a response; none for a page that is not allowed."""
        if not self._origins:
            return {}
        origin = request_headers.get("origin")
        if "*" in self._origins:
            return {"access-control-allow-origin": "*", "access-control-expose-headers": _EXPOSED}
        if origin not in self._origins:
            return {"vary": "origin"}
        return {
            "access-control-allow-origin": origin,
            "access-control-expose-headers": _EXPOSED,
            "vary": "origin",
        }

    def preflight(self, method: str, request_headers: Mapping[str, str]) -> dict[str, str] | None:
        """Return the headers for a browser that asks before its request; None for others."""
        if method != "OPTIONS" or "access-control-request-method" not in request_headers:
            return None
        allowed = self.headers(request_headers)
        if "access-control-allow-origin" not in allowed:
            return None
        return {
            **allowed,
            "access-control-allow-methods": _METHODS,
            "access-control-allow-headers": _HEADERS,
            "access-control-max-age": "600",
        }
