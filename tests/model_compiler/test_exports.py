"""Ready ONNX exports, taken as they are."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

from embedder.artifact import Artifact, load_artifact
from embedder.engine import Engine
from embedder.session import Session
from model_compiler.compile import Options, compile_model
from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.export_folder import find_export
from model_compiler.quantization import Precision
from model_compiler.source import find_source
from tests.model_compiler.conftest import Edit, merged
from tests.model_compiler.goldens.tiny_models import HIDDEN, TOKENS, write_model

TABLE = np.random.default_rng(5).standard_normal((len(TOKENS), HIDDEN)).astype(np.float32)


def export(
    path: Path,
    *,
    outputs: tuple[str, ...] = ("last_hidden_state",),
    inputs: tuple[str, ...] = ("attention_mask", "token_type_ids", "input_ids"),
    opset: int = 17,
    external: bool = False,
) -> Path:
    """Write a graph as an exporter would: each token's hidden state is its row of the table.

    The token types are added to it, so that anything but zeros would be seen.
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
    nodes.append(helper.make_node("Identity", [value], ["last_hidden_state"]))
    # Three times the sum of all tokens, padding included: a direction of its own.
    nodes.append(
        helper.make_node(
            "ReduceSum", ["last_hidden_state", "one"], ["sentence_embedding"], keepdims=0
        )
    )
    shapes = {
        "last_hidden_state": ["batch", "tokens", HIDDEN],
        "sentence_embedding": ["batch", HIDDEN],
        "pooler_output": ["batch", HIDDEN],
    }
    if "pooler_output" in outputs:
        nodes.append(helper.make_node("Identity", ["sentence_embedding"], ["pooler_output"]))
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
    """A folder with everything but weights."""
    (tiny_folder / "model.safetensors").unlink()
    return tiny_folder


@pytest.fixture
def take(tmp_path: Path) -> Callable[..., Artifact]:
    """Take an export into an artifact."""

    def take_(folder: Path, precision: Precision = Precision.INT8) -> Artifact:
        output = tmp_path / "artifact"
        compile_model(
            find_source(str(folder)), output, Options(precision=precision, progress=False)
        )
        return load_artifact(output)

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


def test_hidden_state_gets_the_folders_pooling(folder: Path, take: Callable[..., Artifact]) -> None:
    """Without a sentence embedding, the folder's pooling and Dense modules are put behind it."""
    export(folder / "model.onnx")
    found = vectors(take(folder), [2, 7, 9, 3], [2, 3])
    np.testing.assert_allclose(found[0], unit(TABLE[[2, 7, 9, 3]].mean(axis=0)), atol=1e-6)
    np.testing.assert_allclose(found[1], unit(TABLE[[2, 3]].mean(axis=0)), atol=1e-6)


def test_dense_modules_are_applied(tmp_path: Path, take: Callable[..., Artifact]) -> None:
    """The two Dense layers that others drop are part of the vector."""
    folder = write_model(
        tmp_path / "dense", dense=[(24, True, "activation.Tanh"), (16, False, "linear.Identity")]
    )
    (folder / "model.safetensors").unlink()
    export(folder / "onnx" / "model_quantized.onnx")
    first = load_file(folder / "2_Dense" / "model.safetensors")
    second = load_file(folder / "3_Dense" / "model.safetensors")
    pooled = TABLE[[2, 7, 3]].mean(axis=0)
    inner = np.tanh(first["linear.weight"] @ pooled + first["linear.bias"])
    expected = unit(second["linear.weight"] @ inner)
    np.testing.assert_allclose(vectors(take(folder), [2, 7, 3])[0], expected, atol=1e-6)


