"""The kit's own API."""

import json

import pytest
from jsonschema import Draft202012Validator

from embedder.core.engine import Engine
from tests.embedder.calls import get, post, read
from tests.embedder.small_model import PROMPTS, HashSession, WordTokenizer, manifest_of, router_of

SPACE = "small-model@abc123/fp32/0123456789ab"


def test_texts_get_embeddings_in_their_order(router):
    """Each text of a batch gets the same vector as when it is sent alone, in the same order."""
    texts = ["a", "b c d e f", "b c", "a"]
    answer = read(post(router, "/", {"texts": texts}))
    alone = [read(post(router, "/", {"text": text}))["embedding"] for text in texts]
    assert answer["embeddings"] == alone
    assert "embedding" not in answer


class Lacking(WordTokenizer):
    """A tokenizer whose vocabulary lacks a word."""

    unknown = WordTokenizer().encode("xyz")[0]


def test_texts_that_the_model_does_not_know():
    """The answer of each operation has a warning with their places, as the document says."""
    router = router_of(Engine(manifest_of(), Lacking(), HashSession()))
    document = read(get(router, "/openapi.json"))
    for path, body, positions in (
        ("/", {"text": "xyz"}, [0]),
        ("/", {"texts": ["a", "xyz xyz b", "xyz b", "xyz"]}, [1, 3]),
        ("/similar", {"text": "xyz"}, [0]),
        ("/search", {"query": "xyz xyz a"}, [0]),
    ):
        answer = read(post(router, path, body))
        (warning,) = answer["warnings"]
        assert (warning["code"], warning["inputs"]) == ("unknown_tokens", positions)
        assert "unknown to the model" in warning["message"]
        answers = document["paths"][path]["post"]["responses"]["200"]["content"]
        schema = answers["application/json"]["schema"]
        Draft202012Validator({**schema, "components": document["components"]}).validate(answer)
        assert "warnings" in json.dumps(schema)
    assert "warnings" not in read(post(router, "/", {"text": "xyz a"}))
    assert "warnings" not in read(post(router, "/v1/embeddings", {"input": "xyz"}))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"size": 32}, "found neither"),
        ({"text": "a", "texts": ["b"]}, "found both"),
        ({"text": "a", "size": 384}, '"size" must be one of 32, 16, 8; found the number 384.'),
        ({"text": ["a"]}, "found a list of 1 items"),
        ({"texts": "a"}, '"texts" must be a list of strings that is not empty; found a string'),
        ({"texts": [["a"]]}, r'"texts[0]" must be a string'),
        ({"text": "a", "truncate": "up"}, 'one of "refuse", "right", "left"; found a string of 2'),
        ({"text": "a", "truncate": 1}, "found the number 1"),
        ({"text": "a", "prompt_name": "query"}, "this model has no prompts"),
        ({"text": "a", "title": "T"}, '"title" is allowed with a prompt that has a place for it'),
        ({"text": "a", "normalize": False}, 'unknown: "normalize". Allowed: "text", "texts",'),
    ],
)
def test_a_bad_request_says_why(router, body, message):
    """The error names the problem, the allowed values and the value found, and has a request id."""
    error = read(post(router, "/", body), 400)
    assert message in error["error"]
    assert error["code"] == "invalid_field"
    assert error["request_id"] == "request-1"


def test_errors_have_a_code_and_a_field(router):
    """The error has a machine-readable code and field in addition to the message."""
    assert read(post(router, "/", {"text": " "}), 400) == {
        "error": '"text" must be a string with at most 4000 characters, not all of them blank; '
        "found 1 blank characters.",
        "code": "empty_input",
        "field": "text",
        "request_id": "request-1",
    }


def test_a_text_over_the_limit_is_refused_unless_truncation_is_asked_for(router):
    """The error explains how to request truncation, and a request that follows it succeeds."""
    text = "w " * 40
    error = read(post(router, "/", {"text": text}), 413)
    assert error["code"] == "input_too_long"
    assert "has 42 tokens" in error["error"]
    assert "allows 16" in error["error"]
    assert 'Send "truncate": true (or "right", "left")' in error["error"]
    for truncate in (True, "right", "left"):
        assert read(post(router, "/", {"text": text, "truncate": truncate}))["tokens"] == 16
    for truncate in (False, "refuse"):
        read(post(router, "/", {"text": text, "truncate": truncate}), 413)


