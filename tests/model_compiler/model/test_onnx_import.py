"""Ready ONNX exports, taken as they are."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

from embedder.core.artifact import Artifact, Golden, load_artifact
from embedder.core.engine import Engine
from embedder.core.session import Session
from model_compiler.errors import FidelityError, SourceError, UnsupportedModelError
from model_compiler.graph.builder import Precision
from tests.model_compiler.conftest import compile_folder
from tests.model_compiler.goldens.files import edit_json
from tests.model_compiler.goldens.tiny_models import HIDDEN, TOKENS, write_model

TABLE = np.random.default_rng(5).standard_normal((len(TOKENS), HIDDEN)).astype(np.float32)


Take = Callable[..., Artifact]
ALIASES = {
    "token_embeddings": "last_hidden_state",
    "dense_vecs": "sentence_embedding",
    "pooler_output": "sentence_embedding",
    "output": "sentence_embedding",
}


def export(
    path: Path,
    *,
    outputs: tuple[str, ...] = ("last_hidden_state",),
    inputs: tuple[str, ...] = ("attention_mask", "token_type_ids", "input_ids"),
    opset: int = 17,
    external: bool = False,
    edit: Callable[[onnx.ModelProto], object] = lambda _: None,
) -> Path:
    """Write a graph as an exporter would: each token's hidden state is its row of the table.

    The token types are added to it, so that anything but zeros would be seen. So are the positions,
    each times its place in the mask.
    """
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["rows"])]
    value = "rows"
    if "token_type_ids" in inputs:
        nodes += [
            helper.make_node("Cast", ["token_type_ids"], ["types"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["types", "last"], ["types3"]),
            helper.make_node("Add", ["rows", "types3"], ["typed"]),
        ]
        value = "typed"
    if "position_ids" in inputs:
        nodes += [
            helper.make_node("Mul", ["position_ids", "attention_mask"], ["masked"]),
            helper.make_node("Cast", ["masked"], ["places"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["places", "last"], ["places3"]),
            helper.make_node("Add", [value, "places3"], ["placed"]),
        ]
        value = "placed"
    nodes.append(helper.make_node("Identity", [value], ["last_hidden_state"]))
    # Three times the sum of all tokens, padding included: a different direction.
    nodes.append(
        helper.make_node(
            "ReduceSum", ["last_hidden_state", "one"], ["sentence_embedding"], keepdims=0
        )
    )
    shapes: dict[str, Any] = {
        "last_hidden_state": ["batch", "tokens", HIDDEN],
        "sentence_embedding": ["batch", HIDDEN],
    }
    for alias, name in ALIASES.items():
        shapes[alias] = shapes[name]
        nodes.append(helper.make_node("Identity", [name], [alias]))
    graph = helper.make_graph(
        nodes,
        "export",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
            for name in inputs
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in outputs],
        initializer=[
            numpy_helper.from_array(TABLE, "table"),
            numpy_helper.from_array(np.array([-1]), "last"),
            numpy_helper.from_array(np.array([1]), "one"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    edit(model)
    path.parent.mkdir(exist_ok=True)
    onnx.save_model(
        model,
        path,
        save_as_external_data=external,
        location=f"{path.name}_data",
        size_threshold=1024,
    )
    return path


@pytest.fixture
def folder(tiny_folder: Path) -> Path:
    """Make a folder with everything but weights."""
    (tiny_folder / "model.safetensors").unlink()
    return tiny_folder


@pytest.fixture
def take(tmp_path: Path) -> Take:
    """Take an export into an artifact."""

    def take_(folder: Path, precision: Precision | None = None, **options: Any) -> Artifact:
        compile_folder(folder, tmp_path / "artifact", precision=precision, **options)
        return load_artifact(tmp_path / "artifact")

    return take_


def vectors(artifact: Artifact, *sequences: list[int]) -> np.ndarray:
    session = Session(artifact)
    rows = [
        session.run(np.array([ids], np.int64), np.ones((1, len(ids)), np.int64))[0]
        for ids in sequences
    ]
    return np.array(rows)


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def check_vector(artifact: Artifact, expected: np.ndarray) -> None:
    """Check the vector of three tokens against one in the same direction."""
    np.testing.assert_allclose(vectors(artifact, [2, 7, 3])[0], unit(expected), atol=1e-6)


def test_hidden_state_gets_the_folders_pooling(folder, take):
    """Without a sentence embedding, the folder's pooling and Dense modules are put behind it."""
    export(folder / "model.onnx")
    rows = vectors(take(folder), [2, 7, 9, 3], [2, 3])
    np.testing.assert_allclose(rows[0], unit(TABLE[[2, 7, 9, 3]].mean(axis=0)), atol=1e-6)
    np.testing.assert_allclose(rows[1], unit(TABLE[[2, 3]].mean(axis=0)), atol=1e-6)


