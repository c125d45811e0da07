"""Fixtures that pair the library's tokenizer with the fast one compiled from the same file."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from embedder.core.fast_tokenizers import Tokenizer, load
from model_compiler.tokenizer.sample import sample_texts
from model_compiler.tokenizer.tables import build
from tests.fixtures.byte_level_tokenizer import byte_level_tokenizer
from tests.fixtures.gemma_tokenizer import gemma_tokenizer
from tests.fixtures.unigram_tokenizer import unigram_tokenizer

#: All planes that have characters, and the first and last code points of the others.
ALL_CHARACTERS = tuple(
    chr(code)
    for code in range(0x110000)
    if (code < 0xD800 or 0xE000 <= code < 0x33480 or 0xE0000 <= code < 0xE0200)
    or code & 0xFFFF in {0, 1, 0x1000, 0xFFFD, 0xFFFE, 0xFFFF}
)


@dataclass(frozen=True)
class Both:
    """The same tokenizer in the library's and in the fast implementation."""

    library: tokenizers.Tokenizer
    fast: Tokenizer
    #: The path of the fast tokenizer's file.
    path: Path

    def ids(self, text: str) -> list[int]:
        """Return the library's ids, which are the reference."""
        return list(self.library.encode(text, add_special_tokens=False).ids)

    def differing(self, texts: Iterable[str]) -> list[str]:
        """Return the texts with ids that differ from the library's."""
        return [text for text in texts if not self.agree(text)]

    def agree(self, text: str) -> bool:
        """Return whether the ids are the library's."""
        return self.fast.encode(text) == self.ids(text)

    def check(self, *texts: str, count: int = 500) -> None:
        """Compare the ids of these texts, and of a sample of what the tokenizer knows."""
        assert self.differing(texts) == []
        assert self.differing(sample_texts(self.library, count=count, seed=23)) == []


def both(document: dict[str, Any], folder: Path) -> Both:
    """Compile a `tokenizer.json` that the fast tokenizers support."""
    data = json.dumps(document).encode()
    tables = build(data)
    assert tables.reason is None, tables.reason
    path = folder / tables.file
    path.write_bytes(tables.data)
    library = tokenizers.Tokenizer.from_buffer(data)
    library.no_truncation()
    library.no_padding()
    return Both(library, load(tables.kind, path), path)


@pytest.fixture(scope="session")
def minilm_document(minilm_folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((minilm_folder / "tokenizer.json").read_bytes())
    return document


@pytest.fixture(scope="session")
def minilm(minilm_document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Both:
    return both(minilm_document, tmp_path_factory.mktemp("minilm"))


@pytest.fixture(scope="session")
def gemma_document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(gemma_tokenizer(tokens=4000, files=20))
    return document


@pytest.fixture(scope="session")
def gemma(gemma_document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Return BPE with byte fallback."""
    return both(gemma_document, tmp_path_factory.mktemp("gemma"))


@pytest.fixture(scope="session")
def unigram_document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(unigram_tokenizer(tokens=4000, files=8))
    return document


@pytest.fixture(scope="session")
def unigram(unigram_document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Return Unigram that splits at white space."""
    return both(unigram_document, tmp_path_factory.mktemp("unigram"))


@pytest.fixture(scope="session")
def unigram_metaspace(unigram_document, tmp_path_factory) -> Both:
    """Return Unigram in which a space at the end of a text is a token."""
    spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    normalizers = [unigram_document["normalizer"], spaces]
    return both(
        unigram_document
        | {
            "normalizer": {"type": "Sequence", "normalizers": normalizers},
            "pre_tokenizer": unigram_document["pre_tokenizer"]["pretokenizers"][1],
        },
        tmp_path_factory.mktemp("metaspace"),
    )


@pytest.fixture(scope="session")
def trained(gemma_document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Return BPE from the library's trainer, with merges in the order they were learned."""
    library = tokenizers.Tokenizer(
        tokenizers.models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    library.normalizer = tokenizers.normalizers.Replace(" ", "▁")
    library.pre_tokenizer = tokenizers.pre_tokenizers.Split("▁", "merged_with_next")
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=2500,
        special_tokens=["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{i:02X}>" for i in range(256))],
        show_progress=False,
    )
    library.train_from_iterator((json.__doc__ or "", *map(str.lower, _LICENSES)), trainer)
    document = json.loads(library.to_str())
    return both(
        gemma_document | {"model": document["model"], "added_tokens": [], "post_processor": None},
        tmp_path_factory.mktemp("trained"),
    )


@pytest.fixture(scope="session")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return _byte_level("RoBERTa", tmp_path_factory)


@pytest.fixture(scope="session")
def modernbert(tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Return byte-level BPE with ModernBERT's parts: NFC, and runs of spaces as added tokens."""
    return _byte_level("ModernBERT", tmp_path_factory)


@pytest.fixture(scope="session")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Return byte-level BPE with Qwen's parts: NFC, and a regular expression of its own."""
    return _byte_level("Qwen", tmp_path_factory)


@pytest.fixture(scope="session")
def eurobert(tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Return byte-level BPE with EuroBERT's parts: up to three digits are a word."""
    return _byte_level("EuroBERT", tmp_path_factory)


def _byte_level(name: str, tmp_path_factory: pytest.TempPathFactory) -> Both:
    document = json.loads(byte_level_tokenizer(name, tokens=3000, files=40))
    return both(document, tmp_path_factory.mktemp(name))


_LICENSES = [
    path.read_text(errors="replace")
    for path in (Path(__file__).parents[4] / "LICENSE", Path(json.__file__), Path(__file__))
]
