"""The Model Context Protocol's inspector, unmodified, at the doors for agents."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedder.core.artifact import Artifact
from tests.fixtures.npm_packages import BIN, embedded_by_tool

from .conftest import FACTS, KEYS, Served

pytestmark = pytest.mark.slow


@pytest.fixture
def bridge(served: Served) -> list[str]:
    """Return the target of `embed mcp`, which signs for a Function URL."""
    return [str(BIN / "embed"), "mcp", "--url", served.url]


@pytest.fixture
def server(minilm_artifact: Artifact, tmp_path: Path) -> Iterator[list[str]]:
    """Return the target of the server's own door, with an API key."""
    (tmp_path / "keys").write_text(f"agent:{hashlib.sha256(b'secret').hexdigest()}\n")
    model = {"EMBEDDING_ARTIFACT": str(minilm_artifact.folder), "EMBEDDING_MCP": "on"}
    flags = ["--host", "127.0.0.1", "--port", "0", "--keys-file", str(tmp_path / "keys")]
    program = subprocess.Popen(
        [sys.executable, "-m", "embedder.server", *flags],
        env={**os.environ, **model},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stderr
    (url,) = re.findall(r"^ready at (.+)$", program.stderr.readline())
    yield [f"{url}/mcp", "--header", "Authorization: Bearer secret"]
    program.kill()
    program.communicate()


@pytest.mark.parametrize("door", ["bridge", "server"])
def test_the_inspector_lists_and_calls_a_tool(door, *, request, printed_vectors, tmp_path):
    """The schemas of the tools have no problem, and the vectors are the client's."""
    signs = [word for name, value in KEYS.items() for word in ("-e", f"{name}={value}")]
    target = [*signs, *request.getfixturevalue(door)]
    printed_vectors(json.dumps(embedded_by_tool(tmp_path, target, FACTS)))
