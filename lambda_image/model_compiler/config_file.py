"""A model's JSON file, read key by key: what is not known is refused by name, never ignored."""

import json
from pathlib import Path
from typing import Any, NoReturn

from model_compiler.errors import SourceError, UnsupportedModelError

__all__ = ["ConfigFile"]

#: Keys of `config.json` that say nothing about how a text becomes a vector: provenance, training,
#: generation, and what transformers' PretrainedConfig writes for every model.
HARMLESS = frozenset(
    {
        "_attn_implementation_autoset",
        "_name_or_path",
        "_num_labels",
        "architectures",
        "attention_dropout",
        "attention_probs_dropout_prob",
        "bos_token_id",
        "chunk_size_feed_forward",  # the same sums in pieces
        "classifier_dropout",
        "dtype",  # what the weights are kept in; they are read as they are
        "eos_token_id",
        "finetuning_task",
        "gradient_checkpointing",
        "hidden_dropout_prob",
        "id2label",
        "initializer_factor",
        "initializer_range",
        "label2id",
        "output_attentions",
        "output_hidden_states",
        "output_past",
        "pad_token_id",
        "problem_type",
        "return_dict",
        "task_specific_params",
        "tie_word_embeddings",  # an embedding model has no output head
        "tokenizer_class",
        "torch_dtype",
        "transformers_version",
        "use_cache",
    }
)


class ConfigFile:
    """The object in one JSON file.

    Each key is taken once, by the method for its type; `done` then refuses what was not taken.

    Raises:
        SourceError: if the file is missing or is no JSON object, or a key is missing or of a wrong
            type.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        value = read_json(path)
        if not isinstance(value, dict):
            raise SourceError(f"{path} must hold a JSON object; found {_shown(value)}.")
        self._values: dict[str, Any] = value
        self._left = set(value)

    def integer(self, key: str, default: int | None = None) -> int:
        """Take an integer of at least 1; without a default it must be there."""
        value = self._take(key, default)
        if type(value) is int and value >= 1:
            return value
        return self.refuse(key, "an integer of at least 1", value)

    def number(self, key: str, default: float | None = None) -> float:
        """Take a positive number; without a default it must be there."""
        value = self._take(key, default)
        if type(value) not in {int, float} or not 0 < value < float("inf"):
            self.refuse(key, "a positive number", value)
        return float(value)

    def boolean(self, key: str, default: bool | None = None) -> bool:
        """Take true or false; without a default it must be there."""
        value = self._take(key, default)
        if isinstance(value, bool):
            return value
        return self.refuse(key, "true or false", value)

    def string(self, key: str, default: str | None = None) -> str:
        """Take a string; without a default it must be there."""
        value = self._take(key, default)
        if isinstance(value, str):
            return value
        return self.refuse(key, "a string", value)

    def optional(self, key: str) -> Any:
        """Take a value of any type; null where it is missing."""
        self._left.discard(key)
        return self._values.get(key)

    def has(self, key: str) -> bool:
        """Say whether the key is there, and not null."""
        return self._values.get(key) is not None

    def require(self, key: str, *allowed: object) -> None:
        """Take a key that may be missing but must otherwise have one of the allowed values.

        Raises:
            UnsupportedModelError: if it has another.
        """
        value = self.optional(key)
        if key in self._values and value not in allowed:
            choices = " or ".join(_shown(choice) for choice in allowed)
            raise UnsupportedModelError(
                f"{self.path}: {key} is {_shown(value)}; the compiler can express {choices}."
            )

    def ignore(self, keys: frozenset[str]) -> None:
        """Take keys whose values do not matter."""
        self._left -= keys

    def done(self) -> None:
        """Refuse, by name, whatever was not taken.

        Raises:
            UnsupportedModelError: if anything was not.
        """
        if self._left:
            found = ", ".join(f"{key} = {_shown(self._values[key])}" for key in sorted(self._left))
            raise UnsupportedModelError(
                f"{self.path} has settings that the compiler does not know: {found}. "
                "They may change the vectors, so it does not go on without them."
            )

    def refuse(self, key: str, allowed: str, found: object) -> NoReturn:
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
    """Read a JSON file.

    Raises:
        SourceError: if it is missing, is not UTF-8, or is not JSON.
    """
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise SourceError(f"{path} is missing.") from error
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise SourceError(f"{path} is not JSON: {error}.") from error


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
