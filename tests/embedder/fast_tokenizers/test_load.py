"""`load` selects the tokenizer class by the kind in the manifest."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from embedder.errors import ArtifactError
from embedder.fast_tokenizers import KINDS, load
from embedder.fast_tokenizers.bpe import BytePairEncoding
from embedder.fast_tokenizers.byte_level import ByteLevel
from embedder.fast_tokenizers.fallback import LibraryTokenizer
from embedder.fast_tokenizers.unigram import Unigram
from embedder.fast_tokenizers.wordpiece import WordPiece

from .conftest import Both


def test_each_kind_is_loaded_by_its_own_tokenizer(
    minilm: Both, gemma: Both, qwen: Both, unigram: Both
) -> None:
    """Each kind but `tokenizers` is loaded by a fast tokenizer."""
    assert isinstance(load("wordpiece", minilm.path), WordPiece)
    assert isinstance(load("bpe", gemma.path), BytePairEncoding)
    assert isinstance(load("byte_level_bpe", qwen.path), ByteLevel)
    assert isinstance(load("unigram", unigram.path), Unigram)


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    """The message has the kind found and the known kinds."""
    with pytest.raises(ArtifactError, match=f"of kind 'characters'.*{KINDS[0]}.*{KINDS[-1]}"):
        load("characters", tmp_path / "tokenizer.bin")


def test_a_fast_tokenizer_does_not_import_the_library(
    gemma: Both, minilm: Both, unigram: Both
) -> None:
    """A cold start imports only the modules that the selected tokenizer needs."""
    program = (
        "import sys; from embedder.fast_tokenizers import load;"
        "load(*sys.argv[1:]).encode('a b');"
        "print(*sorted({'tokenizers', 'json', 'numpy', 'heapq', 'mmap'} & set(sys.modules)))"
    )
    for kind, path in (
        ("bpe", gemma.path),
        ("wordpiece", minilm.path),
        ("unigram", unigram.path),
    ):
        command = [sys.executable, "-c", program, kind, str(path)]
        found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        assert "mmap" in found
        assert not {"tokenizers", "json", "numpy"}.intersection(found)


def test_the_library_turns_ids_into_text_again(minilm_folder: Path) -> None:
    """Ids are decoded by the file's own decoder, with or without special tokens."""
    served = load("tokenizers", minilm_folder / "tokenizer.json")
    assert isinstance(served, LibraryTokenizer)
    ids = [*served.prefix, *served.encode("Tokenizing, is it?"), *served.suffix]
    assert served.decode(ids, skip_special_tokens=True) == "tokenizing, is it?"
    assert served.decode(ids, skip_special_tokens=False) == "[CLS] tokenizing, is it? [SEP]"


def test_the_library_serves_behind_the_same_door(minilm: Both, minilm_folder: Path) -> None:
    """Its own truncation and padding are off, and special tokens are reported instead of added."""
    served = load("tokenizers", minilm_folder / "tokenizer.json")
    assert isinstance(served, LibraryTokenizer)
    assert (served.prefix, served.suffix) == (minilm.fast.prefix, minilm.fast.suffix)
    assert served.vocabulary_size == minilm.fast.vocabulary_size
    text = "A naïve text, longer than the 128 tokens it was trained on. " * 20
    assert served.encode(text) == minilm.fast.encode(text)
    assert served.spans(text) == minilm.fast.spans(text)
    assert served.token(1996) == "the"
    with pytest.raises(ValueError, match="No token has the id 99999"):
        served.token(99999)


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    """The library's error becomes an artifact error."""
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ArtifactError, match=r"tokenizer\.json cannot be read as a tokenizer"):
        load("tokenizers", tmp_path / "tokenizer.json")


def test_the_library_tells_its_special_tokens(
    tmp_path: Path, minilm_document: dict[str, Any]
) -> None:
    """The special tokens may differ from the usual ones, and the prefix may be empty."""
    library = tokenizers.Tokenizer.from_str(json.dumps(minilm_document))
    library.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A [SEP] [SEP]", special_tokens=[("[SEP]", 102)]
    )
    library.save(str(tmp_path / "tokenizer.json"))
    served = load("tokenizers", tmp_path / "tokenizer.json")
    assert (served.prefix, served.suffix) == ((), (102, 102))