def test_dense_modules_are_applied(tmp_path, take):
    """Both Dense layers are part of the vector."""
    folder = write_model(
        tmp_path / "dense", dense=[(24, True, "activation.Tanh"), (16, False, "linear.Identity")]
    )
    (folder / "model.safetensors").unlink()
    export(folder / "onnx" / "model_quantized.onnx")
    narrowing = load_file(folder / "2_Dense" / "model.safetensors")
    widening = load_file(folder / "3_Dense" / "model.safetensors")
    pooled = TABLE[[2, 7, 3]].mean(axis=0)
    inner = np.tanh(narrowing["linear.weight"] @ pooled + narrowing["linear.bias"])
    check_vector(take(folder), widening["linear.weight"] @ inner)


def test_sentence_embedding_is_taken_by_its_name(folder, take):
    """If the export has the output, it is used without the folder's modules."""
    export(folder / "model.onnx", outputs=("last_hidden_state", "sentence_embedding"))
    shutil.rmtree(folder / "1_Pooling")
    (folder / "modules.json").unlink()
    artifact = take(folder)
    check_vector(artifact, TABLE[[2, 7, 3]].sum(axis=0))
    assert artifact.manifest.graph.optimization == "extended"
    assert artifact.manifest.model.architecture == "onnx"


def test_the_embedder_serves_it_like_any_other(folder, take):
    """Texts, batches and limits work as with a compiled model, and the manifest has goldens."""
    export(folder / "model.onnx", external=True)
    artifact = take(folder)
    engine = Engine.load(artifact, truncate="right")
    together = engine.embed(["hello world", "the date"])
    np.testing.assert_allclose(
        together.vectors[1], engine.embed(["the date"]).vectors[0], atol=1e-6
    )
    assert artifact.manifest.max_tokens == 16
    assert artifact.manifest.fidelity["batch_cosine_min"] == pytest.approx(1)
    golden = artifact.manifest.golden[0]
    assert isinstance(golden, Golden)
    np.testing.assert_allclose(together.vectors[0, :8], golden.embedding_head, atol=1e-5)


def test_weights_beside_the_graph_come_along(folder, take):
    """They are copied and listed; a file that is missing, a pipe or cut short is named."""
    export(folder / "model.onnx", external=True)
    artifact = take(folder)
    data = folder / "model.onnx_data"
    assert data.name in artifact.manifest.files
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(SourceError, match=r"model\.onnx_data is cut short: it has 100 bytes"):
        take(folder)
    data.unlink()
    with pytest.raises(SourceError, match=r"model\.onnx_data is missing, in which model.onnx"):
        take(folder)
    os.mkfifo(data)
    with pytest.raises(SourceError, match=r"model\.onnx_data is missing"):
        take(folder)


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ({"outputs": ("pooler_output",)}, "outputs pooler_output; one must be .* it as method"),
        (
            {"inputs": ("input_ids", "attention_mask", "pixel_values")},
            "inputs input_ids, attention_mask, pixel_value",
        ),
        ({"inputs": ("input_ids",)}, "inputs input_ids; the embedder can give"),
    ],
)
def test_what_cannot_be_fed_or_read_is_refused(folder, take, places, message):
    """Inputs and outputs that the embedder does not know are named with those that it does."""
    export(folder / "model.onnx", **places)
    with pytest.raises(UnsupportedModelError, match=message):
        take(folder)


