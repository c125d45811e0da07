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
        ([], {}, f"One of --keys-file, {VARIABLE} and --no-keys is required, and only one"),
        (["--no-keys", "--keys-file", "keys"], {}, "and only one"),
        (["--keys-file", "keys"], {VARIABLE: f"search:{digest()}"}, "and only one"),
        (["--keys-file", "missing"], {}, "missing cannot be read: No such file or directory"),
        (["--keys-file", "latin"], {}, "latin is not text in UTF-8"),
        (["--keys-file", "none"], {}, "none has no keys; expected: name:sha256 with"),
        ([], {VARIABLE: "search:s1"}, "EMBEDDING_SERVER_KEYS, line 1: name:sha256 with"),
    ],
)
def test_a_server_without_usable_keys_does_not_start(
    arguments, environ, message, monkeypatch, tmp_path
):
    """The error says what to give, and how to do without."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys").write_text(f"search:{digest()}\n")
    (tmp_path / "latin").write_bytes(b"search:\xff")
    (tmp_path / "none").write_text("# none yet\n\n")
    with pytest.raises(SettingsError) as error:
        load_keys(parse(arguments, environ))
    assert message in str(error.value)


def test_keys_come_from_a_file_or_a_variable(tmp_path):
    """They are no flag: all users of a machine can read the command lines of its processes."""
    (tmp_path / "keys").write_text(line := f"search:{digest()}\n")
    with pytest.raises(SettingsError, match="--keys"):
        parse(["--keys", line], {})
    from_variable = parse([], {VARIABLE: line})
    assert "search" not in repr(from_variable)
    for options in (from_variable, parse(["--keys-file", str(tmp_path / "keys")], {})):
        assert load_keys(options).authenticate(bearer(SECRET)) == "search"
    assert load_keys(parse(["--no-keys"], {})) is None
