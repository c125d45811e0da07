"""`scripts/serve --server` becomes the embedder's server, on this machine."""

import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from tools.local_endpoint.embedding_server import command


def test_it_listens_on_this_machine_only_and_needs_no_keys():
    """The server's own defaults are those of a container: every address, and keys."""
    assert command([], {})[1:] == [
        *("-m", "embedder.server"),
        *("--host", "127.0.0.1", "--port", "9000", "--no-keys"),
    ]


@pytest.mark.parametrize(
    ("flags", "environ"),
    [
        (["--port=1", "--host", "::1", "--keys-file", "keys"], {}),
        (
            [],
            {
                "EMBEDDING_SERVER_HOST": "::1",
                "EMBEDDING_SERVER_PORT": "1",
                "EMBEDDING_SERVER_KEYS": "a:b",
            },
        ),
    ],
)
def test_what_is_given_is_kept(flags, environ):
    """Flags and variables of the server go before the defaults; keys are used if given."""
    assert command(flags, environ)[3:] == flags


def test_the_command_serves_a_model(minilm_artifact):
    """It answers without a signature, and ends with 0."""
    flags = ["--model", str(minilm_artifact.folder), "--port", "0", "--drain-accept", "0"]
    program = subprocess.Popen(
        [sys.executable, "-m", "tools.local_endpoint.embedding_server", "--server", *flags],
        env={k: v for k, v in os.environ.items() if not k.startswith("EMBEDDING_")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        ready = re.fullmatch(r"ready at (http://127\.0\.0\.1:\d+)\n", program.stderr.readline())
        request = urllib.request.Request(f"{ready[1]}/embed", b'{"inputs": "hello"}')
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.read().startswith(b"[[")
        program.send_signal(signal.SIGTERM)
        assert program.wait(60) == 0
    finally:
        program.kill()
        program.communicate()