def test_a_folder_that_says_too_little(folder, take):
    """The folder must define the pooling and the limit if the graph does not."""
    export(folder / "model.onnx")
    (folder / "modules.json").rename(folder / "kept.json")
    with pytest.raises(
        SourceError, match=r"no modules\.json that defines how its tokens are pooled"
    ):
        take(folder)
    (folder / "kept.json").rename(folder / "modules.json")
    edit_json(
        folder / "1_Pooling" / "config.json",
        pooling_mode_mean_tokens=False,
        pooling_mode_max_tokens=True,
    )
    with pytest.raises(SourceError, match="uses opset 17; the appended operators need 18"):
        take(folder)
    edit_json(
        folder / "config.json",
        lambda config: {key: value for key, value in config.items() if "max_position" not in key},
    )
    (folder / "sentence_bert_config.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(SourceError, match=r"states no limit of tokens: config\.json has no max_"):
        take(folder)


def test_bytes_that_are_no_graph(folder, take):
    """A file that was cut short, and one that is something else, are refused."""
    path = export(folder / "model.onnx")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(SourceError, match="cut short or not an ONNX file"):
        take(folder)
    path.write_bytes(b"")
    with pytest.raises(SourceError, match="not an ONNX graph: it has no nodes"):
        take(folder)


def test_weights_of_an_unknown_family(tiny_folder, take, capsys):
    """The export next to the weights is used; the command and the manifest state the reason."""
    edit_json(tiny_folder / "config.json", model_type="deberta-v2")
    export(tiny_folder / "onnx" / "model.onnx")
    artifact = take(tiny_folder)
    check_vector(artifact, TABLE[[2, 7, 3]].mean(axis=0))
    reason = "config.json: model_type 'deberta-v2' is not a supported architecture"
    assert artifact.manifest.fidelity["instead_of_weights"].startswith(reason)
    assert artifact.manifest.fidelity["export"] == "onnx/model.onnx"
    (note,) = capsys.readouterr().err.splitlines()
    assert note.startswith(f"note: {reason}")
    assert note.endswith("The ready export onnx/model.onnx is used instead.")


def test_weights_of_a_known_family_are_compiled(tiny_folder, take):
    """An export next to weights of a known family is not used."""
    export(tiny_folder / "onnx" / "model.onnx")
    assert take(tiny_folder, thresholds=None).manifest.model.architecture == "bert"


@pytest.mark.parametrize("name", ["token_embeddings", "dense_vecs"])
def test_names_of_outputs(folder, take, name):
    """Token vectors are pooled as the folder configures; a text's vector is only normalized."""
    export(folder / "model.onnx", outputs=(name,))
    rows = TABLE[[2, 7, 3]]
    check_vector(
        take(folder), rows.mean(axis=0) if name == "token_embeddings" else rows.sum(axis=0)
    )


def test_a_folder_that_pools_by_the_pooler(tmp_path, take):
    """`pooler_output` is used if sentence_bert_config.json names it; Dense modules follow."""
    folder = write_model(
        tmp_path / "pooler", new_files=True, dense=[(16, False, "linear.Identity")]
    )
    pooled = {"text": {"method": "forward", "method_output_name": "pooler_output"}}
    edit_json(
        folder / "sentence_bert_config.json",
        modality_config=pooled,
        module_output_name="sentence_embedding",
    )
    edit_json(folder / "modules.json", lambda value: [value[0], *value[2:]])
    with pytest.raises(UnsupportedModelError, match="can only take from a ready ONNX export"):
        take(folder)
    (folder / "model.safetensors").unlink()
    export(folder / "model.onnx", outputs=("last_hidden_state", "pooler_output"))
    weight = load_file(folder / "2_Dense" / "model.safetensors")["linear.weight"]
    check_vector(take(folder), weight @ TABLE[[2, 7, 3]].sum(axis=0))


@pytest.mark.parametrize(("family", "first"), [("qwen3", 0), ("xlm-roberta", 2)])
@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT32])
def test_positions_are_made_in_the_graph(folder, take, *, family, first, kind):
    """They start at 0, or one past the padding's id for RoBERTa; int32 if the export needs it."""

    def edit(model: onnx.ModelProto) -> None:
        for entry in model.graph.input:
            entry.type.tensor_type.elem_type = kind

    edit_json(folder / "config.json", model_type=family, pad_token_id=1)
    names = ("position_ids", "attention_mask", "token_type_ids", "input_ids")
    export(folder / "model.onnx", inputs=names, edit=edit)
    artifact = take(folder)
    check_vector(artifact, (TABLE[[2, 7, 3]] + np.arange(first, first + 3)[:, None]).mean(axis=0))
    assert set(artifact.manifest.graph.inputs) == {"input_ids", "attention_mask"}
    engine = Engine.load(artifact, truncate="right")
    together = engine.embed(["hello world, the date", "the"]).vectors
    np.testing.assert_allclose(together[1], engine.embed(["the"]).vectors[0], atol=1e-6)


