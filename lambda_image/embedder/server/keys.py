"""The server's API keys: who may call.

A key is a random secret that its caller sends as `Authorization: Bearer SECRET`. The server has
only the SHA-256 of each, in lines of one environment variable:

    # name:sha256
    search:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

A name may be on two lines: both secrets are valid, and are one caller in logs and metrics. This
is how a secret is replaced without an interruption.

A fast hash is enough for secrets of 256 random bits, as docs/server.md makes them: they cannot be
guessed.
"""

import hashlib
import re
from collections.abc import Mapping

from embedder.core.errors import SettingsError, UnauthorizedError

_LINE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63}):([0-9a-fA-F]{64})")
_FORM = (
    "name:sha256 with a name of 1 to 64 letters, digits and . _ -, of which the first is a letter "
    "or a digit, and the 64 hexadecimal digits of the secret's SHA-256"
)


class Keys:
    """The keys of the lines in `source`, a variable.

    Blank lines and lines that begin with `#` are left out. A `SettingsError` names the source and
    the line, and quotes nothing that could be a secret.
    """

    def __init__(self, text: str, *, source: str) -> None:
        #: The name of each key by the SHA-256 of its secret.
        self._keys: dict[bytes, str] = {}
        for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
            if not line or line.startswith("#"):
                continue
            match = _LINE.fullmatch(line)
            if match is None:
                raise SettingsError(
                    f"{source}, line {number}: {_FORM} is expected; found {len(line)} characters "
                    "of another form."
                )
            digest = bytes.fromhex(match[2])
            if digest in self._keys:
                raise SettingsError(
                    f"{source}, line {number}: another line has the same SHA-256; each key needs "
                    "its own secret."
                )
            self._keys[digest] = match[1]
        if not self._keys:
            raise SettingsError(f"{source} has no keys; expected: {_FORM}, on a line for each key.")

    def authenticate(self, headers: Mapping[str, str]) -> str:
        """Return the name of who sent a request with these headers, or refuse it."""
        authorization = headers.get("authorization")
        if not authorization:
            raise UnauthorizedError(
                "An API key is required, in the header `Authorization: Bearer KEY`.",
                headers={"www-authenticate": "Bearer"},
            )
        scheme, _, secret = authorization.partition(" ")
        # Headers are decoded as Latin-1, so this gives back the bytes that were sent. A search for
        # their digest takes a time that depends on the digest alone, and not on the secret.
        digest = hashlib.sha256(secret.strip().encode("latin-1", "replace")).digest()
        caller = self._keys.get(digest) if scheme.lower() == "bearer" else None
        if caller is None:
            raise UnauthorizedError(
                "The API key is not valid. Send one of this server's keys in the header "
                "`Authorization: Bearer KEY`.",
                headers={"www-authenticate": 'Bearer error="invalid_token"'},
            )
        return caller
