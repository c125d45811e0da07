"""API keys: their lines, their check, and a change of their file."""

import hashlib
import hmac
from pathlib import Path

import pytest

from embedder.core.errors import SettingsError, UnauthorizedError
from embedder.server.keys import Keys, parse_keys, read_keys_file

SECRET = "ek_Zanzibar-4711"


class Clock:
    """A clock that stands still until a test moves it."""

    now = 100.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


def digest(secret: str = SECRET) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def problems() -> list[str]:
    return []


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text(f"search:{digest()}\n")
    return path


@pytest.fixture
def keys(file: Path, clock: Clock, problems: list[str]) -> Keys:
    return Keys(
        lambda: read_keys_file(str(file)),
        source=str(file),
        report=lambda error: problems.append(str(error)),
        clock=clock,
    )


def who(keys: Keys, secret: str) -> str:
    return keys.authenticate({"authorization": f"Bearer {secret}"})


def test_lines_are_parsed():
    """Comments and blank lines are allowed, and digits in capitals."""
    text = f"# our callers\n\nsearch:{digest()}\r\n  indexer:{digest('other').upper()}\n"
    assert parse_keys(text, source="keys") == {
        bytes.fromhex(digest()): "search",
        bytes.fromhex(digest("other")): "indexer",
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (SECRET, "name:sha256 is expected; found no colon"),
        (f":{digest()}", "a name has 1 to 64 characters; found 0"),
        (f"{SECRET}!:{digest()}", "first a letter or a digit; found 17 characters, not all of"),
        (f"search:{SECRET}", "is expected after the colon; found 16 characters, not all of them h"),
        (f"search:{digest()[:-1]}", "64 hexadecimal digits, is expected after the colon; found 63"),
        (f"search:{digest()} {SECRET}", "64 hexadecimal digits, is expected"),
        (f"b:{digest('first')}", "the SHA-256 is that of line 2 too; each key needs its own"),
    ],
)
def test_a_bad_line_is_named(line, message):
    """The error has the source and the line's number, and never what could be a secret."""
    with pytest.raises(SettingsError) as error:
        parse_keys(f"# keys\nfirst:{digest('first')}\n{line}\n", source="/etc/keys")
    assert str(error.value).startswith("/etc/keys, line 3: ")
    assert message in str(error.value)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "keys cannot be read: No such file or directory"),
        (b"search:\xff", "keys is not text in UTF-8"),
        (b"", r"keys has no keys\. .* `embedding-kit embedder.server.new_key NAME"),
        (b"# none yet\n\n", "keys has no keys"),
    ],
)
def test_a_file_without_keys_is_an_error(tmp_path, content, message):
    """The server does not start without its keys; the message names the file."""
    if content is not None:
        (tmp_path / "keys").write_bytes(content)
    path = str(tmp_path / "keys")
    with pytest.raises(SettingsError, match=message):
        Keys(lambda: read_keys_file(path), source=path)


def test_a_key_is_recognized(keys):
    """The scheme is read in any case, as HTTP says; the secret exactly."""
    for header in (f"Bearer {SECRET}", f"bearer  {SECRET} "):
        assert keys.authenticate({"authorization": header}) == "search"


@pytest.mark.parametrize(
    ("headers", "challenge"),
    [
        ({}, "Bearer"),
        ({"authorization": ""}, "Bearer"),
        ({"authorization": "Bearer"}, 'Bearer error="invalid_token"'),
        ({"authorization": f"Basic {SECRET}"}, 'Bearer error="invalid_token"'),
        ({"authorization": f"Bearer {SECRET}x"}, 'Bearer error="invalid_token"'),
        ({"authorization": f"Bearer {digest()}"}, 'Bearer error="invalid_token"'),
        ({"authorization": "Bearer \udcff\u1234"}, 'Bearer error="invalid_token"'),
    ],
)
def test_all_else_is_refused(keys, headers, challenge):
    """The response says which scheme is wanted, and its message quotes nothing that was sent."""
    with pytest.raises(UnauthorizedError) as error:
        keys.authenticate(headers)
    assert error.value.headers == {"www-authenticate": challenge}
    assert "Authorization: Bearer KEY" in error.value.message
    assert SECRET not in error.value.message


def test_every_key_is_compared_in_constant_time(monkeypatch):
    """A key that matches does not end the comparison, so the time is that of a wrong key."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return compare_digest(one, other)

    compare_digest = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", compare)
    names = ("a", "b", "c")
    text = "\n".join(f"{name}:{digest(name)}" for name in names)
    keys = Keys(lambda: text, source="EMBEDDING_SERVER_KEYS")
    for secret in names:
        compared.clear()
        assert who(keys, secret) == secret
        assert compared == [
            (bytes.fromhex(digest(n)), bytes.fromhex(digest(secret))) for n in names
        ]


def test_a_secret_is_replaced_without_a_restart(keys, file, clock):
    """With two lines of one name both secrets are valid; then the old line is taken out."""
    file.write_text(f"search:{digest()}\nsearch:{digest('new')}\n")
    clock.now += 1
    assert who(keys, SECRET) == who(keys, "new") == "search"
    file.write_text(f"search:{digest('new')}\n")
    clock.now += 1
    assert who(keys, "new") == "search"
    with pytest.raises(UnauthorizedError):
        who(keys, SECRET)


def test_the_file_is_read_at_most_once_a_second(keys, file, clock):
    """Between two reads a request costs no system call."""
    file.write_text(f"search:{digest('new')}\n")
    clock.now += 0.9
    assert who(keys, SECRET) == "search"


def test_a_bad_change_locks_nobody_out(keys, file, clock, problems):
    """The keys from before stay valid, the problem is reported once, and a mended file is used."""
    for broken in ("search:short", "search:short", ""):
        file.write_text(broken)
        clock.now += 1
        assert who(keys, SECRET) == "search"
    file.unlink()
    clock.now += 1
    assert who(keys, SECRET) == "search"
    bad_line, no_keys, no_file = problems
    assert bad_line.startswith(f"{file}, line 1: the SHA-256 of a secret, 64 hexadecimal digits,")
    assert no_keys.startswith(f"{file} has no keys. Expected: a line name:sha256 for each, as")
    assert no_file == f"{file} cannot be read: No such file or directory."
    for text in ("search:short", f"search:{digest()}\n", "search:short"):
        file.write_text(text)
        clock.now += 1
        assert who(keys, SECRET) == "search"
    assert len(problems) == 5
