"""The subject of a model: its texts, its families, and what is refused."""

import re
import sys

import pytest
from tokenizers import Tokenizer

from embedder.core.artifact import load_artifact
from embedder.core.classifier import Classifier
from model_compiler.files.folder import ConfigFolder
from model_compiler.source.catalog import CATALOG, STATIC, estimate, find, measurements
from model_compiler.tokenizer.file import read_tokenizer
from tests.model_compiler.goldens.classifier_models import SENTIMENT, write_classifier
from tools.bench.contenders import ENVIRONMENTS, Contender, Worker, python_of
from tools.bench.model import FAMILIES, SizedTexts, real_texts, requests_of
from tools.bench.replicas import SHAPES, artifact_of, replica, write_all_but_weights
from tools.bench.report import KIT
from tools.bench.worker import KINDS, back_to_back


@pytest.mark.parametrize("tokens", [12, 32, 256])
def test_a_text_has_the_number_of_tokens(minilm_folder, tokens):
    """Special tokens included; another seed gives another text."""
    file = minilm_folder / "tokenizer.json"
    library = Tokenizer.from_file(str(file))
    library.no_truncation()
    library.no_padding()
    texts = SizedTexts(file)
    assert len(library.encode(texts.text(tokens)).ids) == tokens
    assert texts.text(tokens) == texts.text(tokens)
    assert len(set(texts.batch([tokens] * 4))) == 4


def test_each_shape_has_the_width_of_its_models():
    """And a model's limit is not above that of its shape."""
    entries = [entry for entry in CATALOG if entry.shape]
    # Of EuroBERT the catalog has no model, as people fine-tune it.
    assert {entry.shape for entry in entries} == set(SHAPES) - {"eurobert-12x768"}
    for entry in entries:
        shape = SHAPES[entry.shape]
        assert entry.dimensions[:1] in {(), (shape.dimensions,)}
        assert (entry.max_tokens or 0) <= shape.max_tokens
        family = shape.config.get("model_type", "static")
        assert entry.family in {family, "new" if family == "gte" else family}


@pytest.mark.parametrize(
    "name",
    [name for name, shape in SHAPES.items() if shape.config and shape.tokenizer == "wordpiece"],
)
def test_the_compiler_reads_the_tokenizer_of_a_replica(tmp_path, name):
    """Of those that are made in a moment."""
    shape = SHAPES[name]
    write_all_but_weights(tmp_path, shape)
    file = read_tokenizer(ConfigFolder(tmp_path), vocabulary_size=shape.vocabulary)
    assert (file.max_tokens, file.special["cls_token"]) == (None, 101)


@pytest.mark.parametrize(
    "name",
    # The rule has no place for EmbeddingGemma 2's signals.
    [name for name, shape in SHAPES.items() if len(shape.config) > 2],
)
def test_an_estimate_is_within_15_percent_of_each_measured_shape(name):
    """The rule prices a model outside of the catalog."""
    shape, found = measurements().shapes[name], estimate(SHAPES[name].config)
    assert found == pytest.approx((shape.tokens_32, shape.tokens_256), rel=0.15)


def test_an_estimate_reads_the_replica_of_gemma_and_needs_sizes():
    """Its queries, keys and values have another width than its layers."""
    gemma = {"model_type": "gemma3_text", "num_hidden_layers": 24, "hidden_size": 768}
    assert estimate(gemma) is None
    heads = {"num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 256}
    shape = measurements().shapes["gemma3-24x768"]
    found = estimate({**gemma, **heads, "intermediate_size": 1152})
    assert found == pytest.approx((shape.tokens_32, shape.tokens_256), rel=0.15)
    assert estimate({"model_type": "model2vec"}) == STATIC


def test_an_estimate_counts_the_matrices_of_a_layer():
    """A gate of Jina's BERT is a third one."""
    sizes = {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12}
    bert = {"model_type": "bert", **sizes, "intermediate_size": 3072}
    gated = {"model_type": "nomic_bert", **sizes, "intermediate_size": 3072}
    assert estimate({**bert, "feed_forward_type": "geglu"}) == estimate(gated) != estimate(bert)
    own = {"n_layer": 12, "n_embd": 768, "n_head": 12, "n_inner": 3072}
    plain = {"model_type": "nomic_bert", "activation_function": "gelu", **own}
    assert estimate(plain) == estimate(bert)


def test_a_classifier_is_measured_with_its_scores(tmp_path):
    """Its process gives those of the compiled model, one for each label."""
    source = write_classifier(tmp_path / "model", labels=SENTIMENT)
    artifact = artifact_of(source, tmp_path)
    with Worker(Contender(KIT, artifact)) as worker:
        (scores,) = worker.ask({"vectors": ["a violin"]})
    classifier = Classifier.load(load_artifact(artifact))
    assert scores == classifier.predict(["a violin"]).scores[0].tolist()
    assert len(scores) == len(SENTIMENT)


@pytest.mark.parametrize(
    "name", ["distilbert-base-uncased-finetuned-sst-2-english", "ms-marco-MiniLM-L6-v2"]
)
def test_a_replica_has_the_labels_of_its_family(tmp_path, name):
    """A reranker's is one, a classifier's are several."""
    family = FAMILIES[name]
    write_all_but_weights(tmp_path, SHAPES[family.shape], labels=family.labels)
    config = ConfigFolder(tmp_path).json("config.json")
    assert len(config["id2label"]) == family.labels
    assert (family.labels == 1) == bool(family.passages)


def test_packages_of_peers_are_pinned():
    """Each contender's environment has its file, in which every line is one version."""
    environments = {kind.environment for kind in KINDS.values()} | {"infinity"}
    assert python_of("") == sys.executable
    for name in environments - {""}:
        lines = (ENVIRONMENTS / f"{name}.txt").read_text("utf-8").splitlines()
        assert all(re.match(r"[\w.-]+==[\w.]+( ;|$)", line) for line in lines)


def test_a_replica_of_torch_needs_the_peers(tmp_path):
    """The development environment has no torch."""
    with pytest.raises(SystemExit, match="the replica of t5-12x768 needs --peers"):
        replica(tmp_path, "t5-12x768", peers=False)


def test_requests_of_a_turn_follow_each_other():
    """There are at least two, as the first may wait for memory that the host took back."""
    texts: list[list[str]] = []
    assert len(back_to_back(texts.append, ["a"], 0.0)) == 2
    assert texts == [["a"], ["a"]]


def test_texts_of_a_cosine_calibrate_nothing():
    """No sentence is in both groups: static scales are judged by texts that did not make them."""
    cosines, calibration = real_texts()
    assert (len(cosines), len(calibration)) == (40, 85)
    sentences = {text.rstrip(".") for one in calibration for text in one.split(". ")}
    assert not any(text.rstrip(".") in sentences for one in cosines for text in one.split(". "))


@pytest.mark.parametrize("name", [n for n, f in FAMILIES.items() if find(n) and not f.passages])
def test_a_family_has_the_shape_of_its_model(name):
    """Ratios are relative to the model of `environments/dev.toml`."""
    entry = find(name)
    assert entry
    assert entry.shape == FAMILIES[name].shape


def test_a_target_is_for_a_row_of_its_family(minilm_folder):
    """Another name would be no target at all."""
    texts = SizedTexts(minilm_folder / "tokenizer.json")
    starts = {"init", "init, page cache dropped", "peak memory"}
    for name, family in FAMILIES.items():
        requests = requests_of(name, texts, SHAPES[family.shape].max_tokens)
        for contender, ratios in family.targets.items():
            assert contender in KINDS
            assert set(ratios) <= starts | set(requests)
