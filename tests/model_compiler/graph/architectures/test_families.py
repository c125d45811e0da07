"""Every family against its reference implementation, in full precision and in int8."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tokenizers
from safetensors.numpy import load_file, save_file

from embedder.core import session
from embedder.core.engine import Engine
from model_compiler.errors import UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.graph import architectures
from model_compiler.graph.builder import Precision
from model_compiler.model.base import GRAPH_FILE
from model_compiler.model.folder import read_model_folder
from model_compiler.model.modules import Head
from tests.model_compiler.conftest import GOLDEN, embed, embed_each
from tests.model_compiler.goldens.families import DEFINED, FAMILIES, VARIANTS, write_family
from tests.model_compiler.goldens.files import read_json

GOLDENS = Path(__file__).resolve().parents[2] / "goldens"
NEWER = json.loads((GOLDENS / "newer_configs.json").read_text("utf-8"))

#: Texts with capitals, runs of spaces, accents, other scripts, a long word, and punctuation.
SPELLINGS = ("hello World", "a  b\tc\n", "caf\u00e9 \u6771\u4eac \U0001f600", "x" * 99, "1,2.3!")
#: Products between the embeddings and the first layer, which count as the first layer's.
BEFORE_LAYERS = {"albert": 1, "electra": 1, "embedding_gemma2": 6, "embedding_gemma2_text": 6}
each_variant = pytest.mark.parametrize(("family", "variant"), VARIANTS)
each_family = pytest.mark.parametrize("family", FAMILIES)


def test_each_family_has_vectors_of_its_reference_and_a_row_of_the_page(tmp_path):
    """A family that shares another's module under a further name has the vectors of that."""
    folders = [write_family(tmp_path / name, name) for name in DEFINED]
    defined = {read_json(folder / "config.json")["model_type"] for folder in folders}
    compiled, tested = architectures.FAMILIES, {*FAMILIES, *defined}
    alike = {
        name
        for name in compiled
        if any(compiled[name] is compiled[other_name] for other_name in tested)
    }
    assert set(compiled) - tested - alike == set()
    table = (
        (GOLDENS.parents[2] / "docs/compiler.md")
        .read_text("utf-8")
        .partition("| `model_type` |")[2]
    )
    rows = [line for line in table.splitlines() if line.startswith("  | `")]
    named = {name for row in rows for name in re.findall(r"`(\w[\w-]*)`", row.split("|")[1])}
    assert named == set(compiled)


@each_variant
def test_vectors_are_those_of_sentence_transformers(tmp_path, compile_tiny, family, variant):
    """Each trait, length and pooling gives the reference's vectors, alone and with padding."""
    golden_family = FAMILIES[family]
    artifact = compile_tiny(
        golden_family.write(tmp_path / "model", **golden_family.variants[variant])
    )
    for vectors in (
        embed_each(artifact, golden_family.inputs),
        embed(artifact, golden_family.inputs),
    ):
        golden = GOLDEN[f"{family} {variant}"]
        np.testing.assert_allclose(vectors, golden, atol=golden_family.tolerance, rtol=0)


@pytest.mark.parametrize("has_kernel", [False, True])
@each_variant
def test_int8_is_near(*, has_kernel, tmp_path, compile_tiny, monkeypatch, family, variant):
    """In int8 both graphs keep the direction of vectors, and padding changes nothing.

    With attention in int8 too, one text may be twice as far.
    """
    monkeypatch.setattr(session, "has_kernel", lambda: has_kernel)
    golden_family = FAMILIES[family]
    folder = golden_family.write(tmp_path / "model", **golden_family.variants[variant])
    artifact = compile_tiny(folder, Precision.INT8)
    vectors = embed_each(artifact, golden_family.inputs)
    distances = 1 - (vectors * GOLDEN[f"{family} {variant}"]).sum(axis=1)
    assert distances.mean() < 1 - golden_family.cosine
    assert distances.max() < (1 + has_kernel) * (1 - golden_family.cosine)
    np.testing.assert_allclose(embed(artifact, golden_family.inputs), vectors, atol=1e-6, rtol=0)


