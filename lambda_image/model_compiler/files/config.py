"""Reads a model's JSON file key by key; an unknown key is an error and never ignored.

Each key of a file is read, is in the file's list of those that change no vector, or is refused by
name (`ConfigFile.done`).

The largest values that are read are here, and a tokenizer's in `tokenizer.file`. Each is far above
that of any model that is known (the largest are in the comments), and low enough that what a file
asks for takes seconds, and no more memory than a machine has.
"""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, BinaryIO, NoReturn

from model_compiler.errors import SourceError, UnsupportedModelError

NONE: Mapping[str, str] = MappingProxyType({})
#: The keys of each file that change no vector, by reason. Families have their own.
REASONS: Mapping[str, Mapping[str, str]] = {
    "config.json": {
        # https://github.com/huggingface/transformers/blob/v4.45.0/src/transformers/configuration_utils.py
        "settings of text generation, which transformers 4 wrote for every model": """
            bad_words_ids begin_suppress_tokens decoder_start_token_id diversity_penalty do_sample
            early_stopping encoder_no_repeat_ngram_size exponential_decay_length_penalty
            forced_bos_token_id forced_eos_token_id length_penalty max_length min_length
            no_repeat_ngram_size num_beam_groups num_beams num_return_sequences output_scores
            prefix remove_invalid_values repetition_penalty return_dict_in_generate suppress_tokens
            temperature top_k top_p typical_p use_cache""",
        "provenance": """
            _attn_implementation_autoset _commit_hash _name_or_path architectures output_past
            transformers_version""",
        "provenance of unsloth and optimum, and what transformers.js loads": """
            model_name optimum_version transformers.js_config unsloth_fixed unsloth_version""",
        "read with the tokenizer": "tokenizer_class",
        "dropout, initial weights and other settings of training": """
            attention_dropout attention_probs_dropout_prob classifier_dropout gradient_checkpointing
            hidden_dropout_prob initializer_factor initializer_range""",
        "heads and tasks, which an embedding model does not have": """
            _num_labels add_pooling_layer cross_attention_hidden_size finetuning_task id2label
            label2id num_labels problem_type task_specific_params tf_legacy_loss
            tie_encoder_decoder tie_word_embeddings""",
        "ids of tokens, which the tokenizer has": """
            bos_token_id cls_token_id eos_token_id mask_token_id pad_token_id sep_token_id
            unk_token_id""",
        "what a program returns, and how it computes the same": """
            chunk_size_feed_forward output_attentions output_hidden_states return_dict torchscript
            use_bfloat16""",
        "the type of the stored weights, which their file states too": "dtype torch_dtype",
    },
    "model2vec": {
        "how the table was made": """
            apply_pca apply_zipf architectures embedding_dtype hidden_dim language pooling
            seq_length sif_coefficient tokenizer_name vocabulary_quantization"""
    },
    "sentence_bert_config.json": {"a layout that computes the same": "unpad_inputs"},
    "config_sentence_transformers.json": {
        "versions of programs": "__version__ requirements",
        "of vectors of length 1 all similarities have one order": "similarity_fn_name",
    },
    "tokenizer_config.json": {
        "provenance, and names of files on the author's machine": """
            _commit_hash added_tokens_file backend files_loaded full_tokenizer_file is_local
            local_files_only merges_file name_or_path special_tokens_map_file tokenizer_file
            transformers_version use_fast vocab_file""",
        "what the class is part of": "processor_class",
        "padding, which the mask hides": "pad_to_multiple_of pad_token_type_id padding_side",
        "defaults of arguments that are always given": """
            max_length stride truncation_strategy""",
        "which of its outputs the model takes, which the graph knows": "model_input_names",
        "ids to text": """
            clean_up_tokenization_spaces errors spaces_between_special_tokens trim_offsets
            clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output""",
        "chats": """
            chat_control_tokens chat_template response_schema response_template
            use_default_system_prompt""",
        "tokenizers without a tokenizer.json": """
            do_basic_tokenize extra_ids keep_accents legacy never_split remove_space
            sp_model_kwargs split_by_punct unk_id vocab_type wordpieces_prefix""",
        "transformers 5 takes the post-processor of tokenizer.json": "add_bos_token add_eos_token",
    },
    "adapter_config.json": {
        "which model it is for, which is found before": "base_model_name_or_path revision",
        "which tensors it changes, which their file says": "bias modules_to_save",
        "peft ignores it for layers that keep a weight as PyTorch's Linear does": "fan_in_fan_out",
        "dropout, initial values and other settings of training": """
            corda_config ensure_weight_tying eva_config inference_mode lora_dropout lora_ga_config
            megatron_core qalora_group_size task_type""",
        "provenance": "auto_mapping peft_version",
    },
    "modules.json": {"sentence-transformers counts the modules itself": "idx"},
}


