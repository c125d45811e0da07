"""TEI's `/tokenize`."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedder.http.router import Service
from tests.embedder.calls import post, read
from tests.embedder.small_model import CLS, SEP, WordTokenizer

MakeService = Callable[..., Service]


def test_tokens_are_told_with_their_places(service: Service) -> None:
    """Tokens have id, text, special flag and byte offsets; special tokens have no offsets."""
    (tokens,) = read(post(service, "/tokenize", {"inputs": "ä bc"}))
    first, second = WordTokenizer().encode("ä bc")
    assert tokens == [
        {"id": CLS, "text": "[CLS]", "special": True, "start": None, "stop": None},
        {"id": first, "text": "ä", "special": False, "start": 0, "stop": 2},
        {"id": second, "text": "bc", "special": False, "start": 3, "stop": 5},
        {"id": SEP, "text": "[SEP]", "special": True, "start": None, "stop": None},
    ]


def test_a_list_gives_a_list_for_each(service: Service) -> None:
    """Lists are in the order of the texts, and special tokens can be left out."""
    body = {"inputs": ["a b", "c"], "add_special_tokens": False}
    answer = read(post(service, "/tokenize", body))
    assert [[token["text"] for token in tokens] for tokens in answer] == [["a", "b"], ["c"]]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.text(min_size=1, max_size=30).filter(str.strip))
def test_places_are_bytes_of_the_text(service: Service, text: str) -> None:
    """The bytes between a token's offsets are the token's text."""
    (tokens,) = read(post(service, "/tokenize", {"inputs": text, "add_special_tokens": False}))
    raw = text.encode()
    assert [raw[t["start"] : t["stop"]].decode() for t in tokens] == [t["text"] for t in tokens]


def test_places_are_counted_from_the_prompts_beginning(make_service: MakeService) -> None:
    """The prompt is part of the tokenized text, as in TEI."""
    service = make_service(prompts={"query": "q: "})
    (tokens,) = read(post(service, "/tokenize", {"inputs": "a", "prompt_name": "query"}))
    assert [(token["text"], token["start"]) for token in tokens[1:3]] == [("q:", 0), ("a", 3)]


def test_a_text_over_the_models_limit_is_tokenized_whole(service: Service) -> None:
    """The limit does not apply, so that clients can count the tokens of a long text."""
    assert len(read(post(service, "/tokenize", {"inputs": "w " * 40}))[0]) == 42


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"inputs": ""}, 400, "found an empty string"),
        ({"inputs": []}, 400, "found an empty list"),
        ({"inputs": [1]}, 422, '"inputs[0]" must be a string'),
        ({"inputs": "a" * 4001}, 422, '"inputs" has 4001 characters; at most 4000 are allowed'),
        ({"inputs": ["a", "a" * 4001]}, 422, '"inputs[1]" has 4001 characters'),
        ({"inputs": "a", "truncate": True}, 422, 'unknown: "truncate"'),
    ],
)
def test_errors_are_teis(
    service: Service, body: dict[str, object], status: int, message: str
) -> None:
    """Errors have the statuses and the format of TEI's other routes."""
    error = read(post(service, "/tokenize", body), status)
    assert message in error["error"]
    assert set(error) == {"error", "error_type"}
