"""`load` selects the tokenizer class by the kind in the manifest."""

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedder.core.errors import ArtifactError
from embedder.core.fast_tokenizers import TOKENIZER_KINDS, load
from embedder.core.fast_tokenizers.bpe import BytePairEncoding
from embedder.core.fast_tokenizers.byte_level import ByteLevel
from embedder.core.fast_tokenizers.fallback import LibraryTokenizer
from embedder.core.fast_tokenizers.table_file import HEADER, SECTION
from embedder.core.fast_tokenizers.unigram import Unigram
from embedder.core.fast_tokenizers.wordpiece import WordPiece
from model_compiler.tokenizer.sample import sample_texts

from .conftest import ALL_CHARACTERS, Both


def test_each_kind_is_loaded_by_its_own_tokenizer(minilm, gemma, qwen, unigram):
    """Each kind but `tokenizers` is loaded by a fast tokenizer."""
    assert isinstance(load("wordpiece", minilm.path), WordPiece)
    assert isinstance(load("bpe", gemma.path), BytePairEncoding)
    assert isinstance(load("byte_level_bpe", qwen.path), ByteLevel)
    assert isinstance(load("unigram", unigram.path), Unigram)


#: Merge ranks that do not follow the ids, as the library's trainer writes them, are in `trained`.
NAMES = (
    *("minilm", "gemma", "trained", "roberta", "modernbert", "qwen"),
    *("unigram", "unigram_metaspace"),
)


@pytest.fixture(params=NAMES)
def both(request: pytest.FixtureRequest) -> Both:
    tokenizers: Both = request.getfixturevalue(request.param)
    return tokenizers


def test_ids_are_the_librarys_on_a_seeded_sample(both):
    """Many texts cover all planes, runs, control characters and added tokens."""
    assert both.differing(sample_texts(both.library, count=1000, seed=21)) == []


@given(st.text())
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_ids_are_the_librarys_on_any_text(both, text):
    """Any text that Hypothesis generates is tokenized as by the library."""
    assert both.agree(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_character_is_the_librarys(request, name):
    """Every code point has the library's ids: alone, after a letter, around an apostrophe."""
    tokenizer: Both = request.getfixturevalue(name)
    texts = [
        "".join(
            f"a{character}'{character} {character} " for character in ALL_CHARACTERS[at : at + 256]
        )
        for at in range(0, len(ALL_CHARACTERS), 256)
    ]
    expected = tokenizer.library.encode_batch_fast(texts, add_special_tokens=False)
    ids = [tokenizer.fast.encode(text) for text in texts]
    assert ids == [encoding.ids for encoding in expected]


def test_runs_of_any_length_are_the_librarys(both):
    """Long words, which are merged in another way and not remembered, have the same ids."""
    pieces = (*"a \n<▁東é😀\u200b", "in", "the", "ab1", "<b", "e\u0301")
    sizes = (7, 39, 40, 41, 47, 48, 49, 333, 3000)
    assert both.differing(piece * size for piece in pieces for size in sizes) == []


@pytest.mark.parametrize(
    ("name", "prefix", "suffix"),
    [
        ("minilm", ["[CLS]"], ["[SEP]"]),
        ("gemma", ["<bos>"], ["<eos>"]),
        ("roberta", ["<s>"], ["</s>"]),
        ("modernbert", ["[CLS]"], ["[SEP]"]),
        ("qwen", [], ["<|endoftext|>"]),
        ("unigram", ["<s>"], ["</s>"]),
    ],
)
def test_special_tokens_around_a_text_are_told_and_not_added(request, name, prefix, suffix):
    """The tokenizer reports them, and the engine adds them."""
    fast = request.getfixturevalue(name).fast
    assert [*map(fast.token, fast.prefix)] == prefix
    assert [*map(fast.token, fast.suffix)] == suffix
    assert fast.encode("") == []


@pytest.mark.parametrize(
    ("name", "text", "alike"),
    [
        ("minilm", "a\ud800b \udfff", "a\ufffdb \ufffd"),
        *((name, "a \ud800", "a ?") for name in ("roberta", "modernbert", "qwen")),
    ],
)
def test_no_string_is_an_error(request, name, text, alike):
    """A lone surrogate, which is not valid text, is treated like U+FFFD or a question mark."""
    encode = request.getfixturevalue(name).fast.encode
    assert encode(text) == encode(alike)
    assert encode("\ud800\u0301é \udfff")


def test_no_string_is_an_error_of_bytes(gemma):
    """A lone surrogate is the byte of a question mark."""
    assert gemma.fast.encode("\ud800") == [gemma.fast.encode("\x00")[0] + ord("?")]


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("minilm", "2f9c61e0a7", "2f9c61e0b3"),
        ("qwen", "unexpectedconfigurationxq", "unexpectedconfigurationxz"),
    ],
)
def test_equal_ids_of_two_words_take_room_once(request, name, first, second):
    """Words of many tokens are cached with shared integer objects for equal ids."""
    encode = request.getfixturevalue(name).fast.encode
    ids = zip(encode(first), encode(second), strict=False)
    pairs = [(number, expected) for number, expected in ids if number == expected > 256]
    assert len(pairs) > 2
    assert all(number is expected for number, expected in pairs)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("characters", f"of kind 'characters'.*{TOKENIZER_KINDS[0]}.*{TOKENIZER_KINDS[-1]}"),
        ("tokenizers", r"tokenizer\.json cannot be read as a tokenizer"),
    ],
)
def test_an_unknown_kind_and_another_file_are_refused(tmp_path, kind, message):
    """The message has the kind found and the known kinds, or the file."""
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ArtifactError, match=message):
        load(kind, tmp_path / "tokenizer.json")


