"""The fields that several APIs share: their inputs and options, and how to interpret them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embedder.core.embedding_request import Inputs, Limits
from embedder.core.errors import EmptyInputError, InvalidFieldError
from embedder.core.quantization import DTYPES
from embedder.core.settings import TRUNCATIONS
from embedder.http.json_types import (
    Boolean,
    Choice,
    Field,
    JsonType,
    OneOf,
    String,
    Unsupported,
    describe_value,
)
from embedder.http.vector_encoding import ENCODINGS

if TYPE_CHECKING:  # an embedding model needs no scores
    from embedder.core.scorer import Scorer

#: Voyage's and Cohere's input types, and the names of the corresponding prompts.
INPUT_TYPES: dict[str, tuple[str, ...]] = {
    "query": ("query",),
    "document": ("document", "passage"),
    "search_query": ("query",),
    "search_document": ("document", "passage"),
    "classification": ("classification", "Classification"),
    "clustering": ("clustering", "Clustering"),
}
#: A model without a prompt for these embeds the text as it is: that is how it was trained.
_PROMPT_OPTIONAL = {"query", "document", "search_query", "search_document"}


class TextType(JsonType):
    """A text to embed: neither empty nor blank."""

    def __init__(self, max_characters: int) -> None:
        self.max_characters = max_characters

    @property
    def allowed(self) -> str:
        return f"a string with at most {self.max_characters} characters, not all of them blank"

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "pattern": r"\S"}

    def check(self, value: object, name: str) -> str:
        if not isinstance(value, str):
            raise self.error(value, name)
        if not value or value.isspace():
            shown = f"{len(value)} blank characters" if value else "an empty string"
            raise EmptyInputError(f"must be {self.allowed}; found {shown}.", name=name)
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
        #: A hint that errors about token ids add.
        self.ids_hint = ids_hint

    @property
    def allowed(self) -> str:
        or_string = "a string, or " if self.single else ""
        if self.vocabulary_size is None:
            return f"{or_string}a list of strings that is not empty"
        ids = f"token ids (whole numbers from 0 to {self.vocabulary_size - 1})"
        if not self.texts:
            return f"a list that is not empty of {ids}, or a list of such lists"
        lists = f"a list that is not empty of strings, or {ids}, or a list of lists of token ids"
        return f"{or_string}{lists}"

    @property
    def schema(self) -> dict[str, Any]:
        types: list[dict[str, Any]] = []
        if self.texts:
            types = [self.text.schema] if self.single else []
            types.append(_list_of(self.text.schema))
        if self.vocabulary_size is not None:
            ids = _list_of({"type": "integer", "minimum": 0, "maximum": self.vocabulary_size - 1})
            types += [ids, _list_of(ids)] if self.single else [_list_of(ids)]
        return types[0] if len(types) == 1 else {"anyOf": types}

    def check(self, value: object, name: str) -> Inputs:
        if isinstance(value, str) and self.single and self.texts:
            return Inputs(texts=[self.text.check(value, name)], is_list=False)
        if not isinstance(value, list):
            raise self.error(value, name)
        if not value:
            raise EmptyInputError(f"must be {self.allowed}; found an empty list.", name=name)
        item = value[0]
        if self.texts and (isinstance(item, str) or self.vocabulary_size is None):
            check = self.text.check
            return Inputs(texts=[check(text, f"{name}[{i}]") for i, text in enumerate(value)])
        if isinstance(item, list):
            return Inputs(token_ids=[self._ids(ids, f"{name}[{i}]") for i, ids in enumerate(value)])
        if self.single:
            ids = self._ids(value, name, texts=self.texts)
            return Inputs(token_ids=[ids], is_list=False)
        raise self.error(item, f"{name}[0]")

    def _ids(self, value: object, name: str, *, texts: bool = False) -> list[int]:
        """Return token ids; with `texts`, their list could also be one of texts."""
        if not isinstance(value, list):
            raise self.error(value, name)
        if not value:
            raise EmptyInputError("must hold token ids; found an empty list.", name=name)
        size = self.vocabulary_size or 0
        # `set(map(type, …))` looks at a thousand ids in the time that a loop looks at fifty.
        if set(map(type, value)) == {int} and min(value) >= 0 and max(value) < size:
            return value
        wrong, position = next(
            (item, position)
            for position, item in enumerate(value)
            if type(item) is not int or not 0 <= item < size
        )
        either = "a string, or " if texts and position == 0 and type(wrong) is not int else ""
        hint = f" {self.ids_hint}" if self.ids_hint and type(wrong) is int else ""
        raise InvalidFieldError(
            f'"{name}[{position}]" must be {either}a token id, a whole number from 0 to '
            f"{size - 1}; found {describe_value(wrong)}.{hint}",
            field=f"{name}[{position}]",
        )


def _list_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema, "minItems": 1}


def prompt_name_field(limits: Limits) -> Field:
    """Make the field that names a prompt of the model."""
    names = tuple(limits.prompts)
    name_type: JsonType = Choice(names) if names else Unsupported("this model has no prompts")
    return Field(
        "prompt_name",
        name_type,
        "The name of the prompt to put before each text; null: "
        + (f"the default, {limits.default_prompt}." if limits.default_prompt else "none."),
    )


def prompt_fields(limits: Limits) -> tuple[Field, ...]:
    """Make the fields `prompt_name`, `input_type` and `title`."""
    input_types = tuple(
        input_type
        for input_type, prompts in INPUT_TYPES.items()
        if input_type in _PROMPT_OPTIONAL or any(prompt in limits.prompts for prompt in prompts)
    )
    return (
        prompt_name_field(limits),
        Field(
            "input_type",
            Choice(input_types),
            "The purpose of the texts, named as in Voyage's and Cohere's APIs; chooses the prompt.",
        ),
        Field(
            "title", String(), "The title of the document, for a prompt that has a place for it."
        ),
    )


def choose_prompt(
    values: dict[str, Any], limits: Limits, *, alias: str | None = None
) -> str | None:
    """Return the prompt's name that `prompt_name`, `input_type` or a model's alias asks for."""
    name, input_type = values.get("prompt_name"), values.get("input_type")
    chosen_by = [
        f'"{field}"'
        for field, value in (("prompt_name", name), ("input_type", input_type), ("model", alias))
        if value is not None
    ]
    if len(chosen_by) > 1:
        raise InvalidFieldError(
            f"The prompt may be chosen once; it was chosen by {' and '.join(chosen_by)}.",
            field=chosen_by[1].strip('"'),
        )
    if input_type is not None:
        return next((p for p in INPUT_TYPES[input_type] if p in limits.prompts), None)
    return alias if name is None else name


class _DimensionsOrZero(Choice):
    """One of the model's dimensions, the first all of them; 0, infinity's default, means these."""

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "enum": [0, *self.values]}

    def check(self, value: object, name: str) -> Any:
        return self.values[0] if type(value) is int and not value else super().check(value, name)


def dimensions_field(name: str, limits: Limits, *, zero: bool = False) -> Field:
    """Make the field that asks for one of the model's dimensions; `zero` may mean all of them."""
    return Field(
        name,
        (_DimensionsOrZero if zero else Choice)(limits.dimensions),
        "The dimensions of each vector, which is truncated and then normalized to length 1.",
        default=limits.full_dimensions,
    )


