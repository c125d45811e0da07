"""The fallback to the `tokenizers` library; its failures become errors of this package."""

import json
from pathlib import Path
from typing import Any

import pytest

from embedder.core.errors import ArtifactError, InferenceError
from embedder.core.fast_tokenizers.fallback import LibraryTokenizer

DOCUMENT: dict[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {
        "type": "Split",
        "pattern": {"Regex": "(a|aa)+$"},
        "behavior": "Isolated",
        "invert": False,
    },
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1, "text": 2}, "unk_token": "[UNK]"},
}


def write(path: Path, **changes: object) -> str:
    path.write_text(json.dumps(DOCUMENT | changes))
    return str(path)


def test_a_panic_is_an_error_of_the_server(tmp_path):
    """A regular expression over its retry limit fails one request but not the next one."""
    tokenizer = LibraryTokenizer(write(tmp_path / "tokenizer.json"))
    for _ in range(2):
        with pytest.raises(InferenceError, match=r"^The model could not embed this request\.$"):
            tokenizer.encode("a" * 99 + "b")
        assert tokenizer.encode("text") == [2]


def test_a_file_that_makes_the_library_panic(tmp_path):
    """A character map that cannot be parsed is reported as an artifact error instead of a crash."""
    broken = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    path = write(tmp_path / "tokenizer.json", normalizer=broken)
    with pytest.raises(ArtifactError, match="cannot be read as a tokenizer"):
        LibraryTokenizer(path)
    with pytest.raises(ArtifactError, match="No such file"):
        LibraryTokenizer(str(tmp_path / "gone.json"))
