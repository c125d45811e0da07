"""Addresses of endpoints: which URLs there are, and which of them may be called without TLS."""

from urllib.parse import urlsplit

from embedding_client._errors import ConfigurationError

#: The hosts of this machine.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def check_url(url: str, *, allow_plain_http: bool = False) -> str:
    """Return the endpoint's URL without a trailing slash, or raise `ConfigurationError`."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ConfigurationError(
            "The URL must look like https://<id>.lambda-url.<region>.on.aws/ or "
            f"http://127.0.0.1:9000; found {url!r}."
        )
    if not allow_plain_http:
        check_encrypted(parts.scheme, parts.hostname)
    return url.rstrip("/")


def check_encrypted(scheme: str, host: str) -> None:
    """Refuse to send texts, keys and signatures in the clear to another machine."""
    if scheme != "https" and host not in LOOPBACK:
        raise ConfigurationError(
            f"Texts and credentials would travel in the clear; found: {scheme}://{host}; allowed: "
            "https, this machine, and in a network that you trust plain HTTP with "
            "allow_plain_http=True (on the command line: --allow-plain-http)."
        )
