"""The operator AttentionRows: its bits on each processor, its refusals and threads."""

import ctypes
import re
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.lambda_image import operator_bits
from tests.lambda_image.operator_bits import AttentionRowsCase
from tests.lambda_image.test_linear_rows import LIBRARY, MACHINE, needs_library
from tools.operators import KERNELS

SHAPES = {"QUERY": (2, 70, 96), "KEY": (2, 50, 32), "VALUE": (2, 50, 32), "BIAS": (2, 1, 50)}


def _session(*, threads: int = 1, bias: bool = True, **attributes: Any) -> Any:
    inputs = list(SHAPES)[: 4 if bias else 3]
    attributes = {"heads": 6, "kv_heads": 2} | attributes
    node = helper.make_node(
        "AttentionRows", inputs, ["y"], domain="embedding_kit", name="node", **attributes
    )
    tensors = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in [*inputs, "y"]
    ]
    graph = helper.make_graph([node], "graph", tensors[:-1], tensors[-1:])
    domains = [helper.make_opsetid("", 21), helper.make_opsetid("embedding_kit", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    options.register_custom_ops_library(str(LIBRARY))
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _feed(**shapes: tuple[int, ...]) -> dict[str, Any]:
    random = np.random.default_rng(1)
    return {
        name: random.normal(size=shape).astype(np.float32)
        for name, shape in (SHAPES | shapes).items()
    }


@needs_library
@pytest.mark.parametrize("kernel", [name.lower() for name in KERNELS.get(MACHINE, ())])
def test_each_kernel_has_the_bits_of_plain_c(kernel):
    """Over shapes with odd edges, shared heads, and each form of a bias."""
    different = operator_bits.compare(str(LIBRARY), "AttentionRows", kernel, range(100))
    if different is None:
        pytest.skip(f"this processor lacks {kernel}")
    assert different == []


def _quantized(rows: Any) -> Any:
    scale = np.abs(rows).max(axis=-1, keepdims=True) * np.float32(1 / 127)
    scale = np.maximum(scale, np.float32(1e-30))
    return np.rint(rows * (1 / scale)).astype(np.float64) * scale


@needs_library
@pytest.mark.parametrize("seed", range(30))
def test_plain_c_computes_the_formula(seed):
    """Attention in float64 over queries, keys and values that were rounded to int8 by row."""
    case = AttentionRowsCase(seed)
    output = case.run(ctypes.CDLL(str(LIBRARY)), "plain")
    case.query, case.key, case.value = (
        _quantized(array) for array in (case.query, case.key, case.value)
    )
    real = np.ones((case.texts, case.heads, case.rows), bool)
    if case.bias is not None:  # weights of a row without a key have no meaning
        real &= (case.bias > -1e8).any(axis=3)
    assert np.isfinite(output).all()
    error = np.abs(output - case.formula()).max(axis=3).transpose(0, 2, 1)
    assert error[real].max(initial=0) < 1e-4 * np.abs(case.value).max()


@needs_library
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_text_has_the_same_bits_alone_on_other_threads_and_padded(threads):
    """Keys that are masked change nothing, whatever they are, and no text changes another."""
    feed = _feed(QUERY=(3, 70, 96), KEY=(3, 50, 32), VALUE=(3, 50, 32), BIAS=(3, 1, 50))
    feed["BIAS"][1, :, 20:] = -1e9
    feed["VALUE"][1, 20:] *= 100
    (expected,) = _session().run(None, feed)
    session = _session(threads=threads)
    assert session.run(None, feed)[0].tobytes() == expected.tobytes()
    for text, keys in enumerate((50, 20, 50)):
        alone = {name: array[text : text + 1, :keys] for name, array in feed.items()}
        alone["QUERY"] = feed["QUERY"][text : text + 1]
        alone["BIAS"] = feed["BIAS"][text : text + 1, :, :keys]
        assert session.run(None, alone)[0][0].tobytes() == expected[text].tobytes()


@needs_library
def test_what_is_not_finite_stays_in_its_head():
    """A query's row is NaN in its head; a key or value makes all rows of its heads NaN."""
    feed = _feed()
    (expected,) = _session().run(None, feed)
    expected = expected.copy()
    feed["QUERY"][0, 69, 17], feed["KEY"][1, 3, 1], feed["VALUE"][0, 49, 31] = (
        np.nan,
        -np.inf,
        np.inf,
    )
    expected[0, 69, 16:32] = expected[1, :, :48] = expected[0, :, 48:] = np.nan
    np.testing.assert_array_equal(_session().run(None, feed)[0], expected, strict=True)


@needs_library
def test_dimensions_before_the_rows_are_texts_and_no_rows_are_no_rows():
    """Blocks of a text have keys of their own; the default factor is 1 / √width."""
    feed = _feed(QUERY=(2, 3, 7, 96), KEY=(2, 3, 5, 32), VALUE=(2, 3, 5, 32), BIAS=(1, 3, 1, 7, 5))
    (output,) = _session().run(None, feed)
    assert output.tobytes() == _session(factor=0.25).run(None, feed)[0].tobytes()
    for text in range(2):
        for block in range(3):
            alone = {name: array[text, block] for name, array in feed.items() if name != "BIAS"}
            alone["BIAS"] = feed["BIAS"][0, block]
            assert _session().run(None, alone)[0].tobytes() == output[text, block].tobytes()
    assert _session().run(None, _feed(QUERY=(2, 0, 96)))[0].shape == (2, 0, 96)


@needs_library
@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"heads": 0}, "AttentionRows: heads must be within 1 and 2147483647; found: 0"),
        ({"kv_heads": 4}, "AttentionRows: kv_heads must divide the 6 heads; found: 4"),
    ],
)
def test_a_node_that_cannot_run_is_refused_when_a_session_starts(attributes, message):
    """The message names the attribute, the rule, and the value."""
    with pytest.raises(Exception, match=re.escape(message)):
        _session(**attributes)


