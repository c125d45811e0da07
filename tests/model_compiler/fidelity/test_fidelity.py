"""The fidelity report: the numbers that it measures, and the models that it rejects."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto

from embedder.core import session
from embedder.core.artifact import load_artifact
from embedder.core.engine import Engine
from model_compiler.compile import CompileOptions, compile_model
from model_compiler.errors import FidelityError, SourceError
from model_compiler.fidelity import acceptance, scores
from model_compiler.fidelity import measure as fidelity
from model_compiler.fidelity.measure import Thresholds, golden_problems, measure, problems, table
from model_compiler.graph.bases import encoder, post_norm
from model_compiler.graph.builder import GraphBuilder, Precision
from model_compiler.graph.operators import with_operators
from model_compiler.graph.quantization import Floats, embedding, linear
from model_compiler.model import compiled
from model_compiler.source.catalog import CatalogGolden
from model_compiler.source.find import find_source
from tests.model_compiler.conftest import Compile, changing, compile_folder
from tests.model_compiler.goldens.llama_model import HEAD, write_llama

PERFECT = fidelity.Fidelity(
    texts=59,
    cosine_min=1.0,
    cosine_mean=1.0,
    worst_text="a",
    batch_cosine_min=1.0,
    documents=250,
    neighbor_overlap=1.0,
    golden_differences={},
)


class Turned:
    """An engine with vectors turned away from another's by a fixed angle, or by the batch."""

    def __init__(self, engine: Engine, *, cosine: float = 1.0, batch_cosine: float = 1.0) -> None:
        self._engine = engine
        self._cosines = (cosine, batch_cosine)

    def embed(self, texts: Sequence[str], *, prompt: str | None = None) -> Any:
        """Embed as the engine does, and turn each vector towards its own components, rolled."""
        embeddings = self._engine.embed(texts, prompt=prompt)
        cosine, batch_cosine = self._cosines
        if len(texts) > 1:
            cosine *= batch_cosine
        aside = np.roll(embeddings.vectors, 1, axis=1)
        aside -= (aside * embeddings.vectors).sum(axis=1, keepdims=True) * embeddings.vectors
        aside /= np.linalg.norm(aside, axis=1, keepdims=True)
        turned = cosine * embeddings.vectors + np.sqrt(1 - cosine**2) * aside
        return embeddings._replace(vectors=turned.astype(np.float32))


@pytest.fixture
def engine(tiny_folder: Path, compile_tiny: Compile) -> Engine:
    return Engine.load(compile_tiny(tiny_folder), truncate="right")


def test_the_texts_have_all_lengths_and_scripts():
    """From one letter to several hundred words, in a dozen and more scripts."""
    texts = fidelity.texts()
    lengths = [len(text.split()) for text in texts.values()]
    assert (min(lengths), max(lengths) > 400) == (1, True)
    starts = {"Latin": 0x41, "Greek": 0x370, "Cyrillic": 0x400, "Hebrew": 0x590, "Arabic": 0x600}
    starts |= {"Devanagari": 0x900, "Thai": 0xE00, "Kana": 0x3040, "Han": 0x4E00, "Hangul": 0xAC00}
    everything = {ord(letter) for text in texts.values() for letter in text}
    for name, start in starts.items():
        assert any(start <= letter < start + 0x70 for letter in everything), name


def test_the_documents_are_shipped():
    """The comparison of neighbors reads the package's own texts, none of them twice."""
    documents = fidelity.affordable_documents(multiply_adds=1, most=fidelity.DOCUMENTS)
    assert len(set(documents)) == fidelity.DOCUMENTS
    assert documents[0] == "Open a file for reading and return its lines as a list of strings."


def test_an_artifact_against_itself(engine):
    """Full precision is its own reference: cosines of 1, and the same neighbors."""
    report = measure(engine, engine, multiply_adds=10**6)
    assert report.cosine_min == pytest.approx(1, abs=1e-6)
    assert report.batch_cosine_min == pytest.approx(1, abs=1e-6)
    assert report.neighbor_overlap == 1
    assert report.documents == 250
    assert problems(report, Thresholds()) == []


