"""The server's API keys: who may call.

A key is a random secret that its caller sends as `Authorization: Bearer SECRET`. The server has
only the SHA-256 of each, in lines of a file or of one environment variable:

    # name:sha256
    search:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

A name may be on two lines: both secrets are valid, and are one caller in logs and metrics. This
is how a secret is replaced without an interruption.

A fast hash is enough, because `embedding-kit embedder.server.new_key` makes secrets of 256 random
bits, which cannot be guessed.
"""

import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping

from embedder.core.errors import SettingsError, UnauthorizedError

#: A changed file is in use after at most this many seconds.
RELOAD_SECONDS = 1.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")


def parse_keys(text: str, *, source: str) -> dict[bytes, str]:
    """Return the name of each key by the SHA-256 of its secret.

    Blank lines and lines that begin with `#` are left out. A `SettingsError` names the source and
    the line, and quotes nothing that could be a secret.
    """
    keys: dict[bytes, str] = {}
    lines: dict[bytes, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            name, digest = _parse_line(line.strip())
        except ValueError as error:
            raise SettingsError(f"{source}, line {number}: {error}.") from None
        if digest in keys:
            raise SettingsError(
                f"{source}, line {number}: the SHA-256 is that of line {lines[digest]} too; each "
                "key needs its own secret."
            )
        keys[digest], lines[digest] = name, number
    if not keys:
        raise SettingsError(
            f"{source} has no keys. Expected: a line name:sha256 for each, as "
            "`embedding-kit embedder.server.new_key NAME` prints it."
        )
    return keys


def _parse_line(line: str) -> tuple[str, bytes]:
    name, colon, digest = line.partition(":")
    if not colon:
        raise ValueError("name:sha256 is expected; found no colon")
    check_name(name)
    if not _DIGEST.fullmatch(digest):
        alphabet = "" if re.fullmatch("[0-9a-fA-F]*", digest) else ", not all of them hexadecimal"
        raise ValueError(
            f"the SHA-256 of a secret, 64 hexadecimal digits, is expected after the colon; found "
            f"{len(digest)} characters{alphabet}"
        )
    return name, bytes.fromhex(digest)


def check_name(name: str) -> None:
    """Refuse, with a `ValueError`, a name that no line can have."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            "a name has 1 to 64 letters, digits and . _ -, the first a letter or a digit; found "
            f"{len(name)} characters, not all of them allowed"
            if 0 < len(name) <= 64
            else f"a name has 1 to 64 characters; found {len(name)}"
        )


class Keys:
    """The keys that are valid now. Not thread-safe: it belongs to the event loop.

    `read` returns the lines of `source`, a file or a variable. `report` gets the error of a changed
    file, once for each change. The keys from before stay valid, so that a mistake in a file does
    not lock all callers out. Without `report`, the lines cannot change. `clock` is in
    seconds, and monotonic.
    """

    def __init__(
        self,
        read: Callable[[], str],
        *,
        source: str,
        report: Callable[[SettingsError], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._source, self._report, self._clock = read, source, report, clock
        self._checked = clock()
        self._text = read()
        self._problem: str | None = None
        self._keys = parse_keys(self._text, source=source)

    def authenticate(self, headers: Mapping[str, str]) -> str:
        """Return the name of who sent a request with these headers, or refuse it."""
        if self._report is not None:
            self._reload(self._report)
        authorization = headers.get("authorization")
        if not authorization:
            raise UnauthorizedError(
                "An API key is required, in the header `Authorization: Bearer KEY`.",
                headers={"www-authenticate": "Bearer"},
            )
        scheme, _, secret = authorization.partition(" ")
        caller = self._find(secret.strip()) if scheme.lower() == "bearer" else None
        if caller is None:
            raise UnauthorizedError(
                "The API key is not valid. Send one of this server's keys in the header "
                "`Authorization: Bearer KEY`.",
                headers={"www-authenticate": 'Bearer error="invalid_token"'},
            )
        return caller

    def _find(self, secret: str) -> str | None:
        # All keys are compared, each in constant time, so that the time shows nothing of a secret,
        # of its digest or of its line.
        # Headers are decoded as Latin-1, so this gives back the bytes that were sent.
        digest = hashlib.sha256(secret.encode("latin-1", "replace")).digest()
        caller = None
        for key, name in self._keys.items():
            if hmac.compare_digest(key, digest):
                caller = name
        return caller

    def _reload(self, report: Callable[[SettingsError], None]) -> None:
        seconds = self._clock()
        if seconds - self._checked < RELOAD_SECONDS:
            return
        self._checked = seconds
        # The text is compared, not the file's time: two changes within one tick have the same.
        try:
            text = self._read()
            if text != self._text or self._problem is not None:
                self._keys = parse_keys(text, source=self._source)
                self._text, self._problem = text, None
        except SettingsError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                report(error)


def read_keys_file(path: str) -> str:
    """Return the lines of a file, or raise a `SettingsError`."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not text in UTF-8.") from None
