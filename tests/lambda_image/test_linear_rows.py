"""The operator LinearRows: its bits on each processor, its refusals, threads and memory."""

import ctypes
import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.lambda_image import operator_bits
from tests.lambda_image.operator_bits import CASES, LinearRowsCase
from tools import operators
from tools.bench.arm64_emulator import PROCESSORS, Emulator
from tools.debian import DebianError
from tools.operators import KERNELS, LIBRARIES, library_name
from tools.pinned_environment import CACHE

MACHINE = os.uname().machine
LIBRARY = LIBRARIES / library_name(MACHINE)
needs_library = pytest.mark.skipif(
    sys.platform != "linux" or MACHINE not in KERNELS, reason="no library for this machine"
)
SHAPE = {"inner": 100, "outliers": 4, "columns": 96}
CONSTANTS = ("WEIGHTS", "SCALE", "OUTLIERS", "BIAS", "GAIN")
INPUTS = ("INPUT", "WEIGHTS", "SCALE", "OUTLIERS", "BIAS", "RESIDUAL", "GAIN")


def _constants(inner: int, outliers: int, columns: int) -> dict[str, Any]:
    random = np.random.default_rng(0)
    weights = random.integers(-128, 128, (inner, columns)).astype(np.int8)
    rows = [random.random((rows, columns)).astype(np.float32) for rows in (1, outliers, 1, 1)]
    scale, outlier_weights, bias, gain = rows
    return dict(zip(CONSTANTS, (weights, scale[0], outlier_weights, bias[0], gain[0]), strict=True))


def _model(*, without=(), constants=None, outputs=("y",), **attributes: Any) -> onnx.ModelProto:
    """Return a model of one node of the operator; its inputs are those without a constant."""
    tensors = {**_constants(**SHAPE), **(constants or {})}
    names = ["" if name in without else name for name in INPUTS]
    node = helper.make_node(
        "LinearRows", names, outputs, domain="embedding_kit", name="node", **attributes
    )
    computed = [name for name in names if name and tensors.get(name) is None]
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in computed],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [
            numpy_helper.from_array(tensors[name], name)
            for name in names
            if name not in {"", *computed}
        ],
    )
    domains = [helper.make_opsetid("", 21), helper.make_opsetid("embedding_kit", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=10)


def _session(model: onnx.ModelProto | Path, *, threads: int = 1) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    options.register_custom_ops_library(str(LIBRARY))
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def _feed(*rows: int) -> dict[str, Any]:
    random = np.random.default_rng(1)
    width = SHAPE["inner"] + SHAPE["outliers"]
    shapes = {"INPUT": (*rows, width), "RESIDUAL": (*rows, SHAPE["columns"])}
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


@needs_library
@pytest.mark.parametrize("kernel", [name.lower() for name in KERNELS.get(MACHINE, ())])
def test_each_kernel_has_the_bits_of_plain_c(kernel):
    """Over shapes with odd edges, every form of a layer, and one to three outputs."""
    different = operator_bits.compare(str(LIBRARY), "LinearRows", kernel, range(100))
    if different is None:
        pytest.skip(f"this processor lacks {kernel}")
    assert different == []


@needs_library
@pytest.mark.parametrize("seed", range(20))
def test_plain_c_computes_the_formula(seed):
    """Sums in float64 of the rows that are quantized as layer.h says."""
    case = LinearRowsCase(seed)
    layer, (weights, scale, outlier_weights, bias, gain) = case.layer, case.arrays
    x, outliers = np.split(case.input, [layer.inner], axis=1)
    zero = layer.zero_point
    largest = (x if zero else np.abs(x)).max(axis=1, keepdims=True)
    steps = np.float32(255 - zero if zero else 127)
    row_scale = np.maximum(largest * (1 / steps), np.float32(layer.least_scale))
    rounded = np.clip(np.rint(x * (1 / row_scale)), -zero if zero else -127, steps)
    y = (rounded.astype(np.float64) @ weights) * scale * (row_scale if layer.scaled else 1)
    y += outliers.astype(np.float64) @ outlier_weights + (bias if layer.bias else 0)
    if case.residual is not None and not layer.product:
        y += case.residual * (gain if layer.gain else 1)
    gelu = 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))
    y = [y, gelu, y * 0.5 * (1 + np.tanh(y / 2))][layer.activation]
    if layer.product:
        y *= case.residual
    outputs = case.matrix(case.run(ctypes.CDLL(str(LIBRARY)), "plain"))
    np.testing.assert_allclose(outputs, y, rtol=1e-4, atol=1e-5 * np.abs(y).max())