def test_half_precision_comes_out_as_float32(folder, take):
    """An output of float16 is cast in the graph; the file counts as half precision."""

    def edit(model: onnx.ModelProto) -> None:
        model.graph.node.append(
            helper.make_node("Cast", ["last_hidden_state"], ["half"], to=TensorProto.FLOAT16)
        )
        (output,) = model.graph.output
        for node in model.graph.node:
            if node.op_type == "Identity" and node.output[0] == "last_hidden_state":
                node.output[0] = "wide"
        for node in model.graph.node:
            for number, name in enumerate(node.input):
                node.input[number] = "wide" if name == "last_hidden_state" else name
            if node.output[0] == "half":
                node.output[0] = "last_hidden_state"
        output.type.tensor_type.elem_type = TensorProto.FLOAT16

    export(folder / "onnx" / "model_fp16.onnx", edit=edit)
    artifact = take(folder)
    rows = vectors(artifact, [2, 7, 3])
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows[0], unit(TABLE[[2, 7, 3]].mean(axis=0)), atol=1e-3)
    assert artifact.manifest.precision == "model_fp16"


@pytest.mark.parametrize("name", ["manifest.json", "tokenizer.json", "head.data", "Model.onnx"])
def test_weights_named_like_files_of_the_artifact(tmp_path, take, name):
    """The files get another name in the artifact, which loads and gives the right vectors."""
    folder = write_model(tmp_path / "dense", dense=[(700, True, "linear.Identity")])
    (folder / "model.safetensors").unlink()
    path = export(folder / "onnx" / "model.onnx", external=True)
    (folder / "onnx" / "model.onnx_data").rename(folder / "onnx" / name)
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = name
    path.write_bytes(model.SerializeToString())
    artifact = take(folder)
    assert f"weights.{name}" in artifact.manifest.files
    dense = load_file(folder / "2_Dense" / "model.safetensors")
    pooled = TABLE[[2, 7, 3]].mean(axis=0)
    check_vector(artifact, dense["linear.weight"] @ pooled + dense["linear.bias"])


def _fixed(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1


def _rank_three(model: onnx.ModelProto) -> None:
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["b", "t", HIDDEN])
    )


def _undeclared_rank(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        if node.op_type == "ReduceSum":
            node.attribute[0].i = 1
    model.graph.output[0].type.tensor_type.ClearField("shape")


def _foreign(model: onnx.ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    model.graph.node[0].domain = "com.example"


def _integers(model: onnx.ModelProto) -> None:
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT8


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_fixed, "has a fixed size of 1; .* Export it with dynamic axes"),
        (_rank_three, "the output sentence_embedding has 3 dimensions; it must have 2"),
        (
            _undeclared_rank,
            r"For two texts, .* returns an array of shape \[2, 1, 32\]; .* \[2, 32\]",
        ),
        (_foreign, r"operators that ONNX Runtime does not have: com\.example\.Gather"),
        (_integers, "the output sentence_embedding is of type INT8, not of floats"),
    ],
)
def test_graphs_that_cannot_be_served(folder, take, edit, message):
    """A graph that the embedder cannot run is rejected, and the message says why."""
    export(folder / "model.onnx", outputs=("sentence_embedding",), edit=edit)
    with pytest.raises((SourceError, UnsupportedModelError), match=message):
        take(folder)


@pytest.mark.parametrize(("family", "limit"), [("bert", 40), ("roberta", 38)])
def test_a_folder_without_a_limit_of_its_own(folder, take, family, limit):
    """The number of positions is the limit; RoBERTa's families do not use the first two."""
    (folder / "sentence_bert_config.json").unlink()
    edit_json(folder / "tokenizer_config.json", model_max_length=None)
    edit_json(folder / "config.json", model_type=family, pad_token_id=1)
    export(folder / "model.onnx")
    assert take(folder).manifest.max_tokens == limit


