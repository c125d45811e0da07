"""What the dialects hand to the engine and get back, and the limits that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from embedder.errors import EmptyInputError, InvalidFieldError
from embedder.json_body import found
from embedder.json_types import JsonType

if TYPE_CHECKING:  # see quick_start
    import numpy.typing as npt

__all__ = ["EmbedRequest", "Embeddings", "Inputs", "InputsType", "Limits", "TextType", "Timings"]


class Limits(NamedTuple):
    """What may be asked of the model that is served; the dialects' types are built from it."""

    #: Allowed dimensions, largest first.
    dimensions: tuple[int, ...]
    #: The longest input in tokens, special tokens and prompt included.
    max_tokens: int
    #: The longest text in characters, without the prompt.
    max_characters: int
    #: Token ids are smaller than this.
    vocabulary_size: int
    #: The texts that the model wants in front of an input, by name.
    prompts: Mapping[str, str]
    default_prompt: str | None
    #: What happens to a text over `max_tokens` when the request does not say.
    truncate: str

    @property
    def dimension(self) -> int:
        """The full dimension."""
        return self.dimensions[0]


class Inputs:
    """What is to be embedded: texts, or lists of token ids, one of the two.

    `is_list` tells whether the caller sent a list, where a dialect answers the two differently.
    """

    __slots__ = ("is_list", "texts", "token_ids")

    def __init__(
        self,
        *,
        texts: Sequence[str] | None = None,
        token_ids: Sequence[Sequence[int]] | None = None,
        is_list: bool = True,
    ) -> None:
        self.texts = texts
        self.token_ids = token_ids
        self.is_list = is_list

    def __len__(self) -> int:
        return len(self.texts if self.texts is not None else self.token_ids or ())


class EmbedRequest(NamedTuple):
    """A valid wish for embeddings, in nobody's dialect."""

    inputs: Inputs
    #: Name of the prompt; None: the model's default, if it has one.
    prompt: str | None = None
    #: For a document prompt with a place for it.
    title: str | None = None
    #: None: the full dimension.
    dimension: int | None = None
    #: `refuse`, `right` or `left`.
    truncate: str = "refuse"
    #: Renormalise after cutting to `dimension`.
    normalize: bool = True
    #: The field that held the inputs, for errors.
    field: str = "text"
    #: How to ask for truncation in this dialect, for errors.
    truncate_hint: str = ""
    #: The `time.monotonic()` at which Lambda would cut the request off.
    deadline: float | None = None


class Timings(NamedTuple):
    """Seconds spent on each stage."""

    tokenization: float = 0.0
    inference: float = 0.0


class Embeddings(NamedTuple):
    """Vectors, in the order asked.

    `vectors` is float32 [inputs, dimension]; `tokens` counts each input's tokens as the model saw
    them: special tokens and prompt included, after truncation.
    """

    vectors: npt.NDArray[np.float32]
    tokens: Sequence[int]
    vector_space: str
    timings: Timings
    #: Characters that were sent, without prompts; of token ids, their number.
    characters: int = 0
    #: Inputs answered from the cache, repeats within the request not counted.
    cache_hits: int = 0
    #: Inputs that repeat another of the same request.
    repeats: int = 0
    #: How many inputs each run of the model took.
    runs: Sequence[int] = ()
    #: Tokens that the runs computed beyond those that count.
    padding_tokens: int = 0
    #: All tokens that the runs computed.
    computed_tokens: int = 0


class TextType(JsonType):
    """A text to embed: neither empty nor blank."""

    def __init__(self, max_characters: int) -> None:
        self.max_characters = max_characters

    @property
    def allowed(self) -> str:
        """See `JsonType`."""
        return f"a string with at most {self.max_characters} characters, not all of them blank"

    @property
    def schema(self) -> dict[str, Any]:
        """See `JsonType`."""
        return {"type": "string", "minLength": 1, "pattern": r"\S"}

    def check(self, value: object, name: str) -> str:
        """See `JsonType`.

        Raises:
            EmptyInputError: if the text is empty or blank.
        """
        if not isinstance(value, str):
            raise self.refuse(value, name)
        if not value or value.isspace():
            what = f"{len(value)} blank characters" if value else "an empty string"
            raise EmptyInputError(f'"{name}" must be {self.allowed}; found {what}.', field=name)
        return value


