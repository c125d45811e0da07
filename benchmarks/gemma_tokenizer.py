"""A replica of Gemma 3's `tokenizer.json`, for machines that cannot reach a hub.

It has the same structure and, at full size, the same numbers: 262,144 tokens and about half a
million merges; the order of ids (special tokens, `<unused…>`, runs of newlines and of `▁`, HTML
tags, bytes, then learned tokens by frequency and single characters last); `▁` only at the start of
a token; every split of a token into two others as a merge, ranked by the token; all control tokens
as added tokens that are not normalized; `<image_soft_token>` one past the last embedding. Its words
come from the sources of the standard library, and the rest are pairs of Chinese characters.

`python -m benchmarks.gemma_tokenizer FILE [TOKENS]` writes one.
"""

import json
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, product
from pathlib import Path
from typing import Any

__all__ = ["FULL_SIZE", "gemma_tokenizer"]

FULL_SIZE = 262_144
_SPACE = "▁"
_TAGS = [
    "table",
    "caption",
    "thead",
    "tbody",
    "tfoot",
    "tr",
    "th",
    "td",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "blockquote",
    "strong",
    "em",
    "b",
    "i",
    "u",
    "s",
    "sub",
    "sup",
    "code",
]
_LONGEST = 9
#: The approximate number of characters in the published one; others fall back to bytes.
_SCRIPTS = (
    range(0x21, 0x7F),
    range(0xA1, 0x250),
    range(0x300, 0x370),
    range(0x370, 0x530),
    range(0x5D0, 0x5EB),
    range(0x620, 0x6D4),
    range(0x904, 0x970),
    range(0xE01, 0xE5C),
    range(0x2010, 0x2060),
    range(0x2190, 0x2400),
    range(0x3001, 0x3100),
    range(0x4E00, 0x9000),
    range(0xAC00, 0xB400),
    range(0x1F300, 0x1F650),
)


def gemma_tokenizer(*, tokens: int = FULL_SIZE, files: int = 400) -> bytes:
    """Return a `tokenizer.json` with this many tokens, without the added one past the end.

    Args:
        tokens: At least about 1,000; control tokens come first, characters and learned tokens
            share the rest.
        files: The number of files of the standard library to take words from.
    """
    control = list(_control_tokens())
    characters = [_SPACE, *map(chr, chain.from_iterable(_SCRIPTS))]
    room = tokens - len(control) - 256
    characters = characters[: room // 4]
    reserved = tokens // 43  # The published one has about 6,200.
    bytes_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    known = {*control, *bytes_tokens}
    learned = [
        token
        for token in _learned(room - len(characters) - reserved, characters, files)
        if token not in known
    ]
    first = [*control, *bytes_tokens, *learned, *characters]
    filled = [f"<unused{number}>" for number in range(99, 99 + tokens - len(first))]
    vocabulary = {token: number for number, token in enumerate([*first, *filled])}
    added = [*control, *filled]
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                *(_added(vocabulary[token], token) for token in added),
                _added(tokens, "<image_soft_token>"),
            ],
            "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE},
            "pre_tokenizer": {
                "type": "Split",
                "pattern": {"String": " "},
                "behavior": "MergedWithPrevious",
                "invert": False,
            },
            "post_processor": _template(vocabulary),
            "decoder": {
                "type": "Sequence",
                "decoders": [
                    {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "},
                    {"type": "ByteFallback"},
                    {"type": "Fuse"},
                ],
            },
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": "<unk>",
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": True,
                "byte_fallback": True,
                "ignore_merges": False,
                "vocab": vocabulary,
                "merges": list(_merges(learned, vocabulary)),
            },
        },
        ensure_ascii=False,
    ).encode()


def _control_tokens() -> Iterator[str]:
    yield from ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "[multimodal]")
    yield from (f"<unused{number}>" for number in range(99))
    yield from ("<start_of_turn>", "<end_of_turn>")
    yield from ("\n" * size for size in range(1, 32))
    yield from (_SPACE * size for size in range(2, 32))
    yield from (f"<{tag}>" for tag in _TAGS)
    yield from (f"</{tag}>" for tag in _TAGS)
    yield from ("\t" * size for size in range(1, 8))
    yield from ("<start_of_image>", "<end_of_image>")


def _learned(count: int, characters: list[str], files: int) -> Iterator[str]:
    """Yield tokens by falling frequency; a prefix comes before the longer token."""
    known = set(characters)
    substrings: Counter[str] = Counter()
    for word, times in _words(files).items():
        if known.issuperset(word):
            for start in range(len(word)):
                for stop in range(start + 2, min(start + _LONGEST, len(word)) + 1):
                    substrings[word[start:stop]] += times
    # Not all tokens: each has several merges, and a pair of Chinese characters has one.
    common = sorted(substrings, key=lambda token: (-substrings[token], len(token), token))
    common = common[: min(count, max(count * 5 // 16, 1000))]
    yield from common
    chinese = [character for character in characters if "\u4e00" <= character < "\u9fff"]
    pairs = map("".join, product(chinese[:600], repeat=2))
    yield from (pair for pair, _ in zip(pairs, range(count - len(common)), strict=False))


def _words(files: int) -> Counter[str]:
    words: Counter[str] = Counter()
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(library.glob("*.py"))[:files]:
        text = path.read_text(encoding="utf-8", errors="replace")
        words.update(_SPACE + word for word in text.split())
    return words


def _merges(learned: Iterable[str], vocabulary: dict[str, int]) -> Iterator[list[str]]:
    """Yield all splits of each token, as the conversion from SentencePiece does."""
    for token in [*(_SPACE * size for size in range(2, 32)), *learned]:
        ways = [
            [token[:at], token[at:]]
            for at in range(1, len(token))
            if token[:at] in vocabulary and token[at:] in vocabulary
        ]
        yield from sorted(ways, key=lambda way: (vocabulary[way[0]], vocabulary[way[1]]))


def _added(token_id: int, content: str) -> dict[str, Any]:
    return {
        "id": token_id,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": content.startswith("<") and "unused" not in content,
    }


def _template(vocabulary: dict[str, int]) -> dict[str, Any]:
    bos, eos = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ("<bos>", "<eos>"))
    first = {"Sequence": {"id": "A", "type_id": 0}}
    second = {"Sequence": {"id": "B", "type_id": 1}}
    return {
        "type": "TemplateProcessing",
        "single": [bos, first, eos],
        "pair": [bos, first, eos, second, eos],
        "special_tokens": {
            name: {"id": name, "ids": [vocabulary[name]], "tokens": [name]}
            for name in ("<bos>", "<eos>")
        },
    }


if __name__ == "__main__":
    size = int(sys.argv[2]) if len(sys.argv) > 2 else FULL_SIZE
    Path(sys.argv[1]).write_bytes(gemma_tokenizer(tokens=size))