def test_sentence_embedding_is_taken_by_its_name(
    folder: Path, take: Callable[..., Artifact]
) -> None:
    """Where the export gives it, it is taken, whatever the order of the outputs."""
    export(folder / "model.onnx", outputs=("last_hidden_state", "sentence_embedding"))
    shutil.rmtree(folder / "1_Pooling")
    (folder / "modules.json").unlink()
    artifact = take(folder)
    expected = unit(TABLE[[2, 7, 3]].sum(axis=0))
    np.testing.assert_allclose(vectors(artifact, [2, 7, 3])[0], expected, atol=1e-6)
    assert artifact.manifest.graph.optimization == "extended"
    assert artifact.manifest.model.architecture == "onnx"


def test_the_embedder_serves_it_like_any_other(folder: Path, take: Callable[..., Artifact]) -> None:
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
    np.testing.assert_allclose(
        together.vectors[0, :8], artifact.manifest.golden[0].embedding_head, atol=1e-5
    )


def test_weights_beside_the_graph_come_along(folder: Path, take: Callable[..., Artifact]) -> None:
    """Weights in a file of their own are copied and counted; a missing one is named."""
    export(folder / "model.onnx", external=True)
    artifact = take(folder)
    assert "model.onnx_data" in artifact.manifest.files
    (folder / "model.onnx_data").unlink()
    with pytest.raises(SourceError, match=r"model\.onnx_data is missing, in which model.onnx"):
        take(folder)


def test_the_precision_chooses_the_file(folder: Path) -> None:
    """int8 prefers the quantized export, fp32 the other; a folder with weights is compiled."""
    export(folder / "onnx" / "model.onnx")
    assert find_export(folder, Precision.INT8) == folder / "onnx" / "model.onnx"
    export(folder / "onnx" / "model_quantized.onnx")
    assert find_export(folder, Precision.INT8) == folder / "onnx" / "model_quantized.onnx"
    assert find_export(folder, Precision.FP32) == folder / "onnx" / "model.onnx"
    (folder / "model.safetensors").write_bytes(b"")
    assert find_export(folder, Precision.INT8) is None


def test_what_cannot_be_fed_or_read_is_refused(folder: Path, take: Callable[..., Artifact]) -> None:
    """Inputs and outputs that the embedder does not know are named with those that it does."""
    export(folder / "model.onnx", outputs=("pooler_output",))
    with pytest.raises(UnsupportedModelError, match="outputs pooler_output; one must be sentence_"):
        take(folder)
    export(folder / "model.onnx", inputs=("input_ids", "attention_mask", "pixel_values"))
    with pytest.raises(
        UnsupportedModelError, match="inputs input_ids, attention_mask, pixel_value"
    ):
        take(folder)
    export(folder / "model.onnx", inputs=("input_ids",))
    with pytest.raises(UnsupportedModelError, match="inputs input_ids; the embedder can give"):
        take(folder)


def test_a_folder_that_says_too_little(
    folder: Path, take: Callable[..., Artifact], edit_json: Edit
) -> None:
    """What the graph does not say must stand in the folder: pooling, and the limit."""
    export(folder / "model.onnx")
    (folder / "modules.json").rename(folder / "kept.json")
    with pytest.raises(SourceError, match=r"no modules\.json that says how its tokens are pooled"):
        take(folder)
    (folder / "kept.json").rename(folder / "modules.json")
    edit_json(
        folder / "1_Pooling" / "config.json",
        lambda config: merged(config, pooling_mode_mean_tokens=False, pooling_mode_max_tokens=True),
    )
    with pytest.raises(SourceError, match="is of opset 17; what follows it needs 18"):
        take(folder)
    edit_json(
        folder / "config.json",
        lambda config: {key: value for key, value in config.items() if "max_position" not in key},
    )
    with pytest.raises(SourceError, match="max_position_embeddings is missing"):
        take(folder)


def test_bytes_that_are_no_graph(folder: Path, take: Callable[..., Artifact]) -> None:
    """A file that was cut short, and one that is something else, are refused."""
    path = export(folder / "model.onnx")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(SourceError, match="cut short or no ONNX file"):
        take(folder)
    path.write_bytes(b"")
    with pytest.raises(SourceError, match="no ONNX graph: it has no nodes"):
        take(folder)
