"""The name of a vector space changes when vectors could, and at no other time."""

import io
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file, save_file

from embedder.core.artifact import Artifact
from model_compiler.artifact.manifest import Choices
from model_compiler.compile import CompileOptions, compile_model
from model_compiler.graph import builder as graph_module
from model_compiler.graph.builder import GraphBuilder, Precision, graph_digest
from model_compiler.source import catalog
from model_compiler.source.find import find_source
from tests.model_compiler.conftest import changing, compile_folder, merged
from tests.model_compiler.goldens.files import change_tensors, edit_json
from tests.model_compiler.goldens.gemma3_model import write_gemma3
from tests.model_compiler.goldens.tiny_models import write_model


def space(artifact: Artifact) -> str:
    return artifact.manifest.vector_space


def test_the_form_of_the_name(tiny_folder, compile_tiny):
    """Family or known name, source, precision, fingerprint, and the dimensions that callers see."""
    manifest = compile_tiny(tiny_folder).manifest
    label, source, precision, fingerprint = manifest.vector_space.replace("@", "/").split("/")
    assert (label, precision) == ("bert", "fp32")
    assert len(source) == len(fingerprint) == 12
    assert int(source + fingerprint, 16) > 0
    assert manifest.vector_space_of(dimensions=32) == f"{manifest.vector_space}/32"


def test_where_a_model_lies_does_not_matter(tmp_path, compile_tiny):
    """The same model in another folder, with a README and other files, is the same."""
    original = space(compile_tiny(write_model(tmp_path / "one")))
    copy = write_model(tmp_path / "another")
    (copy / "README.md").write_text("# Another")
    (copy / "pytorch_model.bin").write_bytes(b"left over")
    assert space(compile_tiny(copy)) == original


def test_how_tensors_are_stored_does_not_matter(tiny_folder, compile_tiny):
    """Other order, several files, no pooler, a wider type: the same values, the same name."""
    original = space(compile_tiny(tiny_folder))
    tensors = load_file(tiny_folder / "model.safetensors")
    names = sorted(tensors, reverse=True)
    (tiny_folder / "model.safetensors").unlink()
    halves = {"a.safetensors": names[:10], "b.safetensors": names[10:]}
    for file, names_of_file in halves.items():
        save_file(
            {
                name: tensors[name].astype(np.float64)
                for name in names_of_file
                if "pooler" not in name
            },
            tiny_folder / file,
        )
    index = {name: file for file, names_of_file in halves.items() for name in names_of_file}
    (tiny_folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    assert space(compile_tiny(tiny_folder)) == original


def test_settings_that_change_no_vector_do_not_matter(tiny_folder, compile_tiny):
    """Provenance, dropout, the tokenizer's leftover truncation, and the dimensions on offer."""
    original = space(compile_tiny(tiny_folder))
    edit_json(
        tiny_folder / "config.json",
        lambda config: dict(
            reversed(
                merged(
                    config, hidden_dropout_prob=0.5, transformers_version="9", id2label={}
                ).items()
            )
        ),
    )
    truncation = {"max_length": 7, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    edit_json(tiny_folder / "tokenizer.json", truncation=truncation)
    edit_json(tiny_folder / "tokenizer_config.json", name_or_path="other")
    assert space(compile_tiny(tiny_folder, choices=Choices(dimensions=(16, 8)))) == original


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("config.json", {"layer_norm_eps": 1e-6}),
        ("config.json", {"hidden_act": "gelu_new"}),
        ("config.json", {"num_attention_heads": 2}),
        ("sentence_bert_config.json", {"max_seq_length": 12}),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True}),
        ("config_sentence_transformers.json", {"prompts": {"query": "date: "}}),
        ("tokenizer.json", {"normalizer": None}),
    ],
)
def test_settings_that_change_vectors_matter(tiny_folder, compile_tiny, file, change):
    """The graph's constants, the limit, the pooling, the prompts and the tokenizer all count."""
    original = space(compile_tiny(tiny_folder))
    edit_json(tiny_folder / file, **change)
    assert space(compile_tiny(tiny_folder)) != original


