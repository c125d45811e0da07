"""`embed` notes the vector space of an endpoint at its first use, for `embed doctor`."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from embedding_client import _connect as used_spaces
from embedding_client._connect import note_space, read_spaces, spaces_file

URL = "https://abcdefghijklmnopqrstuvwxyz012345.lambda-url.eu-central-1.on.aws"


def note(url, space):
    args: Any = SimpleNamespace(url=url, function=None)
    client: Any = SimpleNamespace(vector_space=space)
    note_space(args, client)


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """Use an empty folder for the state of programs."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def test_the_file_is_one_of_the_user(state, monkeypatch):
    """In the folder for the state of programs."""
    assert spaces_file() == state / "embedding-kit" / "vector-spaces.json"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(state))
    assert spaces_file().is_relative_to(state / ".local" / "state")


def test_the_first_space_stays():
    """A change is for the doctor to report."""
    note(f"{URL}/", "model@1/int8/abc/384")
    note(URL, "model@2/int8/abc/384")
    assert read_spaces(spaces_file()) == {URL: "model@1/int8/abc/384"}


def test_a_local_endpoint_and_no_answer_leave_no_note():
    """Nothing is written."""
    note("http://127.0.0.1:9000", "model@1/int8/abc/384")
    note(URL, None)
    assert not spaces_file().exists()


def test_a_file_that_cannot_be_written_is_no_error(state):
    """The vectors are what counts."""
    (state / "embedding-kit").write_text("no folder")
    note(URL, "model@1/int8/abc/384")
    assert read_spaces(spaces_file()) == {}


@pytest.mark.parametrize("output", [(), ("--output", "a.jsonl")])
def test_embed_notes_the_space_of_its_vectors(running, state, monkeypatch, command, output):
    """Of those that it prints and of those in files."""
    monkeypatch.setattr(used_spaces, "LOOPBACK", frozenset())
    monkeypatch.chdir(state)
    (state / "a.txt").write_text("some text\n")
    out = command("--url", running.url, "--file", "a.txt", *output)[1]
    printed = out or (state / "a.jsonl").read_text()
    assert read_spaces(spaces_file()) == {running.url: json.loads(printed)["vector_space"]}
