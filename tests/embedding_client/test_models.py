"""`embed models`: the table, its filters, and JSON."""

import json

import pytest


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
    assert {"BAAI/bge-m3", "voyageai/voyage-4-nano"} < set(korean)
    assert "BAAI/bge-small-en-v1.5" not in korean
    long = names(command, "--language", "korean", "--tokens", "8192")
    assert "nlpai-lab/KURE-v1" in long
    assert "intfloat/multilingual-e5-small" not in long
    small = names(command, "--memory", "256")
    assert "sentence-transformers/all-MiniLM-L6-v2" in small
    assert "Qwen/Qwen3-Embedding-0.6B" not in small
    # Its memory was not measured.
    assert "onnx-community/embeddinggemma-300m-ONNX" not in small


@pytest.mark.parametrize("language", ["klingon", "Deutsch", "en", "many", "ish", "over 100", ""])
def test_an_unknown_language_is_refused(command, language):
    """It would list all models of many languages."""
    code, out, err = command("models", "--language", language)
    assert (code, out) == (2, "")
    assert f"--language: found: {language!r}; allowed: the English name of a language: afri" in err


def test_languages_that_no_model_names_find_those_of_many(command):
    """Also a name of two words, or with a capital."""
    many = names(command, "--language", "welsh")
    assert many == names(command, "--language", "Haitian Creole")
    assert not any("-en-" in name for name in many)
    assert names(command, "--language", "code")[-2:] == [
        "minishlab/potion-code-16M-v2",
        "minishlab/potion-multilingual-128M",
    ]