def test_the_setting_decides_where_the_request_does_not(make_router):
    """A deployment can truncate by default, and a request can still turn truncation off."""
    router = make_router(truncate="left")
    text = " ".join(f"w{number}" for number in range(40))
    cut = read(post(router, "/", {"text": text}))["embedding"]
    assert cut == read(post(router, "/", {"text": text, "truncate": "left"}))["embedding"]
    assert cut != read(post(router, "/", {"text": text, "truncate": "right"}))["embedding"]
    read(post(router, "/", {"text": text, "truncate": False}), 413)


@pytest.mark.parametrize(
    ("asked", "prompt"),
    [
        ({"prompt_name": "query"}, "query"),
        ({"input_type": "query"}, "query"),
        ({"input_type": "search_query"}, "query"),
        ({"input_type": "document"}, "document"),
        ({"input_type": "search_document"}, "document"),
        ({"input_type": "clustering"}, "Clustering"),
    ],
)
def test_a_prompt_is_chosen_by_its_name_or_by_what_the_text_is(make_router, asked, prompt):
    """The prompt can be given by the model's name for it, or by Voyage's or Cohere's input type."""
    router = make_router(prompts=PROMPTS)
    by_hand = read(post(router, "/", {"text": PROMPTS[prompt] + "a b"}))
    assert read(post(router, "/", {"text": "a b", **asked})) == by_hand


def test_a_query_of_a_model_without_prompts_is_the_text_itself(router):
    """Clients always send the field, and a model without prompts was trained on bare texts."""
    plain = read(post(router, "/", {"text": "a"}))
    assert read(post(router, "/", {"text": "a", "input_type": "query"})) == plain
    error = read(post(router, "/", {"text": "a", "input_type": "clustering"}), 400)
    assert 'one of "query", "document", "search_query", "search_document"' in error["error"]


def test_the_prompt_may_be_chosen_once(make_router):
    """Two fields that select different prompts are refused."""
    body = {"text": "a", "prompt_name": "query", "input_type": "document"}
    error = read(post(make_router(prompts=PROMPTS), "/", body), 400)
    assert 'it was chosen by "prompt_name" and "input_type"' in error["error"]


def test_similar_answers_the_nearest_entries(make_router):
    """Results are sorted by score, and an indexed text matches itself best."""
    texts = [f"entry {number}" for number in range(30)]
    router = make_router(index=texts)
    answer = read(post(router, "/similar", {"text": "entry 7", "num_results": 5}))
    results = answer["results"]
    assert results[0] == {
        "text": "entry 7",
        "index": 7,
        "id": "7",
        "score": pytest.approx(1, abs=1e-6),
        "metadata": {},
    }
    assert [result["score"] for result in results] == sorted(
        (result["score"] for result in results), reverse=True
    )
    assert all(texts[result["index"]] == result["text"] for result in results)
    assert len(results) == 5
    assert answer["vector_space"] == f"{SPACE}/32"
    assert len(read(post(router, "/similar", {"text": "entry 7"}))["results"]) == 10


def test_similar_asks_as_a_query(make_router):
    """The search text gets the query prompt by default."""
    prompts = {"query": "entry "}
    router = make_router(prompts=prompts, index=["entry 1", "entry 2", "1", "2"])
    assert read(post(router, "/similar", {"text": "2"}))["results"][0]["text"] == "entry 2"


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"top": 0}, 400, '"top" must be a whole number from 1 to 1000'),
        ({"num_results": 1001}, 400, '"num_results" must be a whole number from 1 to 1000'),
        ({"top": 2, "num_results": 2}, 400, "which mean the same; found both"),
        ({"filter": {"language": "en"}}, 400, "the index has no metadata"),
        # Not a list, so it has no position.
        ({"text": "w " * 40}, 413, '"text" has 42 tokens'),
    ],
)
def test_similar_refuses_by_name(make_router, change, status, message):
    """A number beyond the bounds, a filter of a local index, and a text over the limit."""
    router = make_router(index=["a", "b", "c"])
    assert message in read(post(router, "/similar", {"text": "a", **change}), status)["error"]
    assert len(read(post(router, "/similar", {"text": "a", "top": 2}))["results"]) == 2
