"""Reading a sentence-transformers folder: limits, prompts, modules and errors."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.model.folder import (
    LOADER_KEYS,
    TRANSFORMER_FILES,
    ModelFolder,
    read_model_folder,
)
from model_compiler.model.modules import Head
from tests.model_compiler.conftest import merged
from tests.model_compiler.goldens.files import edit_json, special_tokens
from tests.model_compiler.goldens.setting_changes import change_file, write_with_dense


def limit(folder: Path, sentence: dict[str, Any] | None, tokenizer: dict[str, Any] | None) -> int:
    """Return the limit that a folder with these two files has."""
    for name, value in (
        ("sentence_bert_config.json", sentence),
        ("tokenizer_config.json", tokenizer),
    ):
        (folder / name).unlink(missing_ok=True)
        if value is not None:
            (folder / name).write_text(json.dumps(value))
    return read_model_folder(folder).max_tokens


def test_where_the_limit_comes_from(tiny_folder):
    """The sentence file's limit, else the tokenizer's, never more than the positions (40)."""
    assert limit(tiny_folder, {"max_seq_length": 12}, {"model_max_length": 20}) == 12
    assert limit(tiny_folder, {"max_seq_length": None}, {"model_max_length": 20}) == 20
    assert limit(tiny_folder, {}, {"model_max_length": 20}) == 20
    assert limit(tiny_folder, None, {"model_max_length": 1e30}) == 40
    # It is valid JSON, and beyond doubles.
    (tiny_folder / "tokenizer_config.json").write_text('{"model_max_length": 1e400}')
    assert read_model_folder(tiny_folder).max_tokens == 40
    assert limit(tiny_folder, None, {}) == 40
    assert limit(tiny_folder, {"max_seq_length": 100}, None) == 40
    assert limit(tiny_folder, None, None) == 40
    with pytest.raises(SourceError, match=r'max_seq_length must be an integer .* found "256"'):
        limit(tiny_folder, {"max_seq_length": "256"}, None)


@pytest.mark.parametrize("name", TRANSFORMER_FILES)
def test_the_names_of_the_transformers_file(tiny_folder, name):
    """The file is read by each of its names, unless an earlier one says something."""
    (tiny_folder / "sentence_bert_config.json").rename(tiny_folder / name)
    edit_json(tiny_folder / name, max_seq_length=11)
    (tiny_folder / "sentence_xlnet_config.json").write_text((tiny_folder / name).read_text())
    if name != "sentence_bert_config.json":
        (tiny_folder / "sentence_bert_config.json").write_text("{}")
    assert read_model_folder(tiny_folder).max_tokens == 11
    edit_json(tiny_folder / name, sparkle=1)
    with pytest.raises(UnsupportedModelError, match=f"{name} has settings .* sparkle = 1"):
        read_model_folder(tiny_folder)


def test_truncation_of_the_tokenizer_plays_no_part(tiny_folder):
    """The truncation in tokenizer.json is neither used as the limit nor kept."""
    before = read_model_folder(tiny_folder)
    truncation = {"max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    edit_json(tiny_folder / "tokenizer.json", truncation=truncation)
    after = read_model_folder(tiny_folder)
    assert after.max_tokens == 16
    assert after.tokenizer.data == before.tokenizer.data


@pytest.mark.parametrize(
    ("prompts", "stated", "default"),
    [
        ({}, None, None),
        ({"query": "q: "}, None, None),
        ({"query": "q: ", "passage": "p: "}, None, "passage"),
        ({"document": "d: ", "passage": "p: "}, None, "document"),
        ({"query": "q: ", "document": "d: "}, "query", "query"),
    ],
)
def test_the_default_prompt(tiny_folder, prompts, stated, default):
    """The files' own default, else the prompt for documents, else none."""
    edit_json(
        tiny_folder / "config_sentence_transformers.json",
        prompts=prompts,
        default_prompt_name=stated,
    )
    read_prompts = read_model_folder(tiny_folder).prompts
    assert (read_prompts.texts, read_prompts.default) == (prompts, default)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config_sentence_transformers.json", {"prompts": {"query": 3}}, "prompts must be an obj"),
        (
            "config_sentence_transformers.json",
            {"default_prompt_name": "title"},
            r"default_prompt_name must be one of \[\]; found \"title\"",
        ),
        (
            "config_sentence_transformers.json",
            {"default_prompt_name": ["a"], "prompts": {"a": "b"}},
            r"default_prompt_name must be one of \['a'\]; found \[\"a\"\]",
        ),
        ("1_Pooling/config.json", {"pooling_mode": 5}, "must be a string or a list of .* found 5"),
        (
            "1_Pooling/config.json",
            {"pooling_mode": [["cls"]]},
            "a string or a list of up to 6 strings",
        ),
        ("config.json", {"vocab_size": 70}, r"tokenizer.json does not belong .* up to 76.* 70 ids"),
        ("config.json", {"vocab_size": 5000}, r"does not belong .* up to 76, .* rows for 5000"),
        ("1_Pooling/config.json", {"word_embedding_dimension": 64}, "is 64; .* vectors have 32"),
        ("2_Dense/config.json", {"in_features": 48}, "in_features is 48; .* returns 32"),
    ],
)
def test_files_that_disagree(tmp_path, file, change, message):
    """A value that does not fit the others is named with both."""
    folder = write_with_dense(tmp_path / "model")
    edit_json(folder / file, **change)
    with pytest.raises(SourceError, match=message):
        read_model_folder(folder)


