"""The API of text-embeddings-inference."""

from typing import Any

import numpy as np
import pytest

from embedder import __version__
from embedder.core.embedding_request import Embeddings, Timings
from embedder.core.engine import Engine
from embedder.http.apis.operation import Call, ServedModel
from embedder.http.apis.tei import timing_headers
from embedder.http.http_types import Request
from embedder.http.router import Router
from embedder.http.telemetry import RequestRecord
from embedder.http.vector_encoding import largest_batch
from tests.embedder.calls import get, post, read
from tests.embedder.small_model import CLS, PROMPTS, SEP, WordTokenizer, manifest_of


@pytest.mark.parametrize("inputs", ["a b", ["a b"], [CLS, *WordTokenizer().encode("a b"), SEP]])
def test_embed_answers_a_bare_list_of_vectors(router, inputs):
    """The response is a list even for one text."""
    answer = read(post(router, "/embed", {"inputs": inputs}))
    assert answer == [read(post(router, "/", {"text": "a b"}))["embedding"]]


def test_the_headers_are_teis(router):
    """Times are in whole milliseconds; characters and tokens are those of the request."""
    headers = post(router, "/embed", {"inputs": ["a b", "é"]}).headers
    assert headers["x-compute-type"] == "cpu+optimized"
    assert headers["x-compute-characters"] == "4"
    assert headers["x-compute-tokens"] == "7"
    times = ("compute", "total", "tokenization", "queue", "inference")
    assert all(headers[f"x-{name}-time"].isdecimal() for name in times)


def test_the_headers_give_each_stage_its_time():
    """Seconds become milliseconds."""
    embeddings = Embeddings(np.zeros((1, 2), np.float32), [3], "space", Timings(2.0, 3.0))
    headers = timing_headers(embeddings, Call({}, Request("POST", "/embed"), RequestRecord("1")))
    assert headers["x-tokenization-time"] == "2000"
    assert headers["x-inference-time"] == "3000"


@pytest.mark.parametrize(
    ("options", "same_as"),
    [
        ({"truncate": True}, "right"),
        ({"truncate": True, "truncation_direction": "Right"}, "right"),
        ({"truncate": True, "truncation_direction": "Left"}, "left"),
        ({"truncate": True, "truncation_direction": "left"}, "left"),
    ],
)
def test_truncation_has_a_direction(router, options, same_as):
    """The direction is accepted in any letter case and defaults to right."""
    text = " ".join(f"w{number}" for number in range(40))
    cut = read(post(router, "/embed", {"inputs": text, **options}))
    assert cut == [read(post(router, "/", {"text": text, "truncate": same_as}))["embedding"]]


def test_what_is_cut_is_renormalised_unless_asked_otherwise(router):
    """`normalize` defaults to true, also with `dimensions`; the space names unscaled vectors."""
    body = {"inputs": "a", "dimensions": 8}
    response = post(router, "/embed", body)
    (vector,) = read(response)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)
    assert response.headers["x-vector-space"].endswith("/8")
    assert read(post(router, "/embed", {**body, "normalize": True})) == [vector]
    unscaled = post(router, "/embed", {**body, "normalize": False})
    assert read(unscaled) == [read(post(router, "/embed", {"inputs": "a"}))[0][:8]]
    assert unscaled.headers["x-vector-space"].endswith("/8/unnormalized")


@pytest.mark.parametrize("body", [{"inputs": "a b"}, {"inputs": ["a", "b"], "normalize": False}])
def test_the_root_answers_teis_requests_as_embed_does(router, body):
    """TEI also serves embed at the root, with the same response, headers and errors."""
    response = post(router, "/", body)
    assert read(response) == read(post(router, "/embed", body))
    assert response.headers["x-compute-type"] == "cpu+optimized"
    assert read(post(router, "/", {**body, "truncate": "yes"}), 422)["error_type"] == "Validation"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"text": "a", "inputs": "b"}, 'unknown: "inputs"'),
        ({"text": 'say "inputs"', "x": 1}, 'unknown: "x"'),
        (b'{"inputs": ', "must be JSON"),
        (b'["inputs"]', "must be a JSON object"),
    ],
)
def test_the_root_is_the_kits_own_otherwise(router, body, message):
    """Errors of all other requests have the format of the kit's own API."""
    error = read(post(router, "/", body), 400)
    assert message in error["error"]
    assert error["request_id"] == "request-1"


