"""The routes of a classifier: the kit's own, infinity's, TEI's, and Hugging Face's at the root."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from openapi_spec_validator import validate

from embedder.application import build_router
from embedder.core.artifact import Artifact
from embedder.core.classifier import Classifier
from embedder.core.errors import SettingsError
from embedder.core.settings import EmbedderSettings
from embedder.http.router import Router
from tests.embedder.calls import get, post, read
from tests.fixtures.small_artifact import small_artifact
from tests.model_compiler.goldens.reranker_models import write_reranker

LONG = "hello world " * 30
PAIR = ("parse the date", "hello")
#: The forms of TEI's documentation, with what they stand for.
FORMS: list[tuple[Any, list[Any]]] = [
    ("hello world", ["hello world"]),
    (["hello world"], ["hello world"]),
    ([*PAIR], [PAIR]),
    ([["hello world"]], ["hello world"]),
    ([["x"], [*PAIR], ["x"]], ["x", PAIR, "x"]),
]


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return small_artifact(write_reranker(tmp_path_factory.mktemp("classifier") / "m", labels=3))


@pytest.fixture(scope="module")
def router(artifact: Artifact) -> Router:
    return build_router(EmbedderSettings(artifact=str(artifact.folder), mcp=True))


def labels_of(
    router: Router, inputs: list[Any], *, raw_scores: bool = False
) -> list[list[dict[str, Any]]]:
    """Return the labels that the model itself gives inputs, the highest score first."""
    classifier = router.model.loaded
    assert isinstance(classifier, Classifier)
    labeled = []
    for row in classifier.predict(inputs, raw=raw_scores).scores.tolist():
        pairs = zip(row, classifier.scoring.labels, strict=True)
        labeled.append([{"score": score, "label": name} for score, name in sorted(pairs)[::-1]])
    return labeled


@pytest.mark.parametrize("options", [{}, {"raw_scores": True}])
@pytest.mark.parametrize(("inputs", "meant"), FORMS)
@pytest.mark.parametrize("path", ["/predict", "/"])
def test_the_forms_of_tei(router, path, inputs, meant, options):
    """A batch is answered with a list of lists, and a text or a pair with the labels alone."""
    response = post(router, path, {"inputs": inputs, **options})
    is_batch = isinstance(inputs, list) and isinstance(inputs[0], list)
    expected = labels_of(router, meant, **options)
    assert read(response) == (expected if is_batch else expected[0])
    assert response.headers["x-label-space"] == router.model.loaded.manifest.space
    assert "x-vector-space" not in response.headers
    assert int(response.headers["x-compute-characters"]) == sum(
        len(text) if isinstance(text, str) else sum(map(len, text)) for text in meant
    )


def test_the_kits_own_form(router):
    """A text has `classification`, several have `classifications`, and `top_k` keeps the best."""
    texts = ["hello world", "x"]
    expected, space = labels_of(router, texts), router.model.loaded.manifest.space
    answer = read(post(router, "/classify", {"texts": texts}))
    assert answer == {"classifications": expected, "tokens": 7, "label_space": space}
    body = {"text": texts[0], "top_k": 1, "raw_scores": True}
    answer = read(post(router, "/classify", body))
    assert answer["classification"] == labels_of(router, texts[:1], raw_scores=True)[0][:1]


def test_infinitys_form(router):
    """`input` is answered by infinity's `data`, with its errors in OpenAI's form."""
    response = post(router, "/classify", {"input": ["x", "hello"], "model": "any", "text": None})
    answer = read(response)
    assert answer.pop("created") > 1_700_000_000
    assert answer == {
        "id": response.headers["x-request-id"],
        "object": "classify",
        "model": "m",
        "data": labels_of(router, ["x", "hello"]),
        "usage": {"prompt_tokens": 6, "total_tokens": 6},
        "label_space": router.model.loaded.manifest.space,
    }
    error = read(post(router, "/classify", {"input": ["x", LONG]}), 400)["error"]
    assert error["message"].startswith('"input[1]" has 62 tokens')
    assert error["param"] == "input"


def test_hugging_faces_parameters(router):
    """The labels are in a list; a function replaces the model's own, and `none` gives logits."""
    raw = np.array([entry["score"] for entry in labels_of(router, ["x"], raw_scores=True)[0]])
    functions = {
        "none": raw,
        "sigmoid": 1 / (1 + np.exp(-raw)),
        "softmax": np.exp(raw) / np.exp(raw).sum(),
        None: np.exp(raw) / np.exp(raw).sum(),
    }
    for function, scores in functions.items():
        body = {"inputs": "x", "parameters": {"function_to_apply": function, "top_k": 2}}
        (labels,) = read(post(router, "/", body))
        assert [entry["score"] for entry in labels] == pytest.approx(scores[:2], abs=1e-6)
    many = read(post(router, "/", {"inputs": "x", "parameters": {"top_k": 999}}))
    assert many == labels_of(router, ["x"])
    absent = read(post(router, "/", {"inputs": "x", "parameters": None}))
    assert absent == labels_of(router, ["x"])[0]