@needs_library
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_row_has_the_same_bits_alone_on_other_threads_and_next_to_nan(threads):
    """Rows that are not finite are NaN in each column, and change no other."""
    feed = _feed(3, 150)
    (expected,) = _session(_model()).run(None, feed)
    session = _session(_model(), threads=threads)
    for text, row in ((0, 0), (1, 77), (2, 149)):
        alone = {name: values[text, row] for name, values in feed.items()}
        assert session.run(None, alone)[0].tobytes() == expected[text, row].tobytes()
    for row, value in zip([3, 50, 149], [np.nan, np.inf, -np.inf], strict=True):
        feed["INPUT"][:, row, row % 7] = value
        expected[:, row] = np.nan
    np.testing.assert_array_equal(session.run(None, feed)[0], expected, strict=True)


@needs_library
def test_threads_may_share_a_session_and_no_rows_are_no_rows():
    """Runs at the same time have the bits of one alone."""
    session, feeds = _session(_model(), threads=2), [_feed(rows) for rows in range(40)]
    expected = [session.run(None, feed)[0] for feed in feeds]
    assert expected[0].shape == (0, SHAPE["columns"])
    with ThreadPoolExecutor(4) as pool:
        runs = pool.map(lambda feed: session.run(None, feed)[0], feeds)
    for outputs, value in zip(runs, expected, strict=True):
        np.testing.assert_array_equal(outputs, value, strict=True)


def _ones(*shape: int, dtype: Any = np.float32) -> Any:
    return np.ones(shape, dtype)


@needs_library
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"constants": {"SCALE": _ones(1)}}, "SCALE must have 96 columns, as WEIGHTS; found: 1"),
        ({"constants": {"BIAS": _ones(1, 1)}}, "BIAS must have a rank of 1 to 1; found: 2"),
        (
            {"constants": {"WEIGHTS": _ones(1, dtype=np.int8)}},
            "WEIGHTS must have a rank of 2 to 2;",
        ),
        (
            {"constants": {"WEIGHTS": _ones(1, 1, dtype=np.uint8)}},
            "Type 'tensor(uint8)' of input parameter (W",
        ),
        (
            {"constants": {"WEIGHTS": _ones(65537, 16, dtype=np.int8)}},
            "1 to 65536 rows, and columns",
        ),
        ({"constants": {"OUTLIERS": _ones(1, 1)}}, "OUTLIERS must have rows of the 96 columns"),
        ({"constants": {"GAIN": None}}, "GAIN must be a constant"),
        (
            {"widths": [32, 32], "outputs": ("a", "b")},
            "must be the 96 columns of WEIGHTS; found: 64",
        ),
        ({"widths": [24, 72], "outputs": ("a", "b")}, "must be a multiple of 16; found: 24"),
        ({"widths": [48, 48]}, "one for each output; found: 2, and 1 outputs"),
        ({"widths": [16, 16, 16, 48]}, "one for each output; found: 4, and 1 outputs"),
        ({"zero_point": 255}, "zero_point must be within 0 and 254; found: 255"),
        ({"activation": -1}, "activation must be within 0 and 2; found: -1"),
        ({"least": 0.0}, "least must be within 1e-37 and 1e37; found: 0"),
        ({"product": 1}, "product and GAIN each need RESIDUAL, and exclude each other"),
        ({"without": ("RESIDUAL",)}, "product and GAIN each need RESIDUAL, and exclude each other"),
    ],
)
def test_a_node_that_cannot_run_is_refused_when_a_session_starts(change, message):
    """The message names the input or attribute, the rule, and the value."""
    with pytest.raises(Exception, match=re.escape(message)):
        _session(_model(**change))