@each_family
@pytest.mark.parametrize("precision", Precision)
def test_a_text_is_the_same_in_any_company(tmp_path, compile_tiny, family, precision):
    """Vectors are bit-identical alone and in a batch: of texts, or of ids of one length."""
    artifact = compile_tiny(write_family(tmp_path / "model", family), precision)
    inputs = FAMILIES[family].inputs
    batch: list[Any] = [ids[start:] for ids in inputs for start in (0, 1, 2) if len(ids) > start]
    if not isinstance(inputs[0], str):
        batch = list(np.random.RandomState(5).randint(5, 70, (9, 40)))
    np.testing.assert_array_equal(embed(artifact, batch), embed_each(artifact, batch))


@each_family
def test_token_ids_are_those_of_the_library(tmp_path, compile_tiny, family):
    """The artifact's tokenizer gives the ids that `tokenizers` reads from the model's own file."""
    folder = write_family(tmp_path / "model", family)
    library = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    library.no_truncation()
    library.no_padding()
    tokenizer = Engine.load(compile_tiny(folder), truncate="right").tokenizer
    for text in SPELLINGS:
        assert list(tokenizer.encode(text)) == library.encode(text, add_special_tokens=False).ids


@each_family
def test_both_generations_of_configurations_are_one_model(tmp_path, family):
    """The file that transformers 5 writes is read like the older one."""
    folder = write_family(tmp_path / "model", family)
    older = read_model_folder(folder).architecture
    (folder / "config.json").write_text(json.dumps(NEWER[family]), encoding="utf-8")
    assert architectures.parse(ConfigFile(folder / "config.json")) == older


@each_family
def test_a_checkpoint_with_a_head(tmp_path, compile_tiny, family):
    """A language model's prefix, head and pooler change no vector."""
    golden_family, folder = FAMILIES[family], write_family(tmp_path / "model", family)
    path = folder / "model.safetensors"
    tensors = {f"{golden_family.prefix}{name}": tensor for name, tensor in load_file(path).items()}
    save_file(tensors | {name: np.ones(3, np.float32) for name in golden_family.head}, path)
    vectors = embed_each(compile_tiny(folder), golden_family.inputs)
    golden = GOLDEN[f"{family} {next(iter(golden_family.variants))}"]
    np.testing.assert_allclose(vectors, golden, atol=golden_family.tolerance, rtol=0)


@pytest.mark.parametrize("family", [*FAMILIES, *DEFINED])
def test_a_tensor_that_no_graph_uses(tmp_path, family):
    """It is refused by its name, unless it has the values of one that is used."""
    folder = write_family(tmp_path / "model", family)
    path, model = folder / "model.safetensors", read_model_folder(folder)
    tensors = load_file(path)
    largest = max(tensors, key=lambda name: tensors[name].size)
    for copy in (tensors[largest], tensors[largest].astype(np.float64)):
        save_file({**tensors, "shared": copy}, path)
        model.check()
    for copy in (tensors[largest] + 1, tensors[largest].T, np.zeros(3, np.int64)):
        save_file({**tensors, "shared": copy}, path)
        with pytest.raises(UnsupportedModelError, match=r"does not use: shared\."):
            model.check()


def test_t5s_second_table_is_the_first(tmp_path):
    """Versions of transformers differ in which of two tables the encoder has."""
    folder = write_family(tmp_path / "model", "t5")
    path, model = folder / "model.safetensors", read_model_folder(folder)
    tensors = load_file(path)
    for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
        save_file({**tensors, name: tensors["shared.weight"]}, path)
        model.check()
    save_file({**tensors, "encoder.embed_tokens.weight": tensors["shared.weight"] * 2}, path)
    with pytest.raises(UnsupportedModelError, match=r"embed_tokens.weight must be equal to shared"):
        model.check()


@each_family
def test_layers_in_float32(tmp_path, family):
    """Each family ends its layers, and a layer that is kept in float32 has no int8 product."""
    model = read_model_folder(write_family(tmp_path / "model", family))
    (tmp_path / "graph").mkdir()
    every = range(len(model.write(tmp_path / "graph").layers))
    counts = []
    for layers in ((), (0,), every):
        replace(model, float32_layers=frozenset(layers)).write(tmp_path / "graph")
        nodes = onnx.load(tmp_path / "graph" / GRAPH_FILE, load_external_data=False).graph.node
        counts.append(sum(node.op_type == "MatMulIntegerToFloat" for node in nodes))
    assert isinstance(model.head, Head)
    # Two matrices after each other may be one.
    before, outside = BEFORE_LAYERS.get(family, 0), counts[2]
    assert outside == min(len(model.head.modules), 1)
    per_layer = counts[0] - counts[1] - before
    assert counts[0] - outside == before + per_layer * len(every) > before