def test_equal_scores_are_ordered_by_their_logits(router, monkeypatch):
    """The label with the largest logit is first where all scores are 1 in float32."""
    order = [entry["label"] for entry in read(post(router, "/predict", {"inputs": "hello"}))]
    monkeypatch.setattr(Classifier, "activated", lambda _, logits: np.ones_like(logits))
    again = read(post(router, "/predict", {"inputs": "hello"}))
    assert again == [{"score": 1.0, "label": label} for label in order]


BAD: list[tuple[str, dict[str, Any], int, str]] = [
    ("/predict", {"inputs": ["a", "b", "c"]}, 422, '"inputs" must be a string, a list of one or'),
    ("/predict", {"inputs": []}, 422, "found a list of 0 items"),
    ("/predict", {"inputs": [["a"], "b"]}, 422, '"inputs[1]" must be a string, a list of one'),
    ("/predict", {"inputs": [["a"], ["b", 1]]}, 422, '"inputs[1][1]" must be a string'),
    ("/predict", {"inputs": [["a"], ["b", " "]]}, 400, '"inputs[1][1]" must be a string'),
    ("/predict", {"inputs": [["a"], [LONG]]}, 422, '"inputs[1]" has 62 tokens'),
    (
        "/predict",
        {"inputs": [["a"]] * 10_001},
        422,
        "At most 10000 inputs are allowed in one request; found 10001",
    ),
    ("/predict", {"inputs": "a", "top_k": 1}, 422, 'unknown: "top_k"'),
    ("/", {"inputs": "a", "parameters": {"top_k": 0}}, 422, "whole number from 1 to 1000000"),
    ("/classify", {"text": "a", "top_k": -1}, 400, '"top_k" must be a whole number from 1'),
    ("/", {"inputs": ["a"], "parameters": {}}, 422, '"inputs" must be a string with'),
    ("/", {"inputs": "a", "parameters": {"padding": 1}}, 422, 'unknown: "padding"'),
    ("/", {"inputs": "a", "parameters": {"function_to_apply": "tanh"}}, 422, 'found "tanh"'),
    ("/", {"text": "a"}, 424, 'sparse encoder takes "text"; found a classifier, which labels it'),
    ("/", {"texts": ["a"], "size": 8}, 424, "POST /classify"),
    ("/classify", {}, 400, "found neither"),
    ("/classify", {"text": "a", "texts": ["a"]}, 400, "found both"),
    ("/classify", {"text": LONG}, 413, '"text" has 62 tokens'),
    ("/classify", {"texts": ["a", LONG]}, 413, '"texts[1]" has 62 tokens'),
    ("/classify", {"texts": ["a", [*PAIR]]}, 400, '"texts[1]" must be a string'),
    ("/rerank", {"query": "a", "texts": ["b"]}, 404, "A reranker serves it."),
    ("/embed", {"inputs": "a"}, 404, "of a classifier. Served: POST /, GET /health, POST /class"),
    ("/v1/embeddings", {"input": "a"}, 404, "An embedding model serves it."),
    ("/tokenize", {"inputs": "a"}, 404, "An embedding model or a sparse encoder serves it."),
]