def test_a_text_that_says_inputs_is_a_text(router):
    """Only a field named `inputs` selects TEI's API."""
    assert read(post(router, "/", {"text": 'say "inputs"'}))["size"] == 32


@pytest.mark.parametrize("options", [{}, {"wait_for_model": True, "use_gpu": False}])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/", {"inputs": "a"}),
        ("/embed", {"inputs": ["a"]}),
        ("/api/v1/embed", {"inputs": "a"}),
        ("/similarity", {"inputs": {"source_sentence": "a", "sentences": ["b"]}}),
    ],
)
def test_fields_without_an_effect_are_accepted(router, path, body, options):
    """The options of Hugging Face's inference API and empty parameters change no vector."""
    ignored = {"options": options, "parameters": {}}
    with_them, without = (read(post(router, path, {**body, **some})) for some in (ignored, {}))
    if path == "/api/v1/embed":
        with_them, without = with_them["data"], without["data"]
    assert with_them == without


def pair(**inputs: Any) -> dict[str, Any]:
    return {"inputs": {"source_sentence": "a", "sentences": ["b"], **inputs}}


#: A path, the mistake, TEI's status and kind, and a part of the message.
REFUSED: list[tuple[str, Any, int, str, str]] = [
    ("/embed", b"{", 400, "Validation", "must be JSON"),
    ("/embed", {"inputs": []}, 400, "Empty", "found an empty list"),
    ("/embed", {"inputs": ""}, 400, "Empty", "found an empty string"),
    ("/embed", {}, 422, "Validation", '"inputs" is missing'),
    ("/embed", {"inputs": 1}, 422, "Validation", "found the number 1"),
    ("/embed", {"inputs": "a", "dimensions": 0}, 422, "Validation", '"dimensions" must be'),
    ("/embed", {"inputs": "a", "truncate": "yes"}, 422, "Validation", '"truncate" must be'),
    ("/embed", {"inputs": "a", "truncation_direction": "up"}, 422, "Validation", '"Right"'),
    ("/embed", {"inputs": "a", "prompt_name": "query"}, 422, "Validation", "has no prompts"),
    ("/embed", {"inputs": [*map(str, range(50_000))]}, 422, "Validation", "holds 50000 inputs"),
    ("/embed", {"inputs": "w " * 40}, 422, "Validation", 'Send "truncate": true'),
    # A field that would have an effect is never ignored.
    (
        "/embed",
        {"inputs": "a", "parameters": {"truncate": True}},
        422,
        "Validation",
        'A field in "parameters" is unknown: "truncate". Allowed: none.',
    ),
    ("/embed", {"inputs": "a", "parameters": []}, 422, "Validation", "must be an empty object"),
    ("/embed", {"inputs": "a", "options": {"wait": True}}, 422, "Validation", '"options" is unk'),
    ("/embed", {"inputs": "a", "options": {"use_cache": 1}}, 422, "Validation", '"options.use_ca'),
    ("/embed", {"inputs": "a", "timeout": 3}, 422, "Validation", 'A field is unknown: "timeout"'),
    ("/similarity", pair(sentences=[]), 400, "Empty", "found an empty list"),
    ("/similarity", pair(sentences="b"), 422, "Validation", '"inputs.sentences" must be a list'),
    ("/similarity", pair(source_sentence=""), 400, "Empty", '"inputs.source_sentence" must'),
    ("/similarity", {"inputs": {}}, 422, "Validation", '"inputs.source_sentence" is missing'),
    ("/similarity", {"inputs": "a"}, 422, "Validation", '"inputs" must be an object with the fiel'),
    ("/similarity", pair() | {"parameters": {"x": 1}}, 422, "Validation", 'is unknown: "x"'),
    ("/tokenize", {"inputs": ""}, 400, "Empty", "found an empty string"),
    ("/tokenize", {"inputs": []}, 400, "Empty", "found an empty list"),
    ("/tokenize", {"inputs": [1]}, 422, "Validation", '"inputs[0]" must be a string'),
    ("/tokenize", {"inputs": "a" * 4001}, 422, "Validation", '"inputs" has 4001 characters; at m'),
    ("/tokenize", {"inputs": ["a", "a" * 4001]}, 422, "Validation", '"inputs[1]" has 4001 char'),
    ("/tokenize", {"inputs": "a", "truncate": True}, 422, "Validation", 'unknown: "truncate"'),
    ("/decode", {"ids": []}, 400, "Empty", "found an empty list"),
    ("/decode", {"ids": "a"}, 422, "Validation", "a list that is not empty of token ids"),
    ("/decode", {"ids": ["a"]}, 422, "Validation", "must be a token id"),
    ("/decode", {"ids": [1000]}, 422, "Validation", "from 0 to 999"),
]


