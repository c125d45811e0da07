"""S3 on this machine, and a function as the image starts it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedder.core.engine import Engine
from tests.embedder.small_model import HashSession, WordTokenizer, manifest_of
from tests.jobs.local_s3 import LocalS3, local_s3

#: Keys that S3 allows.
ODD_KEYS = [
    *("x//y.md", "/z.md", "//z.md", "sub//", "./z.md", "../z.md", "a/../../b.md", "a/./b.md"),
    *("x\x01y.md", "tab\tx.md", "line\r.md", "\x7f.md", " a +%2F%.md", "?a=b&c#d;e.md", "a:\\b"),
    *("*|<>'\"`{}[]^~.md", "nfd-u\u0308.md", "\u4e16.md", "\U0001f600.md", "\ufffd\u2028.md"),
    "k" * 900,
]


@pytest.fixture
def s3(monkeypatch) -> Iterator[LocalS3]:
    """Serve S3 on this machine, with the variables that Lambda sets and the endpoint's."""
    with local_s3() as served:
        for name, value in {
            "AWS_REGION": "eu-central-1",
            "AWS_ACCESS_KEY_ID": "ASIAEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_SESSION_TOKEN": "token",
            "AWS_ENDPOINT_URL": served.url,
        }.items():
            monkeypatch.setenv(name, value)
        yield served


@pytest.fixture
def session() -> HashSession:
    return HashSession()


@pytest.fixture
def engine(session: HashSession) -> Engine:
    return Engine(manifest_of(max_tokens=16), WordTokenizer(), session)


def run_as_lambda(code: str, **variables: str) -> list[Any]:
    """Run a program in a fresh interpreter with Lambda's variables; return its lines of JSON."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("EMBEDDING_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**own, "PYTHONPATH": str(Path(__file__).parents[2] / "lambda_image"), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
