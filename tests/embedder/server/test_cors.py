"""Which pages may call the server from a browser."""

from embedder.server.cors import Cors

PREFLIGHT = {"origin": "https://a.example", "access-control-request-method": "POST"}


def test_by_default_no_page_may() -> None:
    """Without origins there is no header, and OPTIONS is a method like others."""
    cors = Cors(())
    assert cors.headers(PREFLIGHT) == {}
    assert cors.preflight("OPTIONS", PREFLIGHT) is None


def test_an_allowed_origin_gets_the_headers() -> None:
    """Caches must not give one origin's response to another, hence `vary`."""
    cors = Cors(("https://a.example",))
    headers = cors.headers({"origin": "https://a.example"})
    assert headers["access-control-allow-origin"] == "https://a.example"
    assert headers["vary"] == "origin"
    assert cors.headers({"origin": "https://b.example"}) == {"vary": "origin"}
    preflight = cors.preflight("OPTIONS", PREFLIGHT)
    assert preflight is not None
    assert "authorization" in preflight["access-control-allow-headers"]
    assert cors.preflight("POST", PREFLIGHT) is None
    assert cors.preflight("OPTIONS", {**PREFLIGHT, "origin": "https://b.example"}) is None


def test_a_star_allows_every_origin() -> None:
    """The response is the same for all, so caches may share it."""
    headers = Cors(("*",)).headers({"origin": "https://a.example"})
    assert headers["access-control-allow-origin"] == "*"
    assert "vary" not in headers