class InputsType(JsonType):
    """One text or a list of them, or token ids or a list of those; not a mixture."""

    def __init__(
        self,
        text: TextType,
        *,
        vocabulary_size: int | None = None,
        single: bool = True,
        texts: bool = True,
        ids_hint: str = "",
    ) -> None:
        self.text = text
        self.vocabulary_size = vocabulary_size
        self.single = single
        #: False: token ids only.
        self.texts = texts
        #: What an error about a token id adds: how to send what is right.
        self.ids_hint = ids_hint

    @property
    def allowed(self) -> str:
        """See `JsonType`."""
        one = "a string, or " if self.single else ""
        if self.vocabulary_size is None:
            return f"{one}a list of strings that is not empty"
        ids = f"token ids (whole numbers from 0 to {self.vocabulary_size - 1})"
        if not self.texts:
            return f"a list that is not empty of {ids}, or a list of such lists"
        return (
            f"{one}a list that is not empty of strings, or {ids}, or a list of lists of token ids"
        )

    @property
    def schema(self) -> dict[str, Any]:
        """See `JsonType`."""
        types: list[dict[str, Any]] = []
        if self.texts:
            types = [self.text.schema] if self.single else []
            types.append(_list_of(self.text.schema))
        if self.vocabulary_size is not None:
            ids = _list_of({"type": "integer", "minimum": 0, "maximum": self.vocabulary_size - 1})
            types += [ids, _list_of(ids)] if self.single else [_list_of(ids)]
        return types[0] if len(types) == 1 else {"anyOf": types}

    def check(self, value: object, name: str) -> Inputs:
        """See `JsonType`.

        Raises:
            EmptyInputError: if a list or a text is empty, or a text blank.
        """
        if isinstance(value, str) and self.single and self.texts:
            return Inputs(texts=[self.text.check(value, name)], is_list=False)
        if not isinstance(value, list):
            raise self.refuse(value, name)
        if not value:
            raise EmptyInputError(
                f'"{name}" must be {self.allowed}; found an empty list.', field=name
            )
        first = value[0]
        if self.texts and (isinstance(first, str) or self.vocabulary_size is None):
            check = self.text.check
            return Inputs(texts=[check(text, f"{name}[{i}]") for i, text in enumerate(value)])
        if isinstance(first, list):
            return Inputs(token_ids=[self._ids(ids, f"{name}[{i}]") for i, ids in enumerate(value)])
        if self.single:
            return Inputs(token_ids=[self._ids(value, name)], is_list=False)
        raise self.refuse(first, f"{name}[0]")

    def _ids(self, value: object, name: str) -> list[int]:
        if not isinstance(value, list):
            raise self.refuse(value, name)
        if not value:
            raise EmptyInputError(f'"{name}" must hold token ids; found an empty list.', field=name)
        size = self.vocabulary_size or 0
        # `set(map(type, …))` looks at a thousand ids in the time that a loop looks at fifty.
        if set(map(type, value)) == {int} and min(value) >= 0 and max(value) < size:
            return value
        wrong, place = next(
            (item, place)
            for place, item in enumerate(value)
            if type(item) is not int or not 0 <= item < size
        )
        raise InvalidFieldError(
            f'"{name}[{place}]" must be a token id, a whole number from 0 to {size - 1}; '
            f"found {found(wrong)}.{self.ids_hint and f' {self.ids_hint}'}",
            field=f"{name}[{place}]",
        )


def _list_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema, "minItems": 1}
