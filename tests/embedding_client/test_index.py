"""Searching an index of S3 Vectors: through an endpoint that has it, and directly."""

import json
import re
from collections.abc import Iterator

import numpy as np
import pytest

from embedding_client import EmbeddingClient, Match, VectorSpaceError
from embedding_client._index import SPACE_TAG, VectorIndex
from tests.embedding_client.answers import asynchronously
from tests.fixtures.s3_vectors.indexes import Index
from tests.fixtures.s3_vectors.server import CREDENTIALS, Failure, LocalS3Vectors, local_s3_vectors
from tools.local_endpoint.endpoint import endpoint

FACTS = ["Water boils at 100 degrees.", "A violin\nhas four strings.", "Rain is wet."]
QUESTION = "Which instrument is played with a bow?"


@pytest.fixture(scope="module")
def s3_vectors() -> Iterator[LocalS3Vectors]:
    with local_s3_vectors() as state, pytest.MonkeyPatch.context() as environment:
        for name, value in CREDENTIALS.items():
            environment.setenv(name, value)
        environment.setenv("AWS_ENDPOINT_URL_S3VECTORS", state.url)
        environment.setenv("AWS_MAX_ATTEMPTS", "1")
        yield state


@pytest.fixture(scope="module")
def index(running, s3_vectors) -> Index:
    """Return an index of three facts, embedded by the endpoint."""
    with EmbeddingClient(running.url) as client:
        vectors = client.embed(FACTS, input_type="document")
        numbers = [{"number": number} for number in range(len(FACTS))]
        return s3_vectors.load("facts", vectors, client.vector_space, FACTS, numbers)


@pytest.fixture(scope="module")
def searched(minilm_artifact, s3_vectors, index) -> Iterator[str]:
    """Return the URL of an endpoint that searches the index, in AWS's runtime."""
    url, _ = endpoint(minilm_artifact.folder, vector_index=index.arn)
    with url:
        yield url.url


@pytest.fixture
def embed(command, running, monkeypatch):
    monkeypatch.setenv("EMBEDDING_URL", running.url)
    return command


def test_an_endpoint_searches_its_index(searched):
    """A match has text, id, score and metadata, and no position."""
    with EmbeddingClient(searched) as client:
        best, *others = client.search(QUESTION)
        assert best == Match(
            text=FACTS[1], index=None, score=best.score, id="id-1", metadata={"number": 1}
        )
        assert 0 < best.score < 1
        assert len(others) == 2
        assert client.similar(QUESTION, num_results=1) == [best]


def test_a_filter_reaches_the_index(searched):
    """Only matches with the metadata are returned, by either client."""
    where = {"$or": [{"number": 0}, {"number": {"$gt": 1}}]}
    with EmbeddingClient(searched) as client:
        matches = client.search(QUESTION, top=5, filter=where)
    assert {match.id for match in matches} == {"id-0", "id-2"}
    asked = asynchronously(lambda c: c.search(QUESTION, top=5, filter=where), searched)
    assert asked == matches


def test_an_index_is_searched_directly(embed, index, searched):
    """With an ARN, the endpoint only embeds, and the result is that of its own search."""
    code, out, err = embed("search", index.arn, QUESTION, "--top", "2")
    assert (code, err) == (0, "")
    assert [line[6:] for line in out.splitlines()] == [
        "  A violin has four strings.",
        "  " + out.splitlines()[1][8:],
    ]
    direct = embed("search", index.arn, QUESTION, "--json")[1]
    through = embed("search", QUESTION, "--url", searched, "--json")[1]
    pairs = zip(direct.splitlines(), through.splitlines(), strict=True)
    for one, other in ((json.loads(a), json.loads(b)) for a, b in pairs):
        assert one.pop("score") == pytest.approx(other.pop("score"), abs=1e-6)
        assert one == other


def test_a_hybrid_search_of_an_index_is_that_of_s3_vectors(embed, index, searched):
    """Directly and by the endpoint; an index without full-text search refuses it."""
    direct = ("search", index.arn, "a violin", "--mode", "hybrid", "--json")
    code, _, err = embed(*direct)
    assert code == 1
    assert "The metadata key text is not searchable" in err
    index.text_search["text"] = "ACTIVE"
    through = ("search", "a violin", "--mode", "hybrid", "--url", searched, "--json")
    found = [embed(*arguments)[1].splitlines() for arguments in (direct, through)]
    index.text_search.clear()
    one, other = ([json.loads(line) for line in lines] for lines in found)
    assert one[0]["id"] == "id-1"
    assert [(match["id"], match["score"]) for match in one] == [
        (match["id"], match["score"]) for match in other
    ]
    for option in ("--mode=sparse", "--rerank", "--candidates=5"):
        code, _, err = embed("search", index.arn, "a violin", option)
        assert (code, "with INDEX; allowed: without INDEX" in err) == (2, True)


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ({"number": 9}, "no results: no entry matches the filter"),
        ({"nummer": {"$gte": 1}}, "no entry has 'nummer', .*without it has number"),
        ({"$and": [{"number": 1}, {"$or": [{"a": 1}, {"b": 2}]}]}, "no entry has 'a' or 'b'"),
    ],
)
def test_a_search_without_results_says_why(*, embed, index, searched, direct, where, reason):
    """On standard error: a key that no entry has may be misspelled."""
    asked = ("search", *((index.arn,) if direct else ()), QUESTION)
    options = ("--filter", json.dumps(where), *(() if direct else ("--url", searched)))
    code, out, err = embed(*asked, *options)
    assert (code, out, err.count("\n")) == (0, "", 1)
    assert re.search(reason, err)