#: Whether token ids may lack the model's special tokens.
ADD_SPECIAL_TOKENS = Field(
    "add_special_tokens",
    Boolean(),
    "The token ids are this model's, and may lack the special tokens around them: add those. "
    "Without it, ids that lack them are refused. Texts always get them.",
    default=False,
)
OUTPUT_DTYPE = Field(
    "output_dtype",
    Choice(DTYPES),
    "The format of a vector's numbers, as Voyage and Cohere define them.",
    default="float",
)
ENCODING = Field(
    "encoding_format",
    Choice(ENCODINGS),
    "A list of numbers, or base64 of their little-endian bytes.",
    default="float",
)


def truncate_field(limits: Limits | Scorer) -> Field:
    """Make the field that says what happens to a text over the model's limit, in one word."""
    return Field(
        "truncate",
        OneOf((Boolean(), Choice(TRUNCATIONS))),
        f"How to handle a text over {limits.max_tokens} tokens: reject it (false), truncate its "
        "end (true, right) or its start (left).",
        default=limits.truncate,
    )


def truncation_fields(limits: Limits | Scorer, *, pairs: bool = False) -> tuple[Field, ...]:
    """Make the two fields of text-embeddings-inference for the same; `pairs` are a reranker's."""
    tokens = f"{limits.max_tokens} tokens"
    over = f"a pair over {tokens}, the longer text first" if pairs else f"a text over {tokens}"
    return (
        Field(
            "truncate",
            Boolean(),
            f"Truncate {over}, instead of rejecting it.",
            default=limits.truncate != "refuse",
        ),
        Field(
            "truncation_direction",
            Choice(("Right",) if pairs else ("Left", "Right"), any_case=True),
            "The side to truncate.",
            default="Left" if limits.truncate == "left" else "Right",
        ),
    )


def truncation(values: dict[str, Any]) -> str:
    """Return `refuse`, `right` or `left` for either kind of field."""
    truncate = values["truncate"]
    if isinstance(truncate, str):
        return truncate
    if not truncate:
        return "refuse"
    return str(values.get("truncation_direction", "right")).lower()
