"""A Function URL on this machine with the real signature check, and answers made for each test."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

import pytest
from botocore.credentials import Credentials

from tools.local_endpoint.endpoint import LocalFunctionUrl
from tools.local_endpoint.signature import Verifier

Answer = Callable[[int, dict], dict]


def vectors(_number, event):
    """Return what the endpoint answers, with a token for each word and two more."""
    texts = json.loads(event["body"])["texts"]
    tokens = sum(len(text.split()) + 2 for text in texts)
    return answered(200, {"embeddings": ["AAAA"], "tokens": tokens, "vector_space": "m@1"})


def answered(status, body, **headers):
    return {
        "statusCode": status,
        "headers": {"content-type": "application/json", **headers},
        "body": json.dumps(body),
    }


@dataclass
class Answers:
    """A runtime of a local Function URL that runs several requests at the same time."""

    answer: Answer = vectors
    description: str = "answers of a test"
    #: What `GET /info` says besides the model's name and limit.
    info: dict = field(default_factory=lambda: {"vector_space": "m@1"})
    cold: set[int] = field(default_factory=set)
    received: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def invoke(self, event: bytes) -> bytes:
        """Answer an event."""
        request = json.loads(event)
        if request["rawPath"] == "/info":
            model = "sentence-transformers/all-MiniLM-L6-v2"
            info = {"model_id": model, "max_input_length": 256, **self.info}
            return json.dumps(answered(200, info)).encode()
        with self._lock:
            number = len(self.received)
            self.received.append(request["body"])
        result = self.answer(number, request)
        if number in self.cold:
            result["headers"]["x-cold-start"] = "true"
        return json.dumps(result).encode()

    def wait(self) -> NoReturn:
        """Wait forever."""
        while True:
            time.sleep(3600)

    def close(self) -> None:
        """Do nothing."""


@dataclass
class Served:
    """A running endpoint, and what its function answers and receives."""

    url: str
    answers: Answers


@pytest.fixture
def served() -> Iterator[Served]:
    answers = Answers()
    verifier = Verifier(credentials=Credentials("local", "local"), region="us-east-1")
    with LocalFunctionUrl(runtime=answers, verifier=verifier) as url:
        yield Served(url.url, answers)


@dataclass
class Ran:
    """A finished command."""

    status: int
    out: str
    err: str
    report: dict | None


@pytest.fixture
def load(served, tmp_path, command):
    """Run the command against the endpoint; 0.6 seconds unless the test says more."""

    def load(*arguments) -> Ran:
        file = tmp_path / "report.json"
        options = ("--url", served.url, "--output", file, "--minutes", "0.01")
        status, out, err = command("load", *options, *arguments)
        report = json.loads(file.read_text()) if file.exists() else None
        return Ran(status, out, err, report)

    return load