def test_a_filter_is_json(embed, index):
    """A filter is passed on directly, and something else than an object is an error."""
    code, out, _ = embed("search", index.arn, QUESTION, "--filter", '{"number": 2}', "--json")
    assert (code, [json.loads(line)["id"] for line in out.splitlines()]) == (0, ["id-2"])
    for text, message in (("{", "--filter must be JSON: "), ("3", "must be a JSON object")):
        code, _, err = embed("search", QUESTION, "--filter", text)
        assert (code, message in err, '{"year": {"$gte": 2020}}' in err) == (2, True, True)


def test_more_matches_than_a_page_are_collected(running, s3_vectors):
    """The pages of a query are followed up to the number of matches."""
    with EmbeddingClient(running.url) as client:
        client.embed(["a"])
        vectors = np.random.default_rng(1).standard_normal((1100, running.dimensions))
        made = s3_vectors.load("many", vectors, client.vector_space, ["a text"] * 1100)
        matches = VectorIndex(made.arn).search(client, "a", top=1050)
    assert len({match.id for match in matches}) == 1050
    scores = [match.score for match in matches]
    assert scores == sorted(scores, reverse=True)


def test_an_index_without_texts_prints_its_ids(embed, running, s3_vectors, index):
    """An index may be loaded without texts."""
    made = s3_vectors.create("bare", running.dimensions, tags=index.tags)
    made.put([{"key": "k", "data": {"float32": [1.0] * running.dimensions}}])
    assert embed("search", made.arn, QUESTION)[1].endswith("  k\n")


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ("other@1/fp32/x/384", "Vectors of two spaces cannot be compared"),
        ("other@1/fp32/x/7", "the endpoint's model has no vectors of 7 dimensions"),
    ],
)
def test_a_foreign_index_is_refused(embed, running, s3_vectors, space, message):
    """The vectors of an index are compared only with the same model's, also by the command."""
    made = s3_vectors.create("foreign", running.dimensions, tags={SPACE_TAG: space})
    search = VectorIndex(made.arn)
    with (
        EmbeddingClient(running.url, vector_space=search.vector_space) as client,
        pytest.raises(VectorSpaceError, match=message),
    ):
        search.search(client, QUESTION, top=1)
    code, _, err = embed("search", made.arn, QUESTION)
    assert (code, message in err) == (1, True)


def test_an_index_without_a_vector_space_is_refused(embed, s3_vectors, running):
    """The error says how to load it."""
    made = s3_vectors.create("empty", running.dimensions)
    code, _, err = embed("search", made.arn, QUESTION)
    assert code == 1
    assert "has no tag embedding-kit:vector-space" in err
    assert "docs/search.md says how" in err


def test_aws_errors_are_the_clients_own(embed, index, s3_vectors):
    """The command prints AWS's message, and works again once the fault is gone."""
    s3_vectors.failures = [Failure(403, "AccessDeniedException")]
    code, _, err = embed("search", index.arn, QUESTION)
    assert (code, err) == (1, "error: AWS refused: secret internals\n")
    assert embed("search", index.arn, QUESTION)[0] == 0


@pytest.mark.parametrize("arn", ["arn:aws:s3:::bucket", "arn:aws:s3vectors:x:1:bucket/b"])
def test_an_index_is_named_by_its_arn(embed, arn):
    """The error has an example of an ARN."""
    code, _, err = embed("search", arn, QUESTION)
    assert code == 2
    assert "The index must be given by its ARN, such as arn:aws:s3vectors:" in err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["search", "how", "often"], "Put a text with spaces in quotes: embed search 'how often'"),
        (
            ["search", "how", "often", "do", "I"],
            "arguments: do I. Put a text with spaces in quotes",
        ),
        (["rerank", "how", "often", "facts.txt"], "facts.txt. Put a text with spaces in quotes"),
        (["search", "how often", "--tops", "3"], "unrecognized arguments: --tops 3\n"),
    ],
)
def test_a_text_without_quotes_is_refused(embed, words, hint):
    """The shell divides it; only words get the hint, and the usage is that of the command."""
    code, _, err = embed(*words)
    assert (code, hint in err) == (2, True)
    assert "usage" not in err or f"usage: embed {words[0]} " in err
