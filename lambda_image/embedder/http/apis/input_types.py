"""The JSON types of the inputs: a text, a list of texts, token ids."""

from typing import Any

from embedder.core.embedding_request import Inputs
from embedder.core.errors import EmptyInputError, InvalidFieldError
from embedder.http.json_body import describe_value
from embedder.http.json_types import JsonType


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
            what = f"{len(value)} blank characters" if value else "an empty string"
            raise EmptyInputError(f"must be {self.allowed}; found {what}.", name=name)
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
        first = value[0]
        if self.texts and (isinstance(first, str) or self.vocabulary_size is None):
            check = self.text.check
            return Inputs(texts=[check(text, f"{name}[{i}]") for i, text in enumerate(value)])
        if isinstance(first, list):
            return Inputs(token_ids=[self._ids(ids, f"{name}[{i}]") for i, ids in enumerate(value)])
        if self.single:
            return Inputs(token_ids=[self._ids(value, name)], is_list=False)
        raise self.error(first, f"{name}[0]")

    def _ids(self, value: object, name: str) -> list[int]:
        if not isinstance(value, list):
            raise self.error(value, name)
        if not value:
            raise EmptyInputError("must hold token ids; found an empty list.", name=name)
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
            f"found {describe_value(wrong)}.{self.ids_hint and f' {self.ids_hint}'}",
            field=f"{name}[{place}]",
        )


def _list_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema, "minItems": 1}
