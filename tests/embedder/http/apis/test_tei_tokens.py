"""TEI's `/tokenize` and `/decode`."""

from collections.abc import Callable

import pytest

from embedder.core.engine import Engine
from embedder.http.apis.operation import Model
from embedder.http.router import Router
from tests.embedder.calls import post, read
from tests.embedder.small_model import CLS, SEP, HashSession, WordTokenizer, manifest_of

MakeRouter = Callable[..., Router]


def test_tokens_have_ids_and_the_vocabularys_texts(router: Router) -> None:
    """TEI's `start` and `stop` are there for its clients, and null."""
    (tokens,) = read(post(router, "/tokenize", {"inputs": "ä bc"}))
    first, second = WordTokenizer().encode("ä bc")
    assert tokens == [
        {"id": CLS, "text": "[CLS]", "special": True, "start": None, "stop": None},
        {"id": first, "text": f"word{first}", "special": False, "start": None, "stop": None},
        {"id": second, "text": f"word{second}", "special": False, "start": None, "stop": None},
        {"id": SEP, "text": "[SEP]", "special": True, "start": None, "stop": None},
    ]


def test_a_list_gives_a_list_for_each(router: Router) -> None:
    """Lists are in the order of the texts, and special tokens can be left out."""
    body = {"inputs": ["a b", "c"], "add_special_tokens": False}
    answer = read(post(router, "/tokenize", body))
    ids = [[token["id"] for token in tokens] for tokens in answer]
    assert ids == [WordTokenizer().encode("a b"), WordTokenizer().encode("c")]


def test_the_prompt_is_tokenized_too(make_router: MakeRouter) -> None:
    """The prompt is part of the tokenized text, as in TEI."""
    router = make_router(prompts={"query": "q: "})
    (tokens,) = read(post(router, "/tokenize", {"inputs": "a", "prompt_name": "query"}))
    assert [token["id"] for token in tokens[1:3]] == WordTokenizer().encode("q: a")


def test_a_text_over_the_models_limit_is_tokenized_whole(router: Router) -> None:
    """The limit does not apply, so that clients can count the tokens of a long text."""
    assert len(read(post(router, "/tokenize", {"inputs": "w " * 40}))[0]) == 42


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
    router: Router, body: dict[str, object], status: int, message: str
) -> None:
    """Errors have the statuses and the format of TEI's other routes."""
    error = read(post(router, "/tokenize", body), status)
    assert message in error["error"]
    assert set(error) == {"error", "error_type"}


class DecodingTokenizer(WordTokenizer):
    """A tokenizer that can also decode ids, as the library's tokenizer can."""

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        """Return the text of the tokens."""
        special = {CLS, SEP} if skip_special_tokens else set()
        return " ".join(self.token(token_id) for token_id in ids if token_id not in special)


@pytest.fixture
def decoding(session: HashSession) -> Router:
    """Return a router whose tokenizer can decode."""
    return Router(Model(Engine(manifest_of(), DecodingTokenizer(), session)))


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ({"ids": [CLS, 7, SEP]}, ["word7"]),
        ({"ids": [[7, 8], [9]]}, ["word7 word8", "word9"]),
        ({"ids": [CLS, 7, SEP], "skip_special_tokens": False}, ["[CLS] word7 [SEP]"]),
    ],
)
def test_ids_become_texts(decoding: Router, body: object, texts: list[str]) -> None:
    """The response is a list even for one text; special tokens are left out by default."""
    assert read(post(decoding, "/decode", body)) == texts


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"ids": []}, 400, "found an empty list"),
        ({"ids": "a"}, 422, "a list that is not empty of token ids"),
        ({"ids": ["a"]}, 422, "must be a token id"),
        ({"ids": [1000]}, 422, "from 0 to 999"),
    ],
)
def test_what_is_no_list_of_ids_is_refused(
    decoding: Router, body: object, status: int, message: str
) -> None:
    """Empty lists, texts and ids outside the vocabulary are refused."""
    assert message in read(post(decoding, "/decode", body), status)["error"]


def test_a_tokenizer_that_only_encodes_says_so(router: Router) -> None:
    """The error has TEI's status 424 and states the reason."""
    error = read(post(router, "/decode", {"ids": [7]}), 424)
    assert error == {
        "error": "Backend error: `decode` is not available: the compiled tokenizer only encodes",
        "error_type": "Backend",
    }
