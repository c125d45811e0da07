"""The largest values of a model's JSON files that the compiler reads, in one table.

Each is far above that of any model that is known (the largest are in the comments), and low enough
that what a file asks for takes seconds, and no more memory than a machine has.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from model_compiler.errors import SourceError

__all__ = [
    "ADDED_TOKENS",
    "CHARSMAP",
    "GROWTH",
    "INTEGER",
    "INTEGER_OF",
    "MERGE",
    "MERGES",
    "PART_STRING",
    "PART_VALUES",
    "TOKEN",
    "VOCABULARY",
    "check_bytes",
    "check_most",
    "check_values",
    "values_of",
]

#: Bytes of a file. 33 MB: Gemma's tokenizer.json; 1.2 MB: its tokenizer_config.json.
BYTES, BYTES_OF = 16 << 20, {"tokenizer.json": 256 << 20}
#: Entries of a list or an object. 21,843: the labels of a classifier.
ENTRIES, ENTRIES_OF = 100_000, {"modules.json": 100}
#: Characters of a string. 30,000: templates of chats.
STRING = 100_000
#: An integer of a configuration. A larger one would fill the memory before the weights could show
#: that it is wrong. 901,629: the vocabulary of XLM-V; 1,010,000: positions of Qwen; 80: layers;
#: 256: heads of Gemma.
INTEGER = 1 << 21
INTEGER_OF = {
    "head_dim": 512,
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 1 << 20),
    **dict.fromkeys(("n_layer", "n_layers", "num_hidden_layers"), 1_000),
}

#: Tokens of a vocabulary. 901,629: XLM-V.
VOCABULARY = 1_500_000
#: Merges of a BPE. 580,604: Gemma.
MERGES = 5_000_000
#: Characters of a token. Some 100: runs of spaces. The time that it takes to look for a token in a
#: text grows with the token's length.
TOKEN = 512
#: Characters of a merge: two tokens and a space.
MERGE = 2 * TOKEN + 1
#: Tokens beside the vocabulary. 6,414: Gemma.
ADDED_TOKENS = 100_000
#: Values in a normalizer, pre-tokenizer, post-processor or decoder, all levels together. Some 40.
PART_VALUES = 1_000
#: Characters of a string in one of them. Some 1,500: regular expressions with classes of letters.
PART_STRING = 1 << 14
#: Characters of a map of characters in base64. 320,000: SentencePiece's.
CHARSMAP = 4_000_000
#: How many times longer a tokenizer may make a text. 36: XLM-RoBERTa, with that map.
GROWTH = 1_000


def check_bytes(path: Path) -> None:
    """Check the size of a JSON file, before it is read.

    Raises:
        SourceError: If it has more bytes than allowed.
    """
    check_most(f"{path}", path.stat().st_size, BYTES_OF.get(path.name, BYTES), "bytes")


def check_values(path: Path, value: Any) -> None:
    """Check the lists, objects and strings of a JSON file.

    Raises:
        SourceError: If one is longer than allowed.
    """
    for each in values_of(value):
        if isinstance(each, str):
            check_most(f"{path}: a string", len(each), STRING, "characters")
        else:
            entries = ENTRIES_OF.get(path.name, ENTRIES)
            check_most(f"{path}: a list or an object", len(each), entries, "entries")


def values_of(value: Any) -> Iterator[Any]:
    """Give each list, object and string of a JSON value, and each key."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, (list, dict)):
            yield each
            left += each
            left += each.values() if isinstance(each, dict) else ()


def check_most(name: str, found: int, most: int, unit: str) -> None:
    """Check one size; raises a SourceError with the name of what has it."""
    if found > most:
        raise SourceError(f"{name} has {found} {unit}; at most {most} are allowed.")
