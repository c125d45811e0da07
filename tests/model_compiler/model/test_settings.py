"""Each key of each file of a model is read, harmless, or refused.

`settings.json` says what transformers and sentence-transformers do with the keys that their classes
have: with a changed key they compute the `same` or something `other`. The script that made it is
next to it.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from model_compiler.errors import CompilerError, SourceError, UnsupportedModelError
from model_compiler.files.config import ConfigFile, harmless
from model_compiler.files.folder import ConfigFolder
from model_compiler.graph import architectures
from model_compiler.model.folder import ModelFolder, read_model_folder
from model_compiler.tokenizer.file import TokenizerFile, read_tokenizer
from tests.model_compiler.goldens.families import FAMILIES, write_family
from tests.model_compiler.goldens.setting_changes import (
    DROPPED,
    change_file,
    write_tokenizer,
    write_with_dense,
)

GOLDENS = Path(__file__).parents[1] / "goldens"
SETTINGS: dict[str, Any] = json.loads((GOLDENS / "settings.json").read_text("utf-8"))
PUBLISHED: dict[str, Any] = json.loads((GOLDENS / "published.json").read_text("utf-8"))

#: The reference computes in the type of the stored weights, the compiler in float32.
TYPES = {"dtype", "torch_dtype"}
#: Classes that cannot build a tokenizer from the vocabulary of the file. Older published folders
#: name one, or none; `tokenizer.json` is right, which transformers 4 takes as it is.
UNFIT = {"BertTokenizer", "BertTokenizerFast", "ElectraTokenizer"}


def parsed(path: Path) -> Any:
    """Return what the compiler reads from a `config.json`; the error's text if it refuses it."""
    try:
        return architectures.parse(ConfigFile(path))
    except CompilerError as error:
        return str(error)


def read(folder: Path) -> TokenizerFile:
    """Read the tokenizer of a model with a row for each entry of the vocabulary."""
    document = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    return read_tokenizer(ConfigFolder(folder), vocabulary_size=len(document["model"]["vocab"]))


@pytest.mark.parametrize("family", FAMILIES)
def test_keys_of_a_family(tmp_path, family):
    """A key that changes the vectors changes what is read or is refused; a harmless one passes."""
    path = write_family(tmp_path / "model", family) / "config.json"
    text, expected = path.read_text("utf-8"), parsed(path)
    harmless_keys = harmless("config.json")
    for key, tried in SETTINGS["config changes"][family].items():
        for value, outcome in tried:
            change_file(path, {key: value})
            changed = parsed(path)
            assert outcome != "other" or changed != expected or key in TYPES, (key, value)
            assert key not in harmless_keys or not isinstance(changed, str) or outcome == "none", (
                changed
            )
            path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("version", SETTINGS["configs"])
@pytest.mark.parametrize("family", FAMILIES)
def test_all_keys_that_transformers_writes(tmp_path, family, version):
    """A file with every key of its class and of all classes is read like the short one."""
    path = write_family(tmp_path / "model", family) / "config.json"
    expected = parsed(path)
    if config := SETTINGS["configs"][version].get(family):
        path.write_text(json.dumps(config), encoding="utf-8")
        assert parsed(path) == expected


@pytest.mark.parametrize("name", SETTINGS["tokenizers"])
def test_settings_of_a_tokenizer(tmp_path, name):
    """Files that give other ids than tokenizer.json are refused; harmless keys pass."""
    files = SETTINGS["tokenizers"][name]
    harmless_keys = harmless("tokenizer_config.json")
    cases = [case[1:] for case in SETTINGS["tokenizer changes"] if case[0] == name]
    assert [outcome for _, _, outcome, *_ in cases].count("other") > 10
    for number, (file, change, outcome, *_) in enumerate(cases):
        folder = write_tokenizer(tmp_path / str(number), files)
        change_file(folder / file, change)
        refused = ""
        try:
            read(folder)
        except CompilerError as error:
            refused = str(error)
        if change.get("tokenizer_class") not in UNFIT:
            assert outcome != "other" or refused, (file, change)
        if file == "tokenizer_config.json" and set(change) <= harmless_keys:
            assert not refused or outcome == "other", (refused, change)


