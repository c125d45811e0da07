"""The hierarchy of errors."""

import pytest

from embedder.core import errors
from embedder.core.errors import AnswerableError, InputTooLongError
from embedder.http.apis.native import Native
from embedder.http.apis.openai import OpenAI
from embedder.http.apis.tei import Tei, TeiOpenAI


@pytest.mark.parametrize(
    "error",
    [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, AnswerableError)
        if kind not in (AnswerableError, errors.ClientError, errors.InputError)
    ],
)
def test_every_answerable_error_has_a_status_of_its_kind(error: type[AnswerableError]) -> None:
    """Client errors are 4xx in every API, and only TEI reports two server errors as 4xx."""
    client = issubclass(error, errors.ClientError)
    assert (400 <= Native.status(error) < 500) == client
    assert (400 <= OpenAI.status(error) < 500) == client
    assert 400 <= Tei.status(error) < (500 if client else 600)
    assert TeiOpenAI.status(error) == Tei.status(error)


def test_an_api_names_the_input_that_the_engine_only_counts() -> None:
    """The API adds the field's name and a hint to the engine's message."""
    found = InputTooLongError("has 6 tokens; the model allows 5.", position=1)
    assert (found.message, found.field) == ("Input 1 has 6 tokens; the model allows 5.", None)
    named = found.named("texts[1]", field="texts", hint="Send less.")
    assert type(named) is InputTooLongError
    assert named.field == "texts"
    assert named.message == '"texts[1]" has 6 tokens; the model allows 5. Send less.'