def harmless(file: str, more: Mapping[str, str] = NONE) -> frozenset[str]:
    """Return the harmless keys of a file, and of more reasons: those of a family."""
    groups = (*REASONS.get(file, NONE).values(), *more.values())
    return frozenset(key for keys in groups for key in keys.split())


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


def _check_values(path: Path, value: Any) -> None:
    for item in values_of(value):
        if isinstance(item, str):
            check_most(f"{path}: a string", len(item), STRING, "characters")
        else:
            entries = ENTRIES_OF.get(path.name, ENTRIES)
            check_most(f"{path}: a list or an object", len(item), entries, "entries")


def values_of(value: Any) -> Iterator[Any]:
    """Give each list, object and string of a JSON value, and each key."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, (list, dict)):
            yield item
            pending += item
            pending += item.values() if isinstance(item, dict) else ()


def check_most(name: str, found: int, most: int, unit: str) -> None:
    """Check a size; raises a SourceError with the name of its owner."""
    if found > most:
        raise SourceError(f"{name} has {found} {unit}; at most {most} are allowed.")


class ConfigFile:
    """The object in one JSON file.

    Each key is read once, by the method for its type; `done` then raises if a key was not read.
    """

    def __init__(self, path: Path, value: Any = None) -> None:
        """Read the file, unless its `value` was read before."""
        self.path = path
        value = read_json(path) if value is None else value
        if not isinstance(value, dict):
            raise SourceError(f"{path} must hold a JSON object; found {_shown(value)}.")
        self._values: dict[str, Any] = value
        self._left = set(value)

    def integer(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        """Read an integer from `least` to the key's limit; required without a default."""
        value, limit = self._take(key, default), INTEGER_OF.get(key, INTEGER)
        if type(value) is int and least <= value <= limit:
            return value
        return self.fail(key, f"an integer of at least {least} and at most {limit}", value)

    def number(self, key: str, default: float | None = None) -> float:
        """Read a positive number; required without a default."""
        value = self._take(key, default)
        if type(value) not in {int, float} or not 0 < value < float("inf"):
            self.fail(key, "a positive number", value)
        return float(value)

    def boolean(self, key: str, default: bool | None = None) -> bool:
        """Read true or false; required without a default."""
        value = self._take(key, default)
        if isinstance(value, bool):
            return value
        return self.fail(key, "true or false", value)

    def string(self, key: str, default: str | None = None) -> str:
        """Read a string; required without a default."""
        value = self._take(key, default)
        if isinstance(value, str):
            return value
        return self.fail(key, "a string", value)

    def optional(self, key: str) -> Any:
        """Read a value of any type; None if it is missing."""
        self._left.discard(key)
        return self._values.get(key)

    def inner(self, key: str) -> "ConfigFile":
        """Read an object, as a file with the key at the end of its path; it is required."""
        value = self._take(key, None)
        if not isinstance(value, dict):
            self.fail(key, "an object", value)
        inner = copy(self)
        inner.path, inner._values, inner._left = self.path / key, value, set(value)
        return inner

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def has(self, key: str) -> bool:
        """Return whether the key exists and is not null."""
        return self._values.get(key) is not None

    def require(self, key: str, *allowed: object) -> None:
        """Check that a key is missing or has one of the allowed values."""
        value = self.optional(key)
        if key in self._values and value not in allowed:
            choices = " or ".join(_shown(choice) for choice in allowed)
            raise UnsupportedModelError(
                f"{self.path}: {key} is {_shown(value)}; the compiler can express {choices}."
            )

    def ignore(self, keys: frozenset[str]) -> None:
        """Skip keys with values that do not matter."""
        self._left -= keys

    def done(self, file: str = "", more: Mapping[str, str] = NONE) -> None:
        """Check that every key was read, or is harmless in such a file or for more reasons."""
        if unread := self._left - harmless(file, more):
            settings = ", ".join(f"{key} = {_shown(self._values[key])}" for key in sorted(unread))
            raise UnsupportedModelError(
                f"{self.path} has settings that the compiler does not know: {settings}. "
                "They may change the vectors."
            )

    def fail(self, key: str, allowed: str, found: object) -> NoReturn:
        """Raise the error for a key that has a wrong value."""
        raise SourceError(f"{self.path}: {key} must be {allowed}; found {_shown(found)}.")

    def _take(self, key: str, default: object) -> Any:
        value = self.optional(key)
        if value is not None:
            return value
        if default is None:
            raise SourceError(f"{self.path}: {key} is missing.")
        return default


