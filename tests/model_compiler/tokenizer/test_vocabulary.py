"""A tokenizer of a `vocab.txt` alone gives the ids that transformers' class gives."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from model_compiler.errors import SourceError
from model_compiler.files.folder import ConfigFolder
from model_compiler.tokenizer.file import read_tokenizer
from tests.model_compiler.goldens.files import edit_json
from tests.model_compiler.goldens.tiny_models import TOKENS, write_vocabulary

GOLDEN = json.loads(
    (Path(__file__).resolve().parents[1] / "goldens" / "vocabularies.json").read_text("utf-8")
)


@pytest.mark.parametrize("name", GOLDEN["folders"])
def test_ids_are_those_of_transformers(tmp_path, name):
    """Case, accents, special tokens and the class come from `tokenizer_config.json`."""
    golden = GOLDEN["folders"][name]
    folder = write_vocabulary(tmp_path, **golden["settings"])
    read = read_tokenizer(ConfigFolder(folder), vocabulary_size=len(TOKENS))
    tokenizer = Tokenizer.from_str(read.data.decode())
    assert [tokenizer.encode(text).ids for text in GOLDEN["texts"]] == golden["ids"]


@pytest.mark.parametrize(
    ("tokens", "rows", "fits"),
    [
        (500, 500, True),
        (501, 500, False),
        (500, 1524, True),
        (500, 1525, False),
        (28_500, 30_000, True),
        (28_499, 30_000, False),
    ],
)
def test_the_ids_are_those_of_the_models_table(tmp_path, tokens, rows, fits):
    """Rows may lie unused at its end: 1,024, or a twentieth. More is another model's table."""
    file = write_vocabulary(tmp_path) / "vocab.txt"
    further_tokens = [f"t{number}" for number in range(tokens - len(TOKENS))]
    file.write_text("\n".join([*TOKENS, *further_tokens]) + "\n")
    with nullcontext() if fits else pytest.raises(SourceError, match="does not belong to this"):
        read_tokenizer(ConfigFolder(tmp_path), vocabulary_size=rows)


def test_a_model_with_a_vocabulary_compiles(tiny_folder, compile_tiny):
    """The artifact is that of the same model with its `tokenizer.json`."""
    before = compile_tiny(tiny_folder).manifest.files["tokenizer.bin"]
    (tiny_folder / "tokenizer.json").unlink()
    write_vocabulary(tiny_folder)
    assert compile_tiny(tiny_folder).manifest.files["tokenizer.bin"] == before


def test_the_error_of_a_wrong_encoding_is_short(tmp_path):
    """It says where, and not the whole vocabulary; so does that of a value of another type."""
    folder = write_vocabulary(tmp_path)
    before = (folder / "vocab.txt").read_bytes()
    (folder / "vocab.txt").write_bytes(before + b"x\n" * 9_000 + b"\xe9\n")
    with pytest.raises(SourceError, match=r"can't decode byte 0xe9 in position \d+") as caught:
        read_tokenizer(ConfigFolder(folder), vocabulary_size=len(TOKENS))
    assert len(str(caught.value)) < 400
    (folder / "vocab.txt").write_bytes(before)
    edit_json(folder / "tokenizer_config.json", added_tokens_decoder={"x" * 9_000: {"content": 1}})
    with pytest.raises(SourceError, match="are damaged: ValueError") as caught:
        read_tokenizer(ConfigFolder(folder), vocabulary_size=len(TOKENS))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, "tokenizer.json is missing. Save the tok"),
        ({"sep_token": "sparkle"}, "added_tokens must have the special token 'sparkle'"),
        ({"added_tokens_decoder": {"x": {"content": "a"}}}, "are damaged: ValueError"),
    ],
)
def test_what_cannot_be_built(tmp_path, settings, message):
    """A class that needs a `tokenizer.json`, a token without an id, or damage is refused."""
    folder = write_vocabulary(tmp_path, **settings)
    with pytest.raises(SourceError, match=message):
        read_tokenizer(ConfigFolder(folder), vocabulary_size=len(TOKENS))
