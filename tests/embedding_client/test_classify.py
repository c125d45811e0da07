"""Classifiers: the client, `embed`, the doctor and others' clients, behind a Function URL."""

import json
from typing import Any

import httpx2
import huggingface_hub
import pytest
from huggingface_hub.errors import HfHubHTTPError

from embedder.core.artifact import Artifact
from embedding_client import (
    BatchLimits,
    Classified,
    ConfigurationError,
    EmbeddingClient,
    RequestError,
    SigV4Auth,
)
from tests.docs.pages import RERANK, run_examples
from tests.embedding_client.answers import asynchronously
from tests.fixtures.small_artifact import small_artifact
from tests.model_compiler.goldens.reranker_models import write_reranker

TEXTS = ["hello world", "a date and a time", "x"]
LONG = "hello world " * 60


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Return the artifact of a small classifier."""
    return small_artifact(write_reranker(tmp_path_factory.mktemp("classifier") / "m", labels=3))


@pytest.fixture(scope="module")
def predictions(url: str) -> list[list[dict[str, Any]]]:
    """Return the labels of TEXTS, the best first, as TEI's path has them."""
    body = {"inputs": [[text] for text in TEXTS]}
    with httpx2.Client(auth=SigV4Auth()) as http:
        answer = http.post(url + "/predict", json=body)
    predictions: list[list[dict[str, Any]]] = answer.raise_for_status().json()
    return predictions


def classified(labels: list[dict[str, Any]]) -> Classified:
    return Classified(**labels[0], scores={entry["label"]: entry["score"] for entry in labels})


def test_the_client_labels(url, predictions):
    """Labels are those of one request, however many the client sends; also asynchronously."""
    expected = [classified(labels) for labels in predictions]
    with EmbeddingClient(url, limits=BatchLimits(texts=2)) as client:
        found = client.classify(iter(TEXTS))
        assert found == expected
        assert [[*one.scores] for one in found] == [[*one.scores] for one in expected]
        assert client.classify([]) == []
        assert client.vector_space == client.health()["label_space"]
        raw = client.classify(TEXTS[:1], raw_scores=True)[0].scores
        assert [*raw] == [*expected[0].scores]
        assert sum(expected[0].scores.values()) == pytest.approx(1)
        assert sum(raw.values()) != pytest.approx(1)
    assert asynchronously(lambda c: c.classify(TEXTS), url) == expected


def test_the_clients_errors(url, running):
    """A refused text is named by its place in the call, and the other kind of model by kind."""
    with EmbeddingClient(url, limits=BatchLimits(texts=2)) as client:
        with pytest.raises(RequestError, match=r'"texts\[3\]" has') as refused:
            client.classify([*TEXTS, LONG])
        assert (refused.value.position, refused.value.code) == (3, "input_too_long")
        assert len(client.classify([*TEXTS, LONG], truncate=True)) == 4
        for wrong in ("a text", ["a", " "]):
            with pytest.raises(ConfigurationError):
                client.classify(wrong)
        with pytest.raises(RequestError, match="found a classifier, which labels it at POST /cl"):
            client.embed(["a"])
        with pytest.raises(RequestError, match=r"of a classifier\. .* A reranker serves it\."):
            client.rerank("a", ["b"])
    with EmbeddingClient(running.url) as client, pytest.raises(RequestError, match="A classifier"):
        client.classify(TEXTS)


def test_hugging_faces_client(url, predictions):
    """InferenceClient gets the labels from the endpoint's URL, and its own error."""
    huggingface_hub.set_client_factory(lambda: httpx2.Client(auth=SigV4Auth()))
    try:
        inference = huggingface_hub.InferenceClient(model=url)
        found = inference.text_classification(TEXTS[1])
        assert [{"score": one.score, "label": one.label} for one in found] == predictions[1]
        (best,) = inference.text_classification(TEXTS[1], top_k=1, function_to_apply="softmax")
        assert best.label == found[0].label
        assert best.score == pytest.approx(found[0].score)
        with pytest.raises(HfHubHTTPError, match='"inputs" has 122 tokens'):
            inference.text_classification(LONG)
    finally:
        huggingface_hub.set_client_factory(httpx2.Client)
        huggingface_hub.close_session()


def test_the_command(url, predictions, tmp_path, command, monkeypatch):
    """`embed classify` labels texts or a file; `embed` with a classifier says what to use."""
    best = [f"{one[0]['score']:.4f}  {one[0]['label']}" for one in predictions]
    code, out, _ = command("classify", *TEXTS, "--url", url)
    expected = [f"{label}  {text}" for label, text in zip(best, TEXTS, strict=True)]
    assert (code, out.splitlines()) == (0, expected)
    file = tmp_path / "texts.csv"
    file.write_text("body\n" + "\n".join(TEXTS))
    out = command("classify", "--file", file, "--column", "body", "--url", url, "--json")[1]
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line.pop("text") for line in lines] == TEXTS
    assert [Classified(**line) for line in lines] == [*map(classified, predictions)]
    assert command("classify", LONG, "--url", url)[0] == 1
    assert command("classify", LONG, "--url", url, "--truncate")[0] == 0
    assert "not both" in command("classify", "a", "--file", file, "--url", url)[2]
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert "nothing to label" in command("classify", "--url", url)[2]
    code, _, err = command("a text", "--url", url)
    assert (code, "labeled by `embed classify`" in err) == (1, True)


def test_the_doctor_takes_a_classifier_for_well(url, command, tmp_path, monkeypatch):
    """A signed request gets labels, and the label space is compared as a vector space is."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    code, report, _ = command("doctor", "--url", url, "--json")
    assert (code, "labels in" in report) == (0, True)
    assert "remembered for the next time" in report


def test_the_pages_examples(url, tmp_path):
    """Each example on the page runs, and prints a label with its score."""
    printed = run_examples(RERANK, "Classify", url, tmp_path)
    assert len(printed) == 2
    assert all("LABEL_" in text for text in printed)
