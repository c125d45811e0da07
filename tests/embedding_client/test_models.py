"""`embed models`: the table, its filters, and JSON."""

import json


def names(command, *arguments: str) -> list[str]:
    """Return the names that a command prints as JSON."""
    found = json.loads(command("models", "--json", *arguments)[1])
    return [model["name"] for model in found["models"]]


def test_the_table_fits_a_terminal_and_has_every_model(command):
    """80 columns, aligned, with where the quality comes from."""
    lines = command("models")[1].splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for name in names(command):
        assert f"{name.rpartition('/')[2]}" in text
    assert "embeddinggemma-300m* " in text
    assert "https://github.com/embeddings-benchmark/results" in text


def test_filters_join(command):
    """A language finds its own models, and those of many languages."""
    korean = names(command, "--language", "Korean")
    assert "nlpai-lab/KURE-v1" in korean
    assert "BAAI/bge-m3" in korean
    assert "BAAI/bge-small-en-v1.5" not in korean
    long = names(command, "--language", "korean", "--tokens", "8192")
    assert "nlpai-lab/KURE-v1" in long
    assert "intfloat/multilingual-e5-small" not in long
    small = names(command, "--memory", "256")
    assert "sentence-transformers/all-MiniLM-L6-v2" in small
    assert "Qwen/Qwen3-Embedding-0.6B" not in small
    # Its memory was not measured.
    assert "onnx-community/embeddinggemma-300m-ONNX" not in small