def test_a_fast_tokenizer_does_not_import_the_library(gemma, minilm, unigram, modernbert):
    """A cold start imports only the modules that the selected tokenizer needs."""
    program = (
        "import sys; from embedder.core.fast_tokenizers import load;"
        "load(*sys.argv[1:]).encode('naïve 東京');"
        "print(*sys.modules)"
    )
    for tokenizer_kind, path in (
        ("bpe", gemma.path),
        ("wordpiece", minilm.path),
        ("unigram", unigram.path),
        ("byte_level_bpe", modernbert.path),
    ):
        command = [sys.executable, "-c", program, tokenizer_kind, str(path)]
        modules = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        assert "mmap" in modules
        rare = "embedder.core.fast_tokenizers.composition"
        assert not {"tokenizers", "json", "numpy", rare}.intersection(modules)


def test_the_library_turns_ids_into_text_again(minilm_folder):
    """Ids are decoded by the file's own decoder, with or without special tokens."""
    served = load("tokenizers", minilm_folder / "tokenizer.json")
    assert isinstance(served, LibraryTokenizer)
    ids = [*served.prefix, *served.encode("Tokenizing, is it?"), *served.suffix]
    assert served.decode(ids, skip_special_tokens=True) == "tokenizing, is it?"
    assert served.decode(ids, skip_special_tokens=False) == "[CLS] tokenizing, is it? [SEP]"


def test_the_library_serves_behind_the_same_door(minilm, minilm_folder):
    """Its own truncation and padding are off, and special tokens are reported instead of added."""
    served = load("tokenizers", minilm_folder / "tokenizer.json")
    assert isinstance(served, LibraryTokenizer)
    assert (served.prefix, served.suffix) == (minilm.fast.prefix, minilm.fast.suffix)
    assert served.vocabulary_size == minilm.fast.vocabulary_size
    text = "A naïve text, longer than the 128 tokens it was trained on. " * 20
    assert served.encode(text) == minilm.fast.encode(text)
    assert served.token(1996) == "the"
    with pytest.raises(ValueError, match="No token has the id 99999"):
        served.token(99999)


def test_the_library_tells_its_special_tokens(tmp_path, minilm_document):
    """The special tokens may differ from the usual ones, and the prefix may be empty."""
    library = tokenizers.Tokenizer.from_str(json.dumps(minilm_document))
    library.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A [SEP] [SEP]", special_tokens=[("[SEP]", 102)]
    )
    library.save(str(tmp_path / "tokenizer.json"))
    served = load("tokenizers", tmp_path / "tokenizer.json")
    assert (served.prefix, served.suffix) == ((), (102, 102))


def altered(path: Path, place: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1 << bit]))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("wordpiece", "minilm"),
        ("bpe", "gemma"),
        ("byte_level_bpe", "qwen"),
        ("byte_level_bpe", "roberta"),
        ("unigram", "unigram"),
        ("unigram", "unigram_metaspace"),
    ],
)
def test_altered_tables_are_read_or_refused(kind, name, tmp_path, request):
    """A flipped bit in the header or at the start of a section is an ArtifactError, or unseen."""
    path = tmp_path / "tokenizer.bin"
    content = request.getfixturevalue(name).path.read_bytes()
    path.write_bytes(content)
    _, _, count, _ = HEADER.unpack_from(content)
    ends = HEADER.size + count * SECTION.size
    sections = [SECTION.unpack_from(content, at) for at in range(HEADER.size, ends, SECTION.size)]
    random, refused = Random(7), 0
    offsets = [random.randrange(ends) for _ in range(60)]
    for _, offset, size in sections:
        offsets += [offset + random.randrange(min(size, 64)) for _ in range(20) if size]
    for position in offsets:
        bit = random.randrange(8)
        altered(path, position, bit)
        try:
            load(kind, path)
        except ArtifactError:
            refused += 1
        altered(path, position, bit)
    assert refused
    load(kind, path)


def test_an_altered_file_of_the_library_is_read_or_refused(tmp_path):
    """Also if the library panics, or fails on the text that shows the special tokens."""
    path = tmp_path / "tokenizer.json"
    library = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="b"))
    library.normalizer = tokenizers.normalizers.BertNormalizer()
    library.post_processor = tokenizers.processors.BertProcessing(("a", 0), ("b", 1))
    library.save(str(path))
    refused = 0
    for position in range(path.stat().st_size):
        altered(path, position, position % 7)
        try:
            load("tokenizers", path)
        except ArtifactError:
            refused += 1
        altered(path, position, position % 7)
    assert refused
    load("tokenizers", path)
