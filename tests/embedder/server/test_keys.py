"""API keys: their lines, and their check."""

import hashlib

import pytest

from embedder.core.errors import SettingsError, UnauthorizedError
from embedder.server.keys import Keys
from embedder.server.options import parse
from embedder.server.serve import load_keys
from tests.embedder.server.running import bearer

SECRET = "ek_Zanzibar-4711"
VARIABLE = "EMBEDDING_SERVER_KEYS"


def digest(secret: str = SECRET) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@pytest.fixture
def keys() -> Keys:
    """Return keys of lines with a comment, blanks, capitals, and two secrets of one caller."""
    text = f"# ours\n\nsearch:{digest()}\r\n  other:{digest('b').upper()}\nsearch:{digest('new')}\n"
    return Keys(text, source="keys")


def test_a_key_is_recognized(keys):
    """The scheme is read in any case, as HTTP says; a caller may have two secrets."""
    for secret, name in ((SECRET, "search"), ("new", "search"), ("b", "other")):
        for header in (f"Bearer {secret}", f"bearer  {secret} "):
            assert keys.authenticate({"authorization": header}) == name


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (SECRET, f"is expected; found {len(SECRET)} characters of another form."),
        (f":{digest()}", "name:sha256 with a name of 1 to 64 letters"),
        (f"{SECRET}!:{digest()}", "of another form"),
        (f"search:{SECRET}", "64 hexadecimal digits"),
        (f"search:{digest()[:-1]}", "of another form"),
        (f"search:{digest()} {SECRET}", "of another form"),
        (f"b:{digest('first')}", "another line has the same SHA-256; each key needs its own"),
    ],
)
def test_a_bad_line_is_named(line, message):
    """The error has the source and the line's number, and never what could be a secret."""
    with pytest.raises(SettingsError) as error:
        Keys(f"# keys\nfirst:{digest('first')}\n{line}\n", source="/etc/keys")
    assert str(error.value).startswith("/etc/keys, line 3: ")
    assert message in str(error.value)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("headers", "challenge"),
    [
        ({}, "Bearer"),
        ({"authorization": ""}, "Bearer"),
        ({"authorization": "Bearer"}, 'Bearer error="invalid_token"'),
        ({"authorization": f"Basic {SECRET}"}, 'Bearer error="invalid_token"'),
        (bearer(f"{SECRET}x"), 'Bearer error="invalid_token"'),
        (bearer(digest()), 'Bearer error="invalid_token"'),
        (bearer("\udcff\u1234"), 'Bearer error="invalid_token"'),
    ],
)
def test_all_else_is_refused(keys, headers, challenge):
    """The response says which scheme is wanted, and its message quotes nothing that was sent."""
    with pytest.raises(UnauthorizedError) as error:
        keys.authenticate(headers)
    assert error.value.headers == {"www-authenticate": challenge}
    assert "Authorization: Bearer KEY" in error.value.message
    assert SECRET not in error.value.message


@pytest.mark.parametrize(
    ("arguments", "environ", "message"),
    [
        ([], {}, f"One of {VARIABLE} and --no-keys is required, and only one"),
        (["--no-keys"], {VARIABLE: f"search:{digest()}"}, "and only one"),
        ([], {VARIABLE: "# none yet\n\n"}, f"{VARIABLE} has no keys; expected: name:sha256 with"),
        ([], {VARIABLE: "search:s1"}, f"{VARIABLE}, line 1: name:sha256 with"),
    ],
)
def test_a_server_without_usable_keys_does_not_start(arguments, environ, message):
    """The error says what to give, and how to do without."""
    with pytest.raises(SettingsError) as error:
        load_keys(parse(arguments, environ))
    assert message in str(error.value)


def test_keys_come_from_a_variable():
    """They are no flag: all users of a machine can read the command lines of its processes."""
    line = f"search:{digest()}\n"
    with pytest.raises(SettingsError, match="--keys"):
        parse(["--keys", line], {})
    options = parse([], {VARIABLE: line})
    assert "search" not in repr(options)
    assert load_keys(options).authenticate(bearer(SECRET)) == "search"
    assert load_keys(parse(["--no-keys"], {})) is None