@pytest.mark.parametrize("stated", [0, -1, True, "512", [1], 0.5])
def test_a_limit_that_is_none(tiny_folder, stated):
    """A limit in tokenizer_config.json that is not a number of tokens is an error."""
    with pytest.raises(SourceError, match="model_max_length must be a number of at least 1, or nu"):
        limit(tiny_folder, None, {"model_max_length": stated})


def test_a_device_is_no_file(tiny_folder):
    """A configuration that is a link to a device, which never ends, is refused."""
    (tiny_folder / "config.json").unlink()
    (tiny_folder / "config.json").symlink_to("/dev/zero")
    with pytest.raises(SourceError, match=r"config\.json is not a regular file"):
        read_model_folder(tiny_folder)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("sentence_bert_config.json", {"do_lower_case": True}, "do_lower_case is true, but"),
        ("sentence_bert_config.json", {"query_length": 32}, "query_length is 32; .* null"),
        ("sentence_bert_config.json", {"sparkle": 1}, "does not know: sparkle = 1"),
        *(
            (
                "sentence_bert_config.json",
                {key: {"num_hidden_layers": 1}},
                f"{key} is .*; .* {{}} or",
            )
            for key in LOADER_KEYS
        ),
        ("1_Pooling/config.json", {"pooling_mode": "median"}, "mode 'median' .* knows cls, max"),
        ("config_sentence_transformers.json", {"model_type": "SparseEncoder"}, "SparseEncoder"),
        ("config_sentence_transformers.json", {"truncate_dim": 8}, "found 8. .* --dimensions"),
        (
            "2_Dense/config.json",
            {"activation_function": "torch.nn.modules.activation.Mish"},
            "Mish' is not one that",
        ),
        ("2_Dense/config.json", {"use_residual": True}, "use_residual is true"),
    ],
)
def test_settings_that_cannot_be_expressed(tmp_path, file, change, message):
    """A setting of any module that would change the vectors is refused by name."""
    folder = write_with_dense(tmp_path / "model")
    edit_json(
        folder / "tokenizer.json",
        lambda value: merged(value, normalizer=merged(value["normalizer"], lowercase=False)),
    )
    edit_json(folder / file, **change)
    with pytest.raises(UnsupportedModelError, match=message):
        read_model_folder(folder)


