"""Weights from the initializers of ONNX exports, and rejected exports."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.export_weights import ExportWeights
from tests.model_compiler.goldens.encoder_models import EXPORTED, write_encoder

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def write(
    path: Path,
    operator: str = "MatMul",
    *,
    names: tuple[str, str] = ("m.x.bias", "onnx::MatMul_1"),
    edit: Callable[[ModelProto], object] = lambda _: None,
    **attributes: Any,
) -> Path:
    """Write an export of one linear layer from 2 to 3 values."""
    bias, matrix = names
    if operator == "Gemm":
        nodes = [helper.make_node("Gemm", ["value", matrix, bias], ["sum"], **attributes)]
    else:
        nodes = [
            helper.make_node("MatMul", ["value", matrix], ["product"]),
            helper.make_node("Add", [bias, "product"], ["sum"]),
        ]
    graph = helper.make_graph(
        nodes,
        "export",
        [helper.make_tensor_value_info("value", TensorProto.FLOAT, [1, 2])],
        [helper.make_tensor_value_info("sum", TensorProto.FLOAT, [1, 3])],
        initializer=[
            numpy_helper.from_array(MATRIX, matrix),
            numpy_helper.from_array(np.ones(3, np.float32), bias),
        ],
    )
    model = helper.make_model(graph)
    edit(model)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
def test_both_exporters_of_torch(tmp_path, exporter):
    """The export has each tensor of the safetensors file, with its values, and no other."""
    folder = write_encoder(tmp_path / "model", "xlm-roberta", **EXPORTED)
    expected = load_file(folder / "model.safetensors")
    weights = ExportWeights(GOLDENS / f"export_{exporter}.onnx")
    prefix = weights.prefix((), "embeddings.word_embeddings.weight")
    assert prefix == {"script": "0.auto_model.", "dynamo": "model."}[exporter]
    for name, array in expected.items():
        np.testing.assert_array_equal(weights.take(prefix + name, *array.shape), array)
    weights.done()


@pytest.mark.parametrize(
    ("operator", "attributes", "matrix"),
    [("MatMul", {}, MATRIX.T), ("Gemm", {}, MATRIX.T), ("Gemm", {"transB": 1}, MATRIX)],
)
def test_a_matrix_is_named_by_its_bias(tmp_path, operator, attributes, matrix):
    """A linear layer's weight is [outputs, inputs], however the product stores it."""
    weights = ExportWeights(write(tmp_path / "model.onnx", operator, **attributes))
    np.testing.assert_array_equal(weights.take("m.x.weight", *matrix.shape), matrix)
    np.testing.assert_array_equal(weights.take("m.x.bias", 3), np.ones(3))
    weights.done()


def test_a_matrix_with_its_own_name(tmp_path):
    """A MatMul's matrix is transposed even if it kept its name, whatever its bias is named."""
    path = write(tmp_path / "model.onnx", names=("other", "m.x.weight"))
    np.testing.assert_array_equal(ExportWeights(path).take("m.x.weight", 3, 2), MATRIX.T)


def test_a_matrix_that_nothing_names(tmp_path):
    """It keeps its name, so that a model that does not use it is rejected."""
    weights = ExportWeights(write(tmp_path / "model.onnx", names=("other", "onnx::MatMul_1")))
    with pytest.raises(UnsupportedModelError, match="does not use: onnx::MatMul_1, other"):
        weights.done()


def test_two_matrices_of_one_name(tmp_path):
    """If two layers share a bias, their matrices cannot be distinguished."""

    def edit(model: ModelProto) -> None:
        model.graph.initializer.append(numpy_helper.from_array(MATRIX, "second"))
        model.graph.node.append(helper.make_node("MatMul", ["value", "second"], ["more"]))
        model.graph.node.append(helper.make_node("Add", ["more", "m.x.bias"], ["end"]))

    with pytest.raises(SourceError, match=r"two matrices for m\.x\.weight"):
        ExportWeights(write(tmp_path / "model.onnx", edit=edit))


def test_numbers_and_integers_are_no_weights(tmp_path):
    """Constants of the computation do not have to be used."""

    def edit(model: ModelProto) -> None:
        for array, name in ((np.ones(1, np.float32), "one"), (np.arange(9), "places")):
            model.graph.initializer.append(numpy_helper.from_array(array, name))

    weights = ExportWeights(write(tmp_path / "model.onnx", edit=edit))
    assert "one" not in weights
    assert "places" not in weights


def test_a_prefix_must_be_the_only_one(tmp_path):
    """A tensor with a name that ends like another's is an error, and so is a missing one."""
    weights = ExportWeights(write(tmp_path / "model.onnx", names=("a.x", "b.x")))
    with pytest.raises(SourceError, match="has 2 initializers named 'x' or ending in it"):
        weights.prefix((), "x")
    with pytest.raises(SourceError, match="has 0 initializers named 'y'"):
        weights.prefix((), "y")
    assert weights.prefix((), "a.x") == ""


def external(path: Path) -> Path:
    """Write an export with its matrix in a second file, at an offset."""

    def edit(model: ModelProto) -> None:
        (tensor, _) = model.graph.initializer
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "data"), ("offset", "8"), ("length", "24")):
            tensor.external_data.add(key=key, value=value)

    (path.parent / "data").write_bytes(b"12345678" + MATRIX.tobytes())
    return write(path, edit=edit)


def test_values_in_another_file(tmp_path):
    """They are read from the offset that the export states."""
    weights = ExportWeights(external(tmp_path / "model.onnx"))
    np.testing.assert_array_equal(weights.take("m.x.weight", 3, 2), MATRIX.T)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("location", "../data", r"keeps weights outside its own folder: '\.\./data'"),
        ("location", "other", "other is missing"),
        ("offset", "-8", "has the offset '-8'; it must be a number"),
        ("offset", "9", "is cut short: it has 32 bytes, .* up to byte 33"),
    ],
)
def test_wrong_places_of_values(tmp_path, key, value, message):
    """A place outside the folder or past the end of the file is an error."""
    path = external(tmp_path / "model.onnx")
    model = onnx.load(path, load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == key:
            entry.value = value
    onnx.save(model, path)
    with pytest.raises(SourceError, match=message):
        ExportWeights(path)