@pytest.mark.parametrize(
    "name", ["embeddings.word_embeddings.weight", "encoder.layer.1.output.dense.bias"]
)
def test_one_weight_matters(tiny_folder, compile_tiny, name):
    """A single value changes the source's hash, even where int8 rounds it to the same codes."""
    original = space(compile_tiny(tiny_folder, Precision.INT8))
    with changing(tiny_folder) as tensors:
        tensors[name].flat[3] += 1e-4
    assert space(compile_tiny(tiny_folder, Precision.INT8)) != original


def test_precision_and_default_prompt_matter(tmp_path, compile_tiny):
    """int8 and fp32 are two spaces of one source; another default prompt is another space."""
    folder = write_model(tmp_path / "model", new_files=True)
    exact, near = compile_tiny(folder), compile_tiny(folder, Precision.INT8)
    prompted = compile_tiny(folder, choices=Choices(default_prompt="query"))
    assert len({space(exact), space(near), space(prompted)}) == 3
    assert space(exact).partition("/")[0] == space(near).partition("/")[0]


def test_a_known_model_is_known_in_any_folder(minilm_folder, minilm_artifact, tmp_path):
    """MiniLM stored otherwise and elsewhere is compiled to the space of the catalog's MiniLM."""
    folder = tmp_path / "mine"
    shutil.copytree(minilm_folder, folder)
    change_tensors(folder, lambda tensors: dict(reversed(tensors.items())))
    (folder / "config.json").write_bytes((folder / "config.json").read_bytes() + b"\n")
    manifest = compile_folder(folder, tmp_path / "out", thresholds=None)
    assert manifest["model"]["name"] == "mine"
    assert manifest["vector_space"] == minilm_artifact.manifest.vector_space
    assert manifest["vector_space"].startswith("all-MiniLM-L6-v2@")


def test_embedding_gemma_is_known_by_its_prompts(tmp_path):
    """A model by name and the same model from a folder share a space, identified by the weights."""
    entry = catalog.find("embeddinggemma-300m")
    assert entry
    folder = write_gemma3(tmp_path / "mine")
    options = CompileOptions(thresholds=None, progress=False)

    def compiled(place: str) -> str:
        source = find_source(str(folder))
        if place == "hub":
            # Without the published model's dimensions, which this small one does not have.
            catalog_entry = replace(entry, dimensions=())
            source = replace(source, name=entry.name, revision="0" * 40, entry=catalog_entry)
        return str(compile_model(source, tmp_path / place, options)["vector_space"])

    assert compiled("hub") == compiled("folder")
    assert compiled("again").startswith("embeddinggemma-300m@")
    edit_json(folder / "config_sentence_transformers.json", prompts={})
    assert compiled("without its prompts").startswith("gemma3_text@")


def graph(*, prefix: str = "", value: float = 2.0, operator: str = "Mul") -> bytes:
    """Hash a graph of two nodes; the prefix is put before every inner name."""
    nodes = [
        helper.make_node(operator, ["x", f"{prefix}two"], [f"{prefix}a"], name=f"{prefix}first"),
        helper.make_node("Neg", [f"{prefix}a"], ["y"], name=f"{prefix}second"),
    ]
    two = numpy_helper.from_array(np.array([value], np.float32), f"{prefix}two")
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])]
    proto = helper.make_graph(nodes, f"{prefix}graph", inputs, outputs, [two])
    return graph_digest(helper.make_model(proto, producer_name=prefix), weights={})


def test_where_a_weight_stands_does_not_matter():
    """A weight has the same digest inside the graph's file and next to it."""

    def digest(*, inline: int) -> bytes:
        weights = io.BytesIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(graph_module, "INLINE_BYTES", inline)
            builder = GraphBuilder(name="g", weights=weights, weights_file="w")
            value = builder.input("x", dtype=np.float32, shape=["n", 8])
            table = builder.weight("table", np.arange(64, dtype=np.float32).reshape(8, 8))
            builder.op.MatMul(value, table, output="y")
            builder.output("y", dtype=np.float32, shape=["n", 8])
        assert bool(weights.getvalue()) == (inline == 0)
        return graph_digest(builder.model(), weights=builder.external_digests)

    assert digest(inline=0) == digest(inline=10_000)


def test_names_inside_a_graph_do_not_matter():
    """The digest depends on the computation, not on the names of nodes and values."""
    assert graph() == graph(prefix="other_")
    assert graph() != graph(value=2.5)
    assert graph() != graph(operator="Div")