def test_lower_case_that_the_tokenizer_does_anyway(tiny_folder):
    """do_lower_case is fine where tokenizer.json lowers the case itself."""
    edit_json(tiny_folder / "sentence_bert_config.json", do_lower_case=True)
    assert read_model_folder(tiny_folder).tokenizer.lowercases


def kinds(*names: str) -> list[dict[str, str]]:
    paths = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    return [
        {"type": f"sentence_transformers.models.{name}", "path": paths.get(name, "9_Other")}
        for name in names
    ]


def test_modules_that_change_nothing(tiny_folder, compile_tiny):
    """A Dropout, and a Normalize after another, leave the vectors as they are."""
    before = compile_tiny(tiny_folder).manifest.vector_space
    names = ("Transformer", "Pooling", "Dropout", "Normalize", "Dropout", "Normalize", "Dropout")
    (tiny_folder / "modules.json").write_text(json.dumps(kinds(*names)))
    (tiny_folder / "9_Other").mkdir()
    (tiny_folder / "9_Other" / "config.json").write_text('{"dropout": 0.2}')
    assert compile_tiny(tiny_folder).manifest.vector_space == before
    (tiny_folder / "9_Other" / "config.json").write_text('{"dropout": 0.2, "sparkle": 1}')
    with pytest.raises(UnsupportedModelError, match="does not know: sparkle"):
        compile_tiny(tiny_folder)


@pytest.mark.parametrize("kind", ["Normalize", "Dropout"])
def test_a_module_in_the_encoders_folder(tiny_folder, compile_tiny, kind):
    """Of the encoder's configuration, it takes only the keys that are its own."""
    before = compile_tiny(tiny_folder).manifest.vector_space
    modules = [*kinds("Transformer", "Pooling", "Normalize"), {**kinds(kind)[0], "path": ""}]
    (tiny_folder / "modules.json").write_text(json.dumps(modules))
    assert compile_tiny(tiny_folder).manifest.vector_space == before


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        (kinds("Transformer"), "lists Transformer; the compiler can express a Transformer, then"),
        (kinds("Transformer", "Pooling", "CNN"), "lists Transformer, Pooling, CNN"),
        (
            [{"type": "mymodule.Transformer", "path": ""}],
            "needs trust_remote_code; the compiler never runs",
        ),
        (
            [{**kinds("Transformer")[0], "kwargs": ["task"]}, *kinds("Pooling")],
            r"the arguments \['task'\] at run time",
        ),
        (
            [{**module, "name": "1"} for module in kinds("Transformer", "Pooling")],
            "must have a name of its own, .* found 1, 1",
        ),
        ([{**kinds("Transformer")[0], "sparkle": 1}, *kinds("Pooling")], "not know: sparkle"),
    ],
)
def test_modules_that_cannot_be_expressed(tiny_folder, modules, message):
    """A list of modules other than encoder, pooling, dense, normalization is rejected."""
    (tiny_folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UnsupportedModelError, match=message):
        read_model_folder(tiny_folder)


def test_vectors_whose_lengths_matter(tiny_folder):
    """A model without Normalize is accepted for cosine similarity and rejected for dot products."""
    (tiny_folder / "modules.json").write_text(json.dumps(kinds("Transformer", "Pooling")))
    head = read_model_folder(tiny_folder).head
    assert isinstance(head, Head)
    assert not head.normalized
    edit_json(tiny_folder / "config_sentence_transformers.json", similarity_fn_name="dot")
    with pytest.raises(UnsupportedModelError, match=r'similarity_fn_name is "dot", .* "cosine"'):
        read_model_folder(tiny_folder)