def test_a_model_for_dot_products(folder, take, capsys):
    """The model is refused if its similarity is not cosine; otherwise a note is printed."""
    edit_json(folder / "modules.json", lambda value: value[:-1])
    path = folder / "config_sentence_transformers.json"
    export(folder / "model.onnx", outputs=("sentence_embedding",))
    edit_json(path, similarity_fn_name="dot")
    with pytest.raises(UnsupportedModelError, match=r'"dot", and modules\.json has no Normalize'):
        take(folder)
    edit_json(path, similarity_fn_name=None)
    take(folder)
    assert "note: The model has no Normalize." in capsys.readouterr().err


def test_a_pooling_without_the_prompt(folder, take):
    """An export has no input for where the prompt ends."""
    edit_json(folder / "1_Pooling" / "config.json", include_prompt=False)
    export(folder / "model.onnx")
    with pytest.raises(
        UnsupportedModelError, match=r"include_prompt is false; .* not of an export"
    ):
        take(folder)


def rounded(step: float, *, by_batch: bool = False) -> Callable[[onnx.ModelProto], None]:
    """Return an edit that rounds the table, and lets a text's vector depend on its batch."""

    def edit(model: onnx.ModelProto) -> None:
        table = np.round(TABLE / step) * step
        for tensor in model.graph.initializer:
            if tensor.name == "table":
                tensor.CopyFrom(numpy_helper.from_array(table.astype(np.float32), "table"))
        if by_batch:
            model.graph.node[0].output[0] = "exact"
            model.graph.node.insert(1, helper.make_node("ReduceMax", ["exact"], ["most"]))
            model.graph.node.insert(2, helper.make_node("Mul", ["exact", "exact"], ["squares"]))
            model.graph.node.insert(3, helper.make_node("Mul", ["squares", "most"], ["noise"]))
            model.graph.node.insert(4, helper.make_node("Add", ["exact", "noise"], ["rows"]))

    return edit


def test_a_quantized_export_is_judged_by_the_full_one(folder, take):
    """It is used only for int8, and only if it is close to the full-precision export."""
    export(folder / "onnx" / "model.onnx")
    export(folder / "onnx" / "model_quantized.onnx", edit=rounded(0.02))
    assert take(folder).manifest.precision == "model"
    assert take(folder).manifest.fidelity["reference"] is None
    manifest = take(folder, Precision.INT8).manifest
    assert manifest.precision == "model_quantized"
    assert manifest.fidelity["reference"] == "onnx/model.onnx"
    assert 0.999 < manifest.fidelity["cosine_min"] < 1
    export(folder / "onnx" / "model_quantized.onnx", edit=rounded(3.0))
    with pytest.raises(FidelityError) as refused:
        take(folder, Precision.INT8)
    message = str(refused.value)
    assert message.startswith("The vectors of the export model_quantized.onnx differ too much from")
    assert "the lowest cosine to full precision is 0." in message
    assert "it must be at least 0.98" in message
    assert "Omit --precision to use model.onnx in full precision" in message
    assert take(folder, Precision.INT8, thresholds=None).manifest.precision == "model_quantized"


def test_without_a_full_precision_export(folder, take, capsys):
    """The batch check still applies, and a note says that the distance is unknown."""
    export(folder / "onnx" / "model_uint8.onnx", edit=rounded(3.0))
    assert take(folder).manifest.fidelity["reference"] is None
    assert "the distance from the model's own vectors is unknown" in capsys.readouterr().err
    export(folder / "onnx" / "model_uint8.onnx", edit=rounded(0.02, by_batch=True), opset=18)
    with pytest.raises(FidelityError, match="a text alone to the same text in a batch is 0"):
        take(folder)
    with pytest.raises(SourceError, match=r"quantized \(onnx/model_uint8.onnx\), and fp32 was req"):
        take(folder, Precision.FP32)


def test_int8_where_there_is_none(folder, take, capsys):
    """The full-precision export is used, and the command prints a note."""
    export(folder / "model_O2.onnx")
    assert take(folder, Precision.INT8).manifest.precision == "model_O2"
    assert "there is no 8-bit export: model_O2.onnx is used" in capsys.readouterr().err
