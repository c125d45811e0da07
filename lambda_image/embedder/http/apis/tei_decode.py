"""TEI's `POST /decode`: token ids to text, for models whose tokenizer can."""

from typing import Any

from embedder.core.errors import WrongModelError
from embedder.http.apis.input_types import InputsType, TextType
from embedder.http.apis.operation import Api, Call, Model, Operation, json_response
from embedder.http.apis.schemas import STRING, list_of
from embedder.http.apis.tei import Tei
from embedder.http.http_types import Response
from embedder.http.json_types import Boolean, Field, Object

__all__ = ["Decode"]


class Decode(Operation):
    """Token ids → the text of each list."""

    api: type[Api] = Tei
    name = "tei_decode"
    summary = "Turn token ids into text, where the model's tokenizer can."

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        limits = model.engine.limits
        ids = InputsType(
            TextType(limits.max_characters), vocabulary_size=limits.vocabulary_size, texts=False
        )
        self.body = Object(
            (
                Field("ids", ids, "Token ids, or a list of lists of them.", required=True),
                Field(
                    "skip_special_tokens",
                    Boolean(),
                    "Leave special tokens out of the text.",
                    default=True,
                ),
            )
        )

    def respond(self, call: Call, /) -> Response:
        """See `Operation`.

        Raises:
            WrongModelError: if the tokenizer cannot decode.
        """
        # Not every tokenizer can decode, so `Tokenizer` does not declare the method.
        decode = getattr(self.model.engine.tokenizer, "decode", None)
        if decode is None:
            # The tables of the fast tokenizers are made for encoding: they have neither the
            # decoder of tokenizer.json nor its list of special tokens.
            raise WrongModelError(
                "Backend error: `decode` is not available: the compiled tokenizer only encodes"
            )
        skip = call.values["skip_special_tokens"]
        return json_response(
            [decode(list(ids), skip_special_tokens=skip) for ids in call.values["ids"].token_ids]
        )

    @property
    def result(self) -> dict[str, Any]:
        return list_of(STRING)