def read_json(path: Path) -> Any:
    """Read a JSON file that is regular and not too large.

    NaN, Infinity and half of a surrogate pair are refused, although Python accepts them.
    """
    content = read_file(path, BYTES_OF.get(path.name, BYTES))
    try:
        text = unified_lines(content)
        value = json.loads(text, parse_constant=_reject_constant)
        if "\\ud" in text.lower():  # an escape that may be half of a pair
            json.dumps(value, ensure_ascii=False).encode()
    # A ValueError is bad UTF-8, bad JSON, half of a pair, or an integer of over 4,300 digits.
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path} is not JSON: {error}.") from error
    if path.name != "tokenizer.json":  # which has other bounds
        _check_values(path, value)
    return value


def unified_lines(content: bytes) -> str:
    """Decode UTF-8, with a line feed at each end of a line; raises a ValueError."""
    return io.StringIO(content.decode("utf-8"), newline=None).getvalue()


#: How a file begins that a clone has without Git LFS.
POINTER = b"version https://git-lfs.github.com/spec/"
#: How to convert weights that are a pickle, which can run any code and is never opened.
CONVERSION = (
    'python -c "from sentence_transformers import SentenceTransformer as S; '
    "S('FOLDER').save('FOLDER')\""
)
CLASSIFIER = "ForSequenceClassification"
#: The same of a plain classifier, of which SentenceTransformer would drop the head.
CLASSIFIER_CONVERSION = (
    f'python -c "from transformers import AutoModel{CLASSIFIER} as M; '
    "M.from_pretrained('FOLDER').save_pretrained('FOLDER')\""
)
#: What to do if a file is missing.
REMEDIES = {
    "tokenizer.json": (
        "Save the tokenizer again: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)."
    ),
    "model.safetensors": "Save the model again: SentenceTransformer(FOLDER).save(FOLDER).",
    "adapter_model.safetensors": "Save the adapter again: save_pretrained(FOLDER) of peft.",
}


def conversion(pickle: Path, target: Path) -> str:
    """Return the command that writes the tensors of a pickle to a safetensors file."""
    return (
        'python -c "import torch; from safetensors.torch import save_file as s; '
        f"s(torch.load('{pickle}', weights_only=True), '{target}')\""
    )


def weights_conversion(folder: Path) -> str:
    """Return the command that writes a folder's pickled weights as safetensors."""
    return CLASSIFIER_CONVERSION if _is_plain_classifier(folder) else CONVERSION


def _is_plain_classifier(folder: Path) -> bool:
    config = folder / "config.json"
    if (folder / "modules.json").exists() or not config.is_file():
        return False
    names = ConfigFile(config, read_json(config)).optional("architectures")
    return isinstance(names, list) and any(str(name).endswith(CLASSIFIER) for name in names)


def missing(path: Path | str) -> str:
    """Return the error for a file that a model needs and that is not there."""
    name = PurePath(path).name
    remedy = REMEDIES.get(name, "Copy the model's whole folder, or download it again.")
    if name == "model.safetensors" and _is_plain_classifier(Path(path).parent):
        remedy = (
            "A classifier is read from its weights, and not from an ONNX export or TensorFlow's "
            f"file. Save the model itself: AutoModel{CLASSIFIER}.from_pretrained(MODEL)"
            ".save_pretrained(FOLDER)."
        )
    return f"{path} is missing. {remedy}"


def require_file(path: Path) -> None:
    """Check that a path is a file that can be read, for a library that opens it."""
    with _opened(path):
        pass


def read_file(path: Path, most: int) -> bytes:
    """Return the content of a file of at most so many bytes."""
    with _opened(path) as file:
        check_most(f"{path}", path.stat().st_size, most, "bytes")
        return file.read()


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file: reading a device or a pipe may never end."""
    if not path.exists():
        raise SourceError(missing(path))
    if not path.is_file():
        raise SourceError(f"{path} is not a regular file.")
    try:
        with path.open("rb") as file:
            if file.read(len(POINTER)) == POINTER:
                raise SourceError(
                    f"{path} is a pointer of Git LFS, without the file's content. Run `git lfs "
                    "pull` in the clone, or download the file."
                )
            file.seek(0)
            yield file
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}.") from error


def inner_path(folder: Path, name: str, *, where: Path) -> Path:
    """Return the path of `name`, from the model's file `where`, which must be inside the folder."""
    path = folder / name
    if "\0" in name or not path.resolve().is_relative_to(folder.resolve()):
        raise SourceError(f"{where}: {name!r} is outside the model's folder.")
    return path


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds the number {name}")


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
