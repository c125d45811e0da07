"""TEI's `/decode`."""

import pytest

from embedder.core.engine import Engine
from embedder.http.apis.operation import Model
from embedder.http.router import Service
from tests.embedder.calls import post, read
from tests.embedder.small_model import CLS, SEP, HashSession, WordTokenizer, manifest_of


class DecodingTokenizer(WordTokenizer):
    """A tokenizer that can also decode ids, as the library's tokenizer can."""

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        """Return the text of the tokens."""
        special = {CLS, SEP} if skip_special_tokens else set()
        return " ".join(self.token(token_id) for token_id in ids if token_id not in special)


@pytest.fixture
def decoding(session: HashSession) -> Service:
    """Return a service whose tokenizer can decode."""
    return Service(Model(Engine(manifest_of(), DecodingTokenizer(), session)))


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ({"ids": [CLS, 7, SEP]}, ["word7"]),
        ({"ids": [[7, 8], [9]]}, ["word7 word8", "word9"]),
        ({"ids": [CLS, 7, SEP], "skip_special_tokens": False}, ["[CLS] word7 [SEP]"]),
    ],
)
def test_ids_become_texts(decoding: Service, body: object, texts: list[str]) -> None:
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
    decoding: Service, body: object, status: int, message: str
) -> None:
    """Empty lists, texts and ids outside the vocabulary are refused."""
    assert message in read(post(decoding, "/decode", body), status)["error"]


def test_a_tokenizer_that_only_encodes_says_so(service: Service) -> None:
    """The error has TEI's status 424 and states the reason."""
    error = read(post(service, "/decode", {"ids": [7]}), 424)
    assert error == {
        "error": "Backend error: `decode` is not available: the compiled tokenizer only encodes",
        "error_type": "Backend",
    }