@pytest.mark.parametrize(("path", "body", "status", "kind", "message"), REFUSED)
def test_a_refusal_has_teis_status_and_kind(*, router, path, body, status, kind, message):
    """They are those of TEI's code; the message names the field by its path."""
    error = read(post(router, path, body), status)
    assert set(error) == {"error", "error_type"}
    assert error["error_type"] == kind
    assert message in error["error"]


def test_prompt_names_and_dtypes_are_taken(make_router):
    """The prompt name is TEI's field, and the number format is an additional field."""
    router = make_router(prompts=PROMPTS)
    body = {"inputs": "a", "prompt_name": "query", "output_dtype": "int8"}
    by_hand = {"text": PROMPTS["query"] + "a", "output_dtype": "int8"}
    assert read(post(router, "/embed", body)) == [read(post(router, "/", by_hand))["embedding"]]


def test_the_compatible_route_has_openais_answer_and_teis_errors(router):
    """Errors are `{"message", "code", "type"}`, as in TEI's code and unlike its schema."""
    response = post(router, "/embeddings", {"input": ["a"], "model": "m"})
    assert response.headers["x-compute-tokens"] == "3"
    assert read(response) == read(post(router, "/v1/embeddings", {"input": ["a"], "model": "m"}))
    error = read(post(router, "/embeddings", {"input": 1}), 422)
    assert set(error) == {"message", "code", "type"}
    assert (error["code"], error["type"]) == (422, "Validation")


def test_similarity_is_the_cosine_of_each(router):
    """Scores are in the order of the sentences, and an identical sentence has score 1."""
    body = {"inputs": {"source_sentence": "a", "sentences": ["b", "a", "c d"]}}
    response = post(router, "/similarity", body)
    vectors = np.array(read(post(router, "/embed", {"inputs": ["a", "b", "a", "c d"]})))
    assert read(response) == pytest.approx((vectors[1:] @ vectors[0]).tolist(), abs=1e-6)
    assert read(response)[1] == pytest.approx(1, abs=1e-6)
    assert response.headers["x-compute-characters"] == "6"


def test_similarity_takes_parameters(make_router):
    """Prompt and truncation apply to all sentences."""
    router = make_router(prompts=PROMPTS)
    inputs = {"source_sentence": "a", "sentences": ["b " * 40]}
    error = read(post(router, "/similarity", {"inputs": inputs}), 422)
    assert '"inputs[1]" has 42 tokens' in error["error"]
    parameters = {"truncate": True, "truncation_direction": "left", "prompt_name": "query"}
    answer = read(post(router, "/similarity", {"inputs": inputs, "parameters": parameters}))
    vectors = np.array(read(post(router, "/embed", {"inputs": ["a", "b " * 40], **parameters})))
    assert answer == pytest.approx([float(vectors[1] @ vectors[0])], abs=1e-6)


def test_tokens_have_ids_and_the_vocabularys_texts(router):
    """TEI's `start` and `stop` are there for its clients, and null."""
    (tokens,) = read(post(router, "/tokenize", {"inputs": "ä bc"}))
    umlaut, word = WordTokenizer().encode("ä bc")
    assert tokens == [
        {"id": CLS, "text": "[CLS]", "special": True, "start": None, "stop": None},
        {"id": umlaut, "text": f"word{umlaut}", "special": False, "start": None, "stop": None},
        {"id": word, "text": f"word{word}", "special": False, "start": None, "stop": None},
        {"id": SEP, "text": "[SEP]", "special": True, "start": None, "stop": None},
    ]


