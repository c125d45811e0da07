"""Values of a wrong JSON type in `tokenizer.json`: each is read, or refused in one line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from model_compiler.errors import CompilerError, SourceError
from model_compiler.model.folder import ModelFolder, read_model_folder
from model_compiler.model.static import read_static_folder
from model_compiler.tokenizer import tables
from tests.model_compiler.goldens.setting_changes import change_file
from tests.model_compiler.goldens.static_models import write_model2vec
from tests.model_compiler.goldens.tiny_models import TOKENS, write_model

WRONG: tuple[Any, ...] = (5, [5], {"type": [5]}, None)


def read(folder: Path) -> None:
    """Read a folder's tokenizer as the compiler does."""
    read = ModelFolder.read(folder)
    model = (read_static_folder if read.is_static else read_model_folder)(read)
    tables.build(model.tokenizer.data, embedding_rows=model.vocabulary_size)


def places(value: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the way to each value, of long lists and vocabularies to the first two."""
    items = [*value.items()] if isinstance(value, dict) else []
    items = [*enumerate(value)] if isinstance(value, list) else items
    for key, inner in items[:2] if len(items) > 10 else items:
        yield (*at, str(key))
        yield from places(inner, (*at, str(key)))


def unigram(folder: Path) -> None:
    """Change the vocabulary to one with scores."""
    change_file(
        folder / "tokenizer.json",
        {
            "model": {"type": "Unigram", "unk_id": 1, "vocab": [[text, -1.5] for text in TOKENS]},
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}]},
            "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": None,
        },
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
@pytest.mark.parametrize("write", [write_model, write_model2vec])
def test_each_value_may_have_any_type(write, kind, tmp_path, monkeypatch):
    """No value ends the compiler with a traceback."""
    monkeypatch.setattr(tables, "_SAMPLE", 1)
    folder = write(tmp_path / "model")
    if kind == "unigram":
        unigram(folder)
    path = folder / "tokenizer.json"
    text = path.read_text("utf-8")
    messages = []
    for dotted in places(json.loads(text)):
        for value in WRONG:
            path.write_text(text, "utf-8")
            change_file(path, {".".join(dotted): value})
            try:
                read(folder)
            except CompilerError as error:
                messages.append(str(error))
    assert len(messages) > 50
    assert not any("\n" in message for message in messages)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("model.vocab.3", ["a"], "model.vocab[3] must be a token and its score; found ['a']"),
        ("model.vocab.3", ["a", "b"], "model.vocab[3] must be a token and its score"),
        ("model.unk_token", [5], "model.unk_token must be a string or null; found [5]"),
        ("model", {"vocab": {"a": [1]}}, "must map tokens to ids"),
        ("added_tokens", 5, "added_tokens must be a list of objects"),
        (
            "post_processor",
            {"type": "Sequence", "processors": 5},
            "post_processor.processors must be a list of objects; found 5",
        ),
        (
            "normalizer.normalizers.0.type",
            {},
            "normalizer.normalizers[0] must be an object with a type, or null; found {'type': {}}",
        ),
    ],
)
def test_the_part_is_named(place, value, message, tmp_path):
    """An error names the part, the rule and the value found."""
    folder = write_model2vec(tmp_path / "model")
    unigram(folder)
    change_file(folder / "tokenizer.json", {place: value})
    with pytest.raises(SourceError) as refused:
        read(folder)
    assert message in str(refused.value)
