"""`embed compare`."""

import json

import numpy as np
import pytest

from embedding_client import progress
from embedding_client._compare_command import compare
from tests.fixtures.local_server import QuietHandler, serving

TEXTS = ["a kettle", "a kettle of tea", "a violin", "strings of a violin", "the weather"]


@pytest.fixture
def texts(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(TEXTS))
    return file


@pytest.fixture
def other(client):
    """Serve the same vectors with a little noise, with infinity's routes and check of the model."""
    noise = np.random.default_rng(1)
    seen = []

    class Handler(QuietHandler):
        def respond(self):
            if self.command == "GET":
                known = self.path == "/models"
                return self.answer(200 if known else 404, b'{"data": [{"id": "served"}]}')
            seen.append(dict(self.headers))
            body = json.loads(self.read_body())
            if self.path != "/embeddings" or body["model"] != "served":
                return self.answer(400, b'{"detail": "no such model"}')
            vector = client.embed(body["input"])[0]
            moved = vector + noise.normal(0, 0.002, vector.shape)
            return self.answer(200, json.dumps({"data": [{"embedding": moved.tolist()}]}).encode())

    with serving(Handler) as url:
        yield url, seen


def test_an_endpoint_equals_itself(running, texts, command):
    """Cosine 1, and the same neighbors."""
    report = json.loads(command("compare", running.url, running.url, texts, "--json")[1])
    assert report["cosine_lowest"] == pytest.approx(1, abs=1e-6)
    assert (report["texts"], report["neighbors"], report["overlap_percent"]) == (5, 4, 100.0)
    assert report["a_p50_ms"] > 0


def test_another_server_is_compared_in_its_own_form(running, other, texts, command, monkeypatch):
    """Its routes and model are found; the key of URL_A is not sent to it."""
    monkeypatch.setenv("SECRET", "a-key")
    monkeypatch.setattr(progress, "_INTERVAL", 0)
    url, seen = other
    code, *_ = command("compare", running.url, url, texts, "--api-key-env", "SECRET")
    assert code == 1  # this endpoint takes a signature, not a key
    code, shown, err = command("compare", running.url, url, texts)
    assert (code, "cosine         lowest 0.99" in shown) == (0, True)
    assert "latency B      p50 " in shown
    assert "5 of 5 texts (100%)" in err
    assert not any("a-key" in " ".join(headers.values()) for headers in seen)


def test_vectors_of_different_lengths_are_compared_by_their_rankings():
    """A cosine would mean nothing."""
    one = np.random.default_rng(2).normal(size=(30, 8)).astype(np.float32)
    report = compare(one, np.hstack([one, np.zeros((30, 4), np.float32)]))
    assert (report["cosine_lowest"], report["overlap_percent"]) == (None, 100.0)
    shuffled = compare(one, np.roll(one, 7, axis=0))
    assert shuffled["overlap_percent"] < 60
    assert shuffled["cosine_lowest"] < 0.9


@pytest.mark.parametrize("content", [b"<html></html>", b'{"data": []}', b"[]"])
def test_an_answer_in_another_form_is_an_error(texts, command, content):
    """A page, or JSON of another kind, is no vector."""

    class Page(QuietHandler):
        def respond(self):
            self.read_body()
            self.answer(200, content)

    with serving(Page) as url:
        code, _, err = command("compare", url, url, texts)
    assert (code, "answered without a vector in OpenAI's form" in err) == (1, True)


def test_an_endpoint_that_answers_with_an_error_is_named(running, other, texts, command):
    """With its status and message."""
    url = f"{other[0]}/nothing"
    code, _, err = command("compare", running.url, url, texts)
    assert (code, f"error: {url} answered 400: " in err) == (1, True)
