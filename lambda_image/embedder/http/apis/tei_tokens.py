"""TEI's `POST /tokenize` and `POST /decode`: texts to tokens, and back."""

from typing import Any

from embedder.core.errors import InputError, WrongModelError
from embedder.http.apis.input_types import InputsType, TextType
from embedder.http.apis.operation import Api, Call, Model, Operation, json_response
from embedder.http.apis.options import prompt_name_field
from embedder.http.apis.tei import Tei
from embedder.http.http_types import Response
from embedder.http.json_types import Boolean, Field, Object

__all__ = ["Decode", "Tokenize"]


class Tokenize(Operation):
    """Texts → their tokens, as the vocabulary spells them; TEI's places in the text are null."""

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
        around = values["add_special_tokens"]
        prefix = [self._token(token, special=True) for token in tokenizer.prefix if around]
        suffix = [self._token(token, special=True) for token in tokenizer.suffix if around]
        answer = []
        inputs = values["inputs"]
        for position, text in enumerate(inputs.texts):
            try:
                engine.encoder.check_characters(text, position)
            except InputError as error:
                # The field is the text's own, where an embedding names the list.
                name = f"inputs[{position}]" if inputs.is_list else "inputs"
                raise error.named(name, field=name) from None
            tokens = map(self._token, tokenizer.encode(prompt + text))
            answer.append([*prefix, *tokens, *suffix])
        return json_response(answer)

    def _token(self, token: int, *, special: bool = False) -> dict[str, Any]:
        text = self.model.engine.tokenizer.token(token)
        return {"id": token, "text": text, "special": special, "start": None, "stop": None}


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