@pytest.mark.parametrize(("path", "body", "status", "message"), BAD)
def test_bad_input_is_named(router, path, body, status, message):
    """An error names the field with the place of the text, or what serves the request."""
    error = read(post(router, path, body), status)["error"]
    assert message in (error["message"] if isinstance(error, dict) else error)


def test_other_models_name_a_classifier(tmp_path, request):
    """A single text for a reranker, and `/classify` elsewhere, are refused with what takes them."""
    reranker = small_artifact(write_reranker(tmp_path / "ranker"))
    for other in (reranker, request.getfixturevalue("minilm_artifact")):
        router = build_router(EmbedderSettings(artifact=str(other.folder)))
        error = read(post(router, "/classify", {"text": "a"}), 404)["error"]
        assert error.endswith(" A classifier serves it.")
    router = build_router(EmbedderSettings(artifact=str(reranker.folder)))
    for inputs in ("a", ["a"], [["a"], ["b", "c"]]):
        error = read(post(router, "/predict", {"inputs": inputs}), 422)["error"]
        assert "A reranker scores pairs, and a classifier labels single texts" in error


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/classify", {"text": LONG, "truncate": True}),
        ("/classify", {"text": LONG, "truncate": "left"}),
        ("/classify", {"input": [LONG], "truncate": True}),
        ("/predict", {"inputs": LONG, "truncate": True}),
        ("/predict", {"inputs": [LONG, LONG], "truncate": True, "truncation_direction": "left"}),
    ],
)
def test_an_input_over_the_limit_is_cut_on_request(router, path, body):
    """It has as many tokens as the model takes."""
    response = post(router, path, body)
    answer = read(response)
    tokens = answer.get("tokens") or answer["usage"]["total_tokens"] if path[1] == "c" else None
    assert (tokens or int(response.headers["x-compute-tokens"])) == 40


def test_the_models_description(router):
    """`/health`, `/info`, `/models` and the document name the labels and the label space."""
    space = router.model.loaded.manifest.space
    response = get(router, "/health")
    assert read(response) == {"status": "ok", "model": "m", "label_space": space}
    assert response.headers["x-label-space"] == space
    info = read(get(router, "/info"))
    names = {str(number): f"LABEL_{number}" for number in range(3)}
    assert info["model_type"]["classifier"]["id2label"] == names
    assert (info["label_space"], info["activation"]) == (space, "softmax")
    assert read(get(router, "/models"))["data"][0]["label_space"] == space
    document = read(get(router, "/openapi.json"))
    validate(document)
    assert {"/", "/classify", "/predict", "/info", "/health", "/models"} < set(document["paths"])


def test_an_agent_has_a_tool_that_labels(router):
    """`classify` takes the kit's own body, and there is no tool that embeds."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    tools = {tool["name"] for tool in read(post(router, "/mcp", message))["result"]["tools"]}
    assert tools == {"classify", "describe_index"}
    call = {"name": "classify", "arguments": {"text": "x", "top_k": 1}}
    result = read(post(router, "/mcp", {**message, "method": "tools/call", "params": call}))
    assert '"classification":[{"score":' in result["result"]["content"][0]["text"]


def test_a_search_index_is_refused(artifact):
    """The start fails with the reason."""
    with pytest.raises(SettingsError, match="is a classifier, which has no vectors to search"):
        build_router(EmbedderSettings(artifact=str(artifact.folder), index="/index"))


def test_only_a_classifier_starts_with_its_module(artifact, minilm_artifact):
    """It imports no engine and no reranker, and an embedding model nothing of scores."""
    program = (
        "import sys; from embedder.core.settings import EmbedderSettings;"
        "from embedder.application import build_router;"
        "build_router(EmbedderSettings(artifact={!r}));"
        "assert not {!r} & sys.modules.keys()"
    )
    core, apis = "embedder.core.", "embedder.http.apis."
    scores = {f"{core}classifier", f"{core}scorer", f"{apis}classify", f"{apis}scores"}
    rerankers = {f"{core}reranker", f"{apis}rerank"}
    for started, absent in (
        (artifact, rerankers | {f"{core}engine"}),
        (minilm_artifact, rerankers | scores),
    ):
        code = program.format(str(started.folder), absent)
        subprocess.run([sys.executable, "-c", code], check=True)