def test_angles_are_found(engine):
    """The report contains a known angle to full precision, and another one in batches."""
    turned = Turned(engine, cosine=0.97, batch_cosine=0.9)
    report = measure(turned, engine, multiply_adds=10**6)  # type: ignore[arg-type]
    assert report.cosine_min == pytest.approx(0.97, abs=1e-5)
    assert report.cosine_mean == pytest.approx(0.97, abs=1e-5)
    assert report.batch_cosine_min < 0.9999
    messages = problems(report, Thresholds())
    assert (
        messages[0] == "the lowest cosine to full precision is 0.970000; it must be at least 0.98"
    )
    assert any("alone to the same text in a batch" in line for line in messages)


def test_golden_values_are_held(engine):
    """A golden value of the catalog passes within its tolerance, and is named beyond it."""
    head = tuple(map(float, engine.embed(["hello world"], prompt=None).vectors[0, :5]))
    near = CatalogGolden("hello world", None, (head[0] + 5e-4, *head[1:]), tolerance=1e-3)
    far = CatalogGolden("hello world", None, (head[0] + 2e-3, *head[1:]), tolerance=1e-3)
    for golden, expected in ((near, 0), (far, 1)):
        report = measure(engine, engine, golden=[golden], multiply_adds=10**6)
        assert len(golden_problems(report, [golden])) == expected
    assert report.golden_differences["none"] == pytest.approx(2e-3, abs=1e-5)


@pytest.mark.parametrize(
    ("multiply_adds", "asked", "documents"),
    [
        (10**8, {}, 156),
        (10**12, {}, 20),
        (10**6, {"documents": 40}, 40),
        (10**8, {"documents": 200}, 156),
    ],
)
def test_a_large_model_gets_fewer_documents(engine, multiply_adds, asked, documents):
    """The neighbors' cost is bounded, but there are never too few to rank."""
    report = measure(engine, engine, multiply_adds=multiply_adds, **asked)
    assert report.documents == documents


def test_the_report_is_a_table():
    """Each number is on a line with its name; NaN passes no threshold."""
    lines = table(PERFECT).splitlines()
    assert len(lines) == 4
    assert lines[0].split()[-2:] == ["1.00000", "a"]
    assert "250 documents" in lines[3]
    assert problems(PERFECT, Thresholds()) == []
    broken = dataclasses.replace(PERFECT, cosine_min=float("nan"))
    assert len(problems(broken, Thresholds())) == 1


def test_the_share_of_unknown_tokens(engine, tmp_path, tiny_folder, capsys):
    """The compiler prints it, with the texts that have the most; a tokenizer of bytes has none."""
    compile_model(
        find_source(str(tiny_folder)),
        tmp_path / "artifact",
        CompileOptions(precision=Precision.FP32, documents=20),
    )
    line = fidelity.unknown_tokens(engine.tokenizer)
    assert f"{line}\n" in capsys.readouterr().out
    name, percent, worst = re.fullmatch(r"  (.*)  (.*)%  \((.*)\)", line).groups()
    assert name == "tokens unknown to the model"
    assert 5 < float(percent) < 50
    assert worst.count(": 100%") == 3
    engine.tokenizer.unknown = None
    assert fidelity.unknown_tokens(engine.tokenizer) == ""


SCORES = scores.RankFidelity(
    queries=10,
    passages=100,
    difference_max=0.0,
    difference_mean=0.0,
    kendall_tau=1.0,
    kendall_tau_min=1.0,
    top_overlap=1.0,
    batch_difference_max=0.0,
)


@pytest.mark.parametrize(
    ("of", "name", "refused", "accepted"),
    [
        (PERFECT, "cosine_min", 0.97, 0.98),
        (PERFECT, "cosine_mean", 0.98, 0.99),
        (PERFECT, "batch_cosine_min", 0.9999, 0.99999),
        (PERFECT, "neighbor_overlap", 0.7, 0.8),
        (SCORES, "kendall_tau", 0.97, 0.98),
        (SCORES, "top_overlap", 0.7, 0.8),
        (SCORES, "batch_difference_max", 1e-6, 0.0),
    ],
)
def test_the_default_thresholds(of, name, refused, accepted):
    """Each one alone refuses a model, and its own value is accepted."""
    check = problems if of is PERFECT else scores.problems
    for value, count in ((refused, 1), (accepted, 0)):
        assert len(check(dataclasses.replace(of, **{name: value}), Thresholds())) == count


def spoil(patch: pytest.MonkeyPatch, name: str) -> None:
    """Round the weights of all int8 layers with names that start like this to whole numbers."""

    def spoiled(builder: GraphBuilder, value: str, weight: Floats, **options: Any) -> str:
        if builder.quantizes and options["name"].startswith(name):
            weight = np.round(weight)
        return linear(builder, value, weight, **options)

    patch.setattr(encoder, "linear", spoiled)


