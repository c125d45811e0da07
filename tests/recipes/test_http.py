"""The commands on docs/recipes.md receive the vectors that the kit's client receives."""

import json
import os

import pytest

from tests.docs.pages import BASH, NEEDS_CURL, RECIPES, SERVED, run, sections

from .conftest import KEYS

pytestmark = pytest.mark.slow

COMMANDS = sections(RECIPES, "bash", level=3)


def test_every_program_is_tested():
    """The page has a command of each."""
    assert COMMANDS.keys() == {"curl", "awscurl"}


@pytest.mark.parametrize("title", [pytest.param("curl", marks=NEEDS_CURL), "awscurl"])
def test_vectors_are_those_of_the_client(title, served, python, printed_vectors, tmp_path):
    """The program signs the session token, and the vectors are equal to the client's."""
    command = [*BASH, COMMANDS[title].replace(SERVED, served.url)]
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    printed = run(command, tmp_path, PATH=path, **KEYS)
    printed_vectors(json.dumps(json.loads(printed)["embeddings"]))
