"""The server's API keys: who may call, and how much.

A key is a random secret that its caller sends as `Authorization: Bearer SECRET`. The server has
only the SHA-256 of each, in lines of a file or of one environment variable:

    # name:sha256 [requests_per_minute=N] [tokens_per_minute=N]
    search:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 requests_per_minute=600

A name may be on two lines: both secrets are valid, share the limits and are one caller in logs and
metrics. This is how a secret is replaced without an interruption.

A fast hash is enough, because `embedding-kit embedder.server.new_key` makes secrets of 256 random
bits, which cannot be guessed.
"""

import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from embedder.core.errors import SettingsError, UnauthorizedError
from embedder.server.exchange import Caller

__all__ = ["Key", "Keys", "check_name", "format_line", "parse_keys", "parse_limit"]

#: A changed file is in use after at most this many seconds.
RELOAD_SECONDS = 1.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_LIMITS = ("requests_per_minute", "tokens_per_minute")
_COUNT = re.compile(r"[1-9][0-9]{0,14}")
_LINE = f"name:sha256 {' '.join(f'[{name}=N]' for name in _LIMITS)}"


class Key(NamedTuple):
    """One line: who may call, with which secret."""

    caller: Caller
    #: The SHA-256 of the secret.
    digest: bytes


def parse_keys(text: str, *, source: str) -> tuple[Key, ...]:
    """Parse lines of keys; blank lines and lines that begin with `#` are left out.

    Args:
        text: The lines.
        source: The file or the variable they are from, for errors.

    Raises:
        SettingsError: with the number of the line. It quotes nothing that could be a secret.
    """
    keys: list[Key] = []
    lines: dict[bytes, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            key = _parse_line(line)
            _check_beside(key, keys, lines)
        except ValueError as error:
            raise SettingsError(f"{source}, line {number}: {error}.") from None
        keys.append(key)
        lines[key.digest] = number
    if not keys:
        raise SettingsError(
            f"{source} has no keys. Expected: a line {_LINE} for each, as "
            "`embedding-kit embedder.server.new_key NAME` prints it."
        )
    return tuple(keys)


def format_line(key: Key) -> str:
    """Return the line of a key."""
    limits = ((name, getattr(key.caller, name)) for name in _LIMITS)
    words = [f"{name}={value}" for name, value in limits if value is not None]
    return " ".join([f"{key.caller.name}:{key.digest.hex()}", *words])


def check_name(name: str) -> None:
    """Refuse a name that no line can have.

    Raises:
        ValueError: with what is wrong.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            "a name has 1 to 64 letters, digits and . _ -, the first a letter or a digit; found "
            f"{len(name)} characters, not all of them allowed"
            if 0 < len(name) <= 64
            else f"a name has 1 to 64 characters; found {len(name)}"
        )


def parse_limit(name: str, value: str) -> int:
    """Parse the value of a limit.

    Raises:
        ValueError: with what is wrong.
    """
    if not _COUNT.fullmatch(value):
        raise ValueError(f"{name} must be a whole number from 1 up, of at most 15 digits")
    return int(value)


class Keys:
    """The keys that are valid now. Not thread-safe: it belongs to the event loop.

    Args:
        read: Returns the lines.
        source: The file or the variable they are from, for errors.
        report: Called with the error of a changed file, once for each change. The keys from before
            stay valid, so that a mistake in a file does not lock all callers out.
        reload: Whether the lines can change. An environment variable's cannot: a process keeps
            the variables that it was started with.
        clock: A monotonic clock, in seconds.

    Raises:
        SettingsError: The lines cannot be read, or one of them is bad, or there are none.
    """

    def __init__(
        self,
        read: Callable[[], str],
        *,
        source: str,
        report: Callable[[SettingsError], None],
        reload: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._source = source
        self._report = report
        self._reload = reload
        self._clock = clock
        self._checked = clock()
        self._text = read()
        self._problem: str | None = None
        self.keys = parse_keys(self._text, source=source)

    @classmethod
    def from_file(
        cls,
        path: str,
        *,
        report: Callable[[SettingsError], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> "Keys":
        """Read the keys of a file, and again whenever it has changed."""
        return cls(lambda: _read_file(path), source=path, report=report, reload=True, clock=clock)

    @classmethod
    def from_variable(cls, value: str, *, name: str) -> "Keys":
        """Read the keys of an environment variable."""
        return cls(lambda: value, source=name, report=_never, reload=False)

    def authenticate(self, headers: Mapping[str, str]) -> Caller:
        """Return who sent a request.

        Args:
            headers: The request's headers; their names are in lower case.

        Raises:
            UnauthorizedError: The request has no secret, or no key has it.
        """
        if self._reload:
            self._refresh()
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

    def _find(self, secret: str) -> Caller | None:
        # All keys are compared, each in constant time, so that the time shows nothing of a secret,
        # of its digest or of its line.
        # Headers are decoded as Latin-1, so this gives back the bytes that were sent.
        digest = hashlib.sha256(secret.encode("latin-1", "replace")).digest()
        found = None
        for key in self.keys:
            if hmac.compare_digest(key.digest, digest):
                found = key.caller
        return found

    def _refresh(self) -> None:
        now = self._clock()
        if now - self._checked < RELOAD_SECONDS:
            return
        self._checked = now
        # The text is compared, not the file's time: two changes within one tick have the same.
        try:
            text = self._read()
            if text == self._text and self._problem is None:
                return
            keys = parse_keys(text, source=self._source)
        except SettingsError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                self._report(error)
            return
        self._text, self._problem, self.keys = text, None, keys


def _parse_line(line: str) -> Key:
    """Parse a line.

    Raises:
        ValueError: with what is wrong, without the line's number.
    """
    first, *words = line.split()
    name, colon, digest = first.partition(":")
    if not colon:
        raise ValueError(f"{_LINE} is expected; found no colon")
    check_name(name)
    if not _DIGEST.fullmatch(digest):
        kind = "" if re.fullmatch("[0-9a-fA-F]*", digest) else ", not all of them hexadecimal"
        raise ValueError(
            f"the SHA-256 of a secret, 64 hexadecimal digits, is expected after the colon; found "
            f"{len(digest)} characters{kind}"
        )
    limits: dict[str, int] = {}
    for word in words:
        limit, _, value = word.partition("=")
        if limit not in _LIMITS:
            raise ValueError(f"after the SHA-256 only {' and '.join(_LIMITS)} are allowed")
        if limit in limits:
            raise ValueError(f"{limit} is given twice")
        limits[limit] = parse_limit(limit, value)
    return Key(Caller(name, **limits), bytes.fromhex(digest))


def _check_beside(key: Key, keys: list[Key], lines: dict[bytes, int]) -> None:
    for other in keys:
        if other.digest == key.digest:
            raise ValueError(
                f"the SHA-256 is that of line {lines[other.digest]} too; each key needs a secret "
                "of its own"
            )
        if other.caller.name == key.caller.name and other.caller != key.caller:
            raise ValueError(
                f"the limits differ from those of the same name on line {lines[other.digest]}; two "
                "secrets of one name share their limits"
            )


def _read_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not text in UTF-8.") from None


def _never(_error: SettingsError) -> None:
    raise AssertionError("the keys of a variable are read once")