@needs_library
@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"QUERY": (96,)}, "QUERY must have a rank of 2 to 8; found: 1"),
        (
            {"QUERY": (2, 70, 97)},
            "QUERY must have 1 to 65536 columns for each of 6 heads; found: 97",
        ),
        ({"QUERY": (2, 70, 0)}, "QUERY must have 1 to 65536 columns for each of 6 heads; found: 0"),
        # A sum of more products may be beyond 32 bits.
        (
            {"QUERY": (1, 1, 393222)},
            "QUERY must have 1 to 65536 columns for each of 6 heads; found: 393222",
        ),
        ({"KEY": (50, 32)}, "KEY must have a rank of 3 to 3; found: 2"),
        ({"KEY": (1, 50, 32)}, "KEY must have the dimensions of QUERY before its rows"),
        ({"KEY": (2, 0, 32)}, "KEY must have 1 to 65536 rows; found: 0"),
        ({"KEY": (2, 50, 16)}, "KEY must have 16 columns for each of 2 heads; found: 16"),
        ({"VALUE": (2, 49, 32)}, "VALUE must have the shape of KEY"),
        ({"BIAS": (1, 50)}, "BIAS must have a rank of 3 to 4; found: 2"),
        ({"BIAS": (2, 70, 1)}, "BIAS must have the 50 keys for columns; found: 1"),
        ({"BIAS": (2, 69, 50)}, "BIAS must have 70 or 1 in dimension 1; found: 69"),
        ({"BIAS": (2, 2, 70, 50)}, "BIAS must have 6 or 1 in dimension 1; found: 2"),
        ({"BIAS": (3, 1, 50)}, "BIAS must have 2 or 1 in dimension 0; found: 3"),
    ],
)
def test_a_run_with_a_wrong_shape_is_refused(shapes, message):
    """It fails before anything is read, and the next run is right."""
    session, feed = _session(), _feed()
    wrong = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    with pytest.raises(Exception, match=re.escape(message)):
        session.run(None, feed | wrong)
    assert np.isfinite(session.run(None, feed)[0]).all()