def test_a_list_gives_a_list_for_each(router):
    """Lists are in the order of the texts, and special tokens can be left out."""
    answer = read(post(router, "/tokenize", {"inputs": ["a b", "c"], "add_special_tokens": False}))
    ids = [[token["id"] for token in tokens] for tokens in answer]
    assert ids == [WordTokenizer().encode("a b"), WordTokenizer().encode("c")]
    # Clients count the tokens of a text, so the model's limit does not apply.
    assert len(read(post(router, "/tokenize", {"inputs": "w " * 40}))[0]) == 42


def test_the_prompt_is_tokenized_too(make_router):
    """The prompt is part of the tokenized text, as in TEI."""
    router = make_router(prompts={"query": "q: "})
    (tokens,) = read(post(router, "/tokenize", {"inputs": "a", "prompt_name": "query"}))
    assert [token["id"] for token in tokens[1:3]] == WordTokenizer().encode("q: a")


class DecodingTokenizer(WordTokenizer):
    """A tokenizer that can also decode ids, as the library's tokenizer can."""

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        """Return the text of the tokens."""
        special = {CLS, SEP} if skip_special_tokens else set()
        return " ".join(self.token(token_id) for token_id in ids if token_id not in special)


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ({"ids": [CLS, 7, SEP]}, ["word7"]),
        ({"ids": [[7, 8], [9]]}, ["word7 word8", "word9"]),
        ({"ids": [CLS, 7, SEP], "skip_special_tokens": False}, ["[CLS] word7 [SEP]"]),
    ],
)
def test_ids_become_texts(session, body, texts):
    """The response is a list even for one text; special tokens are left out by default."""
    router = Router(ServedModel(Engine(manifest_of(), DecodingTokenizer(), session)))
    assert read(post(router, "/decode", body)) == texts


def test_a_tokenizer_that_only_encodes_says_so(router):
    """The error has TEI's status 424 and states the reason."""
    assert read(post(router, "/decode", {"ids": [7]}), 424) == {
        "error": "Backend error: `decode` is not available: the compiled tokenizer only encodes",
        "error_type": "Backend",
    }


def test_info_has_teis_fields(router):
    """All fields of TEI's `Info` are present, with the values of this router."""
    info = read(get(router, "/info"))
    assert info["model_id"] == info["served_model_name"] == "example/small-model"
    assert info["model_sha"] == "abc123"
    assert info["model_dtype"] == "fp32"
    assert set(info["model_type"]) == {"embedding"}
    assert info["max_concurrent_requests"] == info["tokenization_workers"] == 1
    assert info["max_input_length"] == 16
    assert info["max_batch_requests"] is None
    assert info["auto_truncate"] is False
    assert info["version"] == __version__


def test_info_tells_our_limits(make_router):
    """The response has the space, dimensions, prompts, and the enforced batch limits by format."""
    router = make_router(prompts=PROMPTS, default_prompt="query", index=["a", "b"])
    info = read(get(router, "/info"))
    assert info["vector_space"] == "small-model@abc123/fp32/0123456789ab/32"
    assert info["dimensions"] == [32, 16, 8]
    assert info["prompts"] == list(PROMPTS)
    assert info["default_prompt"] == "query"
    assert info["max_characters"] == 4000
    assert info["max_request_bytes"] == 6 * 1024 * 1024
    assert info["index_entries"] == 2
    assert info["max_batch_sizes"]["16"]["int8"]["base64"] == largest_batch(16, "int8", "base64")
    assert info["max_client_batch_size"] == info["max_batch_sizes"]["32"]["float"]["float"]


def test_the_batch_that_is_told_always_fits(make_router, session):
    """A client can rely on the reported batch size."""
    session.dimensions = 1024
    router = make_router(dimensions=(1024,))
    size = read(get(router, "/info"))["max_client_batch_size"]
    texts = [f"w{number % 50}" for number in range(size)]
    assert len(read(post(router, "/embed", {"inputs": texts}))) == size
