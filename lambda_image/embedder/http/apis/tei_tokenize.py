"""TEI's `POST /tokenize`: the tokens of texts."""

from typing import Any

from embedder.core.errors import InputError
from embedder.http.apis.input_types import InputsType, TextType
from embedder.http.apis.operation import Api, Call, Model, Operation, json_response
from embedder.http.apis.options import prompt_name_field
from embedder.http.apis.schemas import STRING, list_of, object_of
from embedder.http.apis.tei import Tei
from embedder.http.http_types import Response
from embedder.http.json_types import Boolean, Field, Object

__all__ = ["Tokenize"]


class Tokenize(Operation):
    """Texts → their tokens, each with the bytes of the text that it covers."""

    api: type[Api] = Tei
    name = "tei_tokenize"
    summary = "Tokenize texts."

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        limits = model.engine.limits
        self.body = Object(
            (
                Field(
                    "inputs",
                    InputsType(TextType(limits.max_characters)),
                    "A text, or a list of texts.",
                    required=True,
                ),
                Field(
                    "add_special_tokens",
                    Boolean(),
                    "Also return the special tokens around each text.",
                    default=True,
                ),
                prompt_name_field(limits),
            )
        )

    def respond(self, call: Call, /) -> Response:
        values = call.values
        engine = self.model.engine
        prompt = engine.encoder.prompt_text(values["prompt_name"])
        tokenizer = engine.tokenizer
        prefix = [self._special(token) for token in tokenizer.prefix]
        suffix = [self._special(token) for token in tokenizer.suffix]
        answer = []
        inputs = values["inputs"]
        for position, text in enumerate(inputs.texts):
            try:
                engine.encoder.check_characters(text, position)
            except InputError as error:
                # The field is the text's own, where an embedding names the list.
                name = f"inputs[{position}]" if inputs.is_list else "inputs"
                raise error.named(name, field=name) from None
            tokens = self._tokens(prompt + text)
            answer.append([*prefix, *tokens, *suffix] if values["add_special_tokens"] else tokens)
        return json_response(answer)

    def _special(self, token: int) -> dict[str, Any]:
        text = self.model.engine.tokenizer.token(token)
        return {"id": token, "text": text, "special": True, "start": None, "stop": None}

    def _tokens(self, text: str) -> list[dict[str, Any]]:
        offsets = _byte_offsets(text)
        return [
            {
                "id": span.id,
                "text": text[span.start : span.stop],
                "special": False,
                "start": offsets[span.start],
                "stop": offsets[span.stop],
            }
            for span in self.model.engine.tokenizer.spans(text)
        ]

    @property
    def result(self) -> dict[str, Any]:
        place = {"type": ["integer", "null"], "minimum": 0}
        token = object_of(
            id={"type": "integer", "minimum": 0},
            text=STRING,
            special={"type": "boolean"},
            start=place,
            stop=place,
        )
        return list_of(list_of(token))


def _byte_offsets(text: str) -> list[int] | range:
    """Return the place in UTF-8 of each character, and of the end."""
    if text.isascii():
        return range(len(text) + 1)
    offsets = [0]
    for character in text:
        offsets.append(offsets[-1] + len(character.encode()))
    return offsets