@needs_library
@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"INPUT": (5, 90)}, "INPUT must have 104 columns; found: 90"),
        ({"RESIDUAL": (5, 1)}, "RESIDUAL must have 96 columns; found: 1"),
        ({"RESIDUAL": (1, 96)}, "RESIDUAL must have the rows of INPUT"),
        ({"RESIDUAL": (1, 5, 96)}, "RESIDUAL must have the rows of INPUT"),
        ({"INPUT": (1,) * 8 + (104,)}, "INPUT must have a rank of 1 to 8; found: 9"),
    ],
)
def test_a_run_with_a_wrong_shape_is_refused(shapes, message):
    """It fails before anything is read, and the next run is right."""
    session, feed = _session(_model()), _feed(5)
    wrong = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    with pytest.raises(Exception, match=re.escape(message)):
        session.run(None, feed | wrong)
    assert np.isfinite(session.run(None, feed)[0]).all()


@needs_library
def test_an_onnx_runtime_without_its_functions_is_refused():
    """ONNX Runtime returns no table for a version that it does not know."""
    messages = []

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
    def create_status(code, message):
        messages.append(message)
        return code

    functions = (ctypes.c_void_p * 1)(ctypes.cast(create_status, ctypes.c_void_p))

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
    def get_api(version):
        return ctypes.addressof(functions) if version == 1 else None

    base = (ctypes.c_void_p * 2)(ctypes.cast(get_api, ctypes.c_void_p), None)
    library = ctypes.CDLL(str(LIBRARY))
    library.RegisterCustomOps.restype = ctypes.c_void_p
    assert library.RegisterCustomOps(None, base) == 2
    assert messages == [b"LinearRows needs ONNX Runtime 1.20 or later"]


@needs_library
def test_packed_weights_are_in_memory_once(tmp_path, monkeypatch):
    """The file's pages are given back; weights in the graph itself, which have no file, are not."""
    monkeypatch.setitem(SHAPE, "inner", 4000)
    monkeypatch.setitem(SHAPE, "columns", 4096)
    model, path = _model(), tmp_path / "model.onnx"
    (expected,) = _session(model).run(None, _feed(2))
    onnx.save(model, path, save_as_external_data=True, location="data", convert_attribute=True)
    before = _mapped_bytes()
    session = _session(path)
    if operator_bits.has_kernel(str(LIBRARY), [name.lower() for name in KERNELS[MACHINE]]):
        assert _mapped_bytes() - before < 4e6
    np.testing.assert_array_equal(session.run(None, _feed(2))[0], expected)


def _mapped_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssFile:\s*(\d+) kB", status).group(1)) * 1024


@pytest.mark.parametrize("processor", KERNELS)
def test_a_library_is_of_the_sources(processor):
    """If not, `scripts/build-operators` has to run."""
    library = (LIBRARIES / library_name(processor)).read_bytes()
    assert operators.source_digest().encode() in library
    assert str(CACHE.parent).encode() not in library


@pytest.mark.slow
def test_the_libraries_are_built_to_the_same_bytes(tmp_path):
    """With the pinned compiler, on any machine."""
    operators.build(tmp_path)
    for processor in KERNELS:
        name = library_name(processor)
        assert (tmp_path / name).read_bytes() == (LIBRARIES / name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processor", "expected"),
    [("N1", {"dot": [], "i8mm": None}), ("i8mm", {"dot": [], "i8mm": []})],
)
@pytest.mark.parametrize("operator", CASES)
def test_arm64_has_the_bits_of_plain_c(operator, processor, expected):
    """Emulated: a processor that lacks the int8 matrix products refuses that kernel."""
    assert processor in PROCESSORS
    try:
        emulator = Emulator(CACHE / "bench" / "arm64")
    except DebianError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    script, library = operator_bits.__file__, LIBRARIES / library_name("aarch64")
    command = (script, str(library), operator, "60", *expected)
    printed = emulator.python(processor, *command, counted=False)
    assert json.loads(printed) == expected
