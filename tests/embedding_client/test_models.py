"""`embed models`: the table, its filters, and JSON."""

import json

import pytest

from embedding_client._cli import run


def names(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """Return the names that a command prints as JSON."""
    run(["models", "--json", *arguments])
    return [model["name"] for model in json.loads(capsys.readouterr().out)["models"]]


def test_the_table_fits_a_terminal_and_has_every_model(capsys: pytest.CaptureFixture[str]) -> None:
    """80 columns, aligned, with where the quality comes from."""
    assert run(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for name in names(capsys):
        assert f"{name.rpartition('/')[2]}" in text
    assert "embeddinggemma-300m* " in text
    assert "https://github.com/embeddings-benchmark/results" in text


def test_filters_join(capsys: pytest.CaptureFixture[str]) -> None:
    """A language finds its own models, and those of many languages."""
    korean = names(capsys, "--language", "Korean")
    assert "nlpai-lab/KURE-v1" in korean
    assert "BAAI/bge-m3" in korean
    assert "BAAI/bge-small-en-v1.5" not in korean
    long = names(capsys, "--language", "korean", "--tokens", "8192")
    assert "nlpai-lab/KURE-v1" in long
    assert "intfloat/multilingual-e5-small" not in long
    small = names(capsys, "--memory", "256")
    assert "sentence-transformers/all-MiniLM-L6-v2" in small
    assert "Qwen/Qwen3-Embedding-0.6B" not in small
    # Its memory was not measured.
    assert "onnx-community/embeddinggemma-300m-ONNX" not in small
