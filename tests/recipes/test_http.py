"""The commands on docs/recipes.md receive the vectors that the kit's client receives."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.pages import RECIPES, sections

from .conftest import KEYS, SERVED, Served

pytestmark = pytest.mark.slow

COMMANDS = sections(RECIPES, "bash", level=3)


def test_every_program_is_tested() -> None:
    """The page has a command of each."""
    assert COMMANDS.keys() == {"curl", "awscurl"}


@pytest.mark.parametrize("title", COMMANDS)
def test_vectors_are_those_of_the_client(
    title: str,
    served: Served,
    python: Path,
    printed_vectors: Callable[[str], None],
    tmp_path: Path,
) -> None:
    """The program signs the session token, and the vectors are equal to the client's."""
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", COMMANDS[title].replace(SERVED, served.url)],
        cwd=tmp_path,
        env={"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
        | KEYS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    printed_vectors(json.dumps(json.loads(ran.stdout)["embeddings"]))
