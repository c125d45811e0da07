"""Tables of an environment's file change places, or one goes, and the rest stays as it is."""

import pytest

from operations.environment_tables import exchange_models, read_table_names, remove_table
from stacks.environment_file import EnvironmentFileError

TEXT = """\
#:schema ./environment.schema.json
tags = { team = "search" }

# Ours.
[model]   # [standby] is below
name = "a"
routes = [
  "x",
]

[function]
memory_mb = 1769

# The next one.
[ standby ]
name = "b"

# Not of the standby.
[index]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "environments" / "dev.toml"
    path.parent.mkdir()
    path.write_text(TEXT)
    return path


def test_an_exchange_changes_two_words(file):
    """Comments, order and spaces stay; a second exchange gives the first text."""
    exchange_models(file)
    exchanged = TEXT.replace("[model] ", "[standby] ").replace("[ standby ]", "[ model ]")
    assert file.read_text() == exchanged
    assert read_table_names(file) == ["tags", "standby", "function", "model", "index"]
    exchange_models(file)
    assert file.read_text() == TEXT
    assert [path.name for path in file.parent.iterdir()] == ["dev.toml"]


def test_line_ends_a_byte_order_mark_and_the_mode_stay(file):
    """As some editors on Windows write them."""
    before = "\ufeff[model]\r\nname = 'a'\r\n[standby]\r\nname = 'b'\r\n".encode()
    file.write_bytes(before)
    file.chmod(0o640)
    exchange_models(file)
    after = "\ufeff[standby]\r\nname = 'a'\r\n[model]\r\nname = 'b'\r\n".encode()
    assert file.read_bytes() == after
    assert file.stat().st_mode & 0o777 == 0o640
    remove_table(file, "standby")
    assert file.read_bytes() == b"[model]\r\nname = 'b'\r\n"


def test_tables_in_a_table_move_with_it(file):
    """Each header of it is written anew."""
    file.write_text("[standby]\nname = 'b'\n[standby.x]\ny = 1\n[model]\nname = 'a'\n[[model.z]]\n")
    exchange_models(file)
    assert file.read_text() == (
        "[model]\nname = 'b'\n[model.x]\ny = 1\n[standby]\nname = 'a'\n[[standby.z]]\n"
    )
    remove_table(file, "model")
    assert file.read_text() == "[standby]\nname = 'a'\n[[standby.z]]\n"


@pytest.mark.parametrize(
    "text",
    [
        "model.name = 'a'\n[standby]\nname = 'b'\n",
        "model = { name = 'a' }\n[standby]\nname = 'b'\n",
        "['model']\nname = 'a'\n[standby]\nname = 'b'\n",
        "[standby]\nname = 'b'\n[model]\nname = '''\n[model]\n'''\n",
    ],
)
def test_another_form_is_refused_and_nothing_changes(file, text):
    """The message says what to do by hand."""
    file.write_text(text)
    with pytest.raises(
        EnvironmentFileError, match=r"dev.toml: only tables .*; allowed: to exchange"
    ):
        exchange_models(file)
    assert file.read_text() == text


def test_a_removed_table_takes_its_own_lines(file):
    """The comment before the next table stays, and so does one above the removed header."""
    remove_table(file, "standby")
    assert file.read_text() == TEXT.replace('[ standby ]\nname = "b"\n', "")
    file.write_text("standby = { name = 'b' }\n[model]\nname = 'a'\n")
    with pytest.raises(EnvironmentFileError, match=r"to take the table \[standby\] out by hand"):
        remove_table(file, "standby")