def test_settings_of_a_folder(tmp_path):
    """A setting of a module or of the whole model that changes the vectors is read or refused."""
    for number, (dropped, file, change, outcome) in enumerate(SETTINGS["folder changes"]):
        folder = write_with_dense(tmp_path / str(number))
        for name in dropped:
            (folder / name).unlink()
        read = [read_model_folder(folder)]
        change_file(folder / file, change)
        try:
            ModelFolder.read(folder).check_adapters()
            read.append(read_model_folder(folder))
        except CompilerError:
            continue
        assert outcome != "other" or read[0] != read[1], (file, change)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_files(tmp_path, name):
    """The keys of published folders, which public repositories quote, are all known.

    The files are whole, but for the vocabulary: only its last token is read here.
    """
    folder = write_with_dense(tmp_path / "model")
    files = PUBLISHED[name]
    rows = files["config.json"]["vocab_size"]
    model = files["tokenizer.json"]["model"]
    unigram = model.get("type") == "Unigram"
    vocabulary = [["a", 0.0]] * rows if unigram else {"a": rows - 1}
    for file, value in files.items():
        (folder / file).write_text(json.dumps(value), encoding="utf-8")
    change_file(folder / "tokenizer.json", {"model.vocab": vocabulary})
    width = files["config.json"]["hidden_size"]
    change_file(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": width})
    change_file(folder / "2_Dense" / "config.json", {"in_features": width})
    assert read_model_folder(folder).vocabulary_size == rows


def test_the_remedy_of_a_contradiction(tmp_path):
    """The message names the part, what is expected, what was found, and how to save it again."""
    folder = write_tokenizer(tmp_path / "model", SETTINGS["tokenizers"]["BertTokenizer"])
    change_file(folder / "tokenizer_config.json", {"do_lower_case": False})
    with pytest.raises(SourceError) as refused:
        read(folder)
    assert str(refused.value) == (
        f"{folder}/tokenizer.json: normalizer.lowercase must be false, as BertTokenizer of "
        "transformers has it from tokenizer_config.json and the files next to it; found true. Save "
        "the tokenizer again: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)."
    )


@pytest.mark.parametrize("stated", ["MBartTokenizer", "LlamaTokenizerFast", "Unheard", 5])
@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
@pytest.mark.parametrize("name", SETTINGS["tokenizers"])
def test_a_class_that_is_not_known(tmp_path, name, file, stated):
    """What transformers would build from it is not known; ModernBERT's models ignore it."""
    folder = write_tokenizer(tmp_path / "model", SETTINGS["tokenizers"][name])
    change_file(folder / "tokenizer_config.json", {"tokenizer_class": DROPPED})
    change_file(folder / file, {"tokenizer_class": stated})
    if name == "TokenizersBackend":
        read(folder)
        return
    with pytest.raises(
        UnsupportedModelError, match=f"tokenizer_class must be .*; found .?{stated}"
    ):
        read(folder)


@pytest.mark.parametrize("stated", ["MBartTokenizerFast", "XLNetTokenizer", ["T5Tokenizer"]])
@pytest.mark.parametrize("model_type", sorted({*architectures.FAMILIES} - {"modernbert"}))
def test_no_family_takes_a_class_that_is_not_known(tmp_path, model_type, stated):
    """Also a family of which only the defaults of its own class are known."""
    folder = write_tokenizer(tmp_path / "model", SETTINGS["tokenizers"]["BertTokenizer"])
    change_file(folder / "config.json", {"model_type": model_type})
    change_file(folder / "tokenizer_config.json", {"tokenizer_class": stated})
    with pytest.raises(UnsupportedModelError, match="tokenizer_class must be one of"):
        read(folder)


@pytest.mark.parametrize("model_type", ["deberta-v2", "xlnet", "unheard"])
def test_an_export_of_another_family_may_have_any_class(tmp_path, model_type):
    """Its tokenizer.json is taken as it is."""
    folder = write_tokenizer(tmp_path / "model", SETTINGS["tokenizers"]["BertTokenizer"])
    change_file(folder / "config.json", {"model_type": model_type})
    change_file(folder / "tokenizer_config.json", {"tokenizer_class": "MBartTokenizerFast"})
    assert read(folder)


@pytest.mark.parametrize("stated", ["MPNetTokenizer", "Qwen2TokenizerFast", "GemmaTokenizer"])
def test_a_class_for_another_vocabulary(tmp_path, stated):
    """A class that builds another kind of tokenizer contradicts tokenizer.json."""
    folder = write_tokenizer(tmp_path / "model", SETTINGS["tokenizers"]["XLMRobertaTokenizer"])
    change_file(folder / "tokenizer_config.json", {"tokenizer_class": stated})
    with pytest.raises(SourceError, match=r"model\.type must be (WordPiece|BPE).* found .Unigram"):
        read(folder)


@pytest.mark.parametrize("key", ["do_lower_case", "keep_accents", "split_by_punct"])
@pytest.mark.parametrize("stated", [True, False])
def test_settings_of_other_classes(tmp_path, key, stated):
    """The class of a family that only an export can serve must build what tokenizer.json has."""
    folder = write_tokenizer(tmp_path / "model", SETTINGS["tokenizers"]["XLMRobertaTokenizer"])
    change_file(folder / "config.json", {"model_type": "deberta-v2"})
    change_file(folder / "tokenizer_config.json", {"tokenizer_class": "DebertaV2Tokenizer"})
    read(folder)
    change_file(folder / "tokenizer_config.json", {key: stated})
    if stated == (key == "keep_accents"):  # the file has no step for any of them
        read(folder)
        return
    with pytest.raises(SourceError, match=f"must have {key} {stated}"):
        read(folder)


#: Classes that build a tokenizer with lower case and without accents, and others that keep both.
LOWERING = {
    "albert": "AlbertTokenizer",
    "funnel": "FunnelTokenizer",
    "splinter": "SplinterTokenizer",
}
KEEPING = {"rembert": "RemBertTokenizer", "deberta-v2": "DebertaV2Tokenizer"}


@pytest.mark.parametrize("by_model_type", [True, False])
@pytest.mark.parametrize("model_type", LOWERING | KEEPING)
def test_defaults_of_other_classes(tmp_path, model_type, by_model_type):
    """Without a setting, the class lowers the case or keeps it, whatever tokenizer.json does."""
    folder = write_tokenizer(tmp_path / "model", SETTINGS["tokenizers"]["XLMRobertaTokenizer"])
    change_file(folder / "config.json", {"model_type": model_type})
    stated = DROPPED if by_model_type else f"{(LOWERING | KEEPING)[model_type]}Fast"
    change_file(folder / "tokenizer_config.json", {"tokenizer_class": stated})
    lowering = {
        "type": "Sequence",
        "normalizers": [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}],
    }
    keeping = {"type": "NFKD"}
    right, wrong = (lowering, keeping) if model_type in LOWERING else (keeping, lowering)
    change_file(folder / "tokenizer.json", {"normalizer": right})
    read(folder)
    change_file(folder / "tokenizer.json", {"normalizer": wrong})
    with pytest.raises(SourceError, match=f"must have do_lower_case {model_type in LOWERING}"):
        read(folder)


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("tokenizer_config.json", {"added_tokens_decoder": [1]}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"one": {"content": "[PAD]"}}}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"0": {}}}),
        ("tokenizer_config.json", {"cls_token": {"content": 5}}),
        ("tokenizer_config.json", {"extra_special_tokens": 5}),
        ("tokenizer_config.json", {"truncation_side": 5}),
        ("tokenizer_config.json", {"model_max_length": "5"}),
        ("added_tokens.json", {"a": "b"}),
    ],
)
def test_values_of_wrong_types(tmp_path, file, change):
    """A value that transformers would not write is an error that names the folder."""
    folder = write_tokenizer(tmp_path / "model", SETTINGS["tokenizers"]["BertTokenizer"])
    change_file(folder / file, change)
    with pytest.raises(SourceError):
        read(folder)
