"""The Model Context Protocol's inspector and Python client, unmodified, at the doors for agents."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from embedder.core.artifact import Artifact
from tests.fixtures.npm_packages import BIN, embedded_by_tool

from .conftest import FACTS, KEYS, Served

pytestmark = pytest.mark.slow

#: Calls a tool over streamable HTTP, and prints the names of all tools and then the vectors.
_CLIENT = """
import asyncio
import json

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from embedding_client import SigV4Auth


async def embed():
    async with (
        httpx.AsyncClient({options}) as http,
        streamable_http_client("{url}/mcp", http_client=http) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        print(*(tool.name for tool in (await session.list_tools()).tools))
        answer = await session.call_tool("embed", {{"texts": {texts}}})
        print(json.dumps(json.loads(answer.content[0].text)["embeddings"]))


asyncio.run(embed())
"""
_BEARER = "Bearer secret"


@pytest.fixture
def server(minilm_artifact: Artifact) -> Iterator[str]:
    """Return the URL of a server with its own door, and with an API key."""
    variables = {
        "EMBEDDING_ARTIFACT": str(minilm_artifact.folder),
        "EMBEDDING_MCP": "on",
        "EMBEDDING_SERVER_KEYS": f"agent:{hashlib.sha256(b'secret').hexdigest()}",
    }
    program = subprocess.Popen(
        [sys.executable, "-m", "embedder.server", "--host", "127.0.0.1", "--port", "0"],
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stderr
    (url,) = re.findall(r"^ready at (.+)$", program.stderr.readline())
    yield url
    program.kill()
    program.communicate()


def test_the_inspector_calls_the_bridge(served: Served, printed_vectors, tmp_path):
    """`embed mcp` signs for a Function URL. The schemas of the tools have no problem."""
    signs = [word for name, value in KEYS.items() for word in ("-e", f"{name}={value}")]
    target = [*signs, str(BIN / "embed"), "mcp", "--url", served.url]
    printed_vectors(json.dumps(embedded_by_tool(tmp_path, target, FACTS)))


def test_the_inspector_calls_the_server(server, printed_vectors, tmp_path):
    """The schemas of the tools have no problem, and the vectors are the client's."""
    target = [f"{server}/mcp", "--header", f"Authorization: {_BEARER}"]
    printed_vectors(json.dumps(embedded_by_tool(tmp_path, target, FACTS)))


def test_the_python_client_calls_a_function_url(served: Served, run, printed_vectors, tmp_path):
    """It needs no bridge where the caller's HTTP client signs."""
    program = _CLIENT.format(url=served.url, options="auth=SigV4Auth()", texts=FACTS)
    printed = run(program, tmp_path, **KEYS)
    assert "embed" in printed.splitlines()[0].split()
    printed_vectors(printed)


def test_the_python_client_calls_the_server(server, run, printed_vectors, tmp_path):
    """With an API key in a header."""
    options = f"headers={{'Authorization': '{_BEARER}'}}"
    printed_vectors(run(_CLIENT.format(url=server, options=options, texts=FACTS), tmp_path))