@pytest.mark.parametrize(
    "file", ["config.json", "tokenizer.json", "1_Pooling/config.json", "modules.json"]
)
@pytest.mark.parametrize("content", [None, b"[3]"])
def test_files_that_are_missing_or_no_object(tiny_folder, file, content):
    """Each missing file is named in the error, and each with another value."""
    (tiny_folder / file).unlink()
    if content is not None:
        (tiny_folder / file).write_bytes(content)
    with pytest.raises(SourceError, match=Path(file).name.replace(".", r"\.")):
        read_model_folder(tiny_folder)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'"\xff"',
        b"[" * 100_000,
        # What Python reads, and JSON is not.
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": "\\ud800"}',
    ],
    ids=["empty", "cut", "no UTF-8", "deep", "nan", "infinity", "5,000 digits", "half a pair"],
)
@pytest.mark.parametrize(
    "file", ["config.json", "tokenizer_config.json", "1_Pooling/config.json", "modules.json"]
)
def test_files_that_are_no_json(tiny_folder, file, content):
    """They are refused with the file's name, in every file."""
    (tiny_folder / "sentence_bert_config.json").unlink()
    (tiny_folder / file).write_bytes(content)
    with pytest.raises(SourceError, match=f"{file} is not JSON"):
        read_model_folder(tiny_folder)


def test_a_module_outside_the_folder(tiny_folder):
    """A path outside the model's folder is refused."""
    shutil.copytree(tiny_folder / "1_Pooling", tiny_folder.parent / "1_Pooling")
    for path, shown in (("../1_Pooling", "../1_Pooling"), ("1_Pooling\0", r"1_Pooling\\x00")):
        change_file(tiny_folder / "modules.json", {"1.path": path})
        with pytest.raises(SourceError, match=f"'{shown}' is outside the model's folder"):
            read_model_folder(tiny_folder)


def test_tokens_that_the_model_has_no_row_for(tiny_folder):
    """An added token without a row, such as a multimodal model's, is dropped from both lists."""
    image = special_tokens({"<image>": 77})
    before = read_model_folder(tiny_folder).tokenizer

    def add(value: dict[str, Any]) -> dict[str, Any]:
        vocabulary = merged(value["model"]["vocab"], **{"<image>": 77})
        return merged(
            value,
            added_tokens=[*value["added_tokens"], *image],
            model=merged(value["model"], vocab=vocabulary),
        )

    edit_json(tiny_folder / "tokenizer.json", add)
    after = read_model_folder(tiny_folder).tokenizer
    assert after.dropped == ("<image>",)
    assert after.data == before.data


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("CrossEncoder", "of a cross-encoder, the compiler can express a Transformer alone"),
        ("SparseEncoder", "of a sparse encoder, the compiler can express a Transformer or MLM"),
    ],
)
def test_kinds_that_sentence_transformers_names(tiny_folder, compile_tiny, kind, message):
    """The configuration of sentence-transformers 5 and later names the kind."""
    edit_json(tiny_folder / "config_sentence_transformers.json", model_type=kind)
    with pytest.raises(UnsupportedModelError, match=message):
        compile_tiny(tiny_folder)


def test_a_cross_encoder_of_older_versions(tiny_folder):
    """A classifier without a list of modules is one; with a list it may be a mere checkpoint."""
    edit_json(tiny_folder / "config.json", architectures=["BertForSequenceClassification"])
    assert not ModelFolder.read(tiny_folder).is_cross_encoder
    (tiny_folder / "modules.json").unlink()
    assert ModelFolder.read(tiny_folder).is_cross_encoder


def test_an_embedding_model(tiny_folder):
    """The kind of embedding models, a missing or a damaged file are no reason to reject."""
    ModelFolder.read(tiny_folder).check_adapters()
    edit_json(tiny_folder / "config_sentence_transformers.json", model_type="SentenceTransformer")
    ModelFolder.read(tiny_folder).check_adapters()
    edit_json(tiny_folder / "config_sentence_transformers.json", model_type=["CrossEncoder"])
    ModelFolder.read(tiny_folder).check_adapters()
    (tiny_folder / "config.json").write_text("{")
    (tiny_folder / "config_sentence_transformers.json").unlink()
    ModelFolder.read(tiny_folder).check_adapters()