@pytest.mark.parametrize(
    ("name", "layers"), [("encoder.layer.1.", [1]), ("encoder.layer.", [0, 1])]
)
def test_bad_layers_are_kept_in_float32(
    *, tiny_folder, tmp_path, monkeypatch, capsys, name, layers
):
    """Layers are added until the thresholds are reached, and the manifest names them."""
    spoil(monkeypatch, name)
    manifest = compile_folder(tiny_folder, tmp_path / "out")
    assert manifest["fidelity"]["float32_layers"] == layers
    assert manifest["fidelity"]["cosine_min"] > Thresholds().cosine_min
    note, numbers = capsys.readouterr().err, ", ".join(map(str, layers))
    assert "In the model compiled to int8, the lowest cosine to full precision is " in note
    assert f"Of its 2 layers, these are now kept in float32, counted from 0: {numbers}.\n" in note
    assert Engine.load(load_artifact(tmp_path / "out")).embed(["a"]).vectors.shape == (1, 32)


@pytest.mark.parametrize("has_kernel", [True, False])
def test_both_graphs_are_measured(has_kernel, tiny_folder, tmp_path, monkeypatch):
    """Layers of which the kit's operators alone give bad vectors are kept in float32 too.

    Without a kernel for the processor, they are until a few texts are near the other graph's.
    """

    def without_activations(model: ModelProto) -> ModelProto | None:
        rewritten = with_operators(model)
        for node in rewritten.graph.node if rewritten else ():
            attributes = [entry for entry in node.attribute if entry.name != "activation"]
            del node.attribute[:]
            node.attribute.extend(attributes)
        return rewritten

    for module in (session, acceptance):
        monkeypatch.setattr(module, "has_kernel", lambda: has_kernel)
    assert "float32_layers" not in compile_folder(tiny_folder, tmp_path / "right")["fidelity"]
    monkeypatch.setattr(compiled, "with_operators", without_activations)
    manifest = compile_folder(tiny_folder, tmp_path / "wrong")
    float32_layers = [0, 1] if has_kernel else [0]
    assert manifest["fidelity"]["float32_layers"] == float32_layers
    assert ("operator_file" in manifest["graph"]) is not has_kernel


def test_the_layer_with_bad_attention_is_kept_in_float32(tmp_path, monkeypatch):
    """Keys with one large channel, as some models have, are bad in the kit's operators alone."""
    for module in (session, acceptance):
        monkeypatch.setattr(module, "has_kernel", lambda: True)
    folder = write_llama(
        tmp_path / "model", family="qwen2", pooling="mean_tokens", config={"is_causal": False}
    )
    with changing(folder) as tensors:  # a channel that turns least with the position
        tensors["layers.2.self_attn.k_proj.bias"][HEAD // 2 - 1 :: HEAD] += 1000
    manifest = compile_folder(folder, tmp_path / "out")
    assert manifest["fidelity"]["float32_layers"] == [2]


def test_bad_vectors_are_rejected(tiny_folder, tmp_path, monkeypatch):
    """If float32 layers do not help, nothing is written and the error suggests fp32."""
    monkeypatch.setattr(post_norm, "embedding", coarse_embedding)
    with pytest.raises(FidelityError) as refused:
        compile_folder(tiny_folder, tmp_path / "out")
    message = str(refused.value)
    assert "the lowest cosine to full precision is " in message
    assert message.endswith("Use --precision fp32, or add --unmeasured to accept these vectors.")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


def coarse_embedding(*arguments: Any, **options: Any) -> str:
    """Add an embedding table with whole numbers only in int8."""
    builder, ids, table = arguments
    if builder.int8:
        table = np.round(table)
    return embedding(builder, ids, table, **options)


def test_vectors_that_are_no_numbers_are_refused(tiny_folder, tmp_path):
    """Weights that are finite and overflow on the way give an error, and nothing is written."""
    with changing(tiny_folder) as tensors:
        for name in ("attention.self.query", "attention.self.key"):
            tensors[f"encoder.layer.0.{name}.weight"] *= 1e30
    with pytest.raises(SourceError, match="cannot run the model compiled to fp32"):
        compile_folder(tiny_folder, tmp_path / "out", precision=Precision.FP32)
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]
