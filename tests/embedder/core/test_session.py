"""The ONNX Runtime session: inputs, outputs, and a graph that contradicts the manifest."""

import ctypes
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from embedder.core import session as session_module
from embedder.core.errors import ArtifactError
from embedder.core.session import Session, _saturates, has_kernel, session_options

IDS = np.array([[101, 7592, 2088, 102], [101, 7592, 102, 0]])
MASK = np.array([[1, 1, 1, 1], [1, 1, 1, 0]])


def test_a_batch_becomes_rows_of_length_1(minilm_artifact):
    """Vectors are float32 [batch, dimensions] and do not depend on masked ids."""
    session = Session(minilm_artifact)
    vectors = session.run(IDS, MASK)
    assert vectors.dtype == np.float32
    assert vectors.shape == (2, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    padded = IDS.copy()
    padded[1, 3] = 2003
    np.testing.assert_allclose(session.run(padded, MASK), vectors, atol=1e-6)


@pytest.mark.parametrize(
    ("file", "operator"), [("model.onnx", False), ("model.operators.onnx", True)]
)
def test_a_graph_that_cannot_be_loaded(minilm_artifact, tmp_path, monkeypatch, file, operator):
    """A graph of the right size with the wrong bytes is refused at load."""
    monkeypatch.setattr(session_module, "has_kernel", lambda: operator)
    shutil.copytree(minilm_artifact.folder, tmp_path / "broken")
    path = tmp_path / "broken" / file
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(ArtifactError, match="ONNX Runtime cannot load"):
        Session(minilm_artifact._replace(folder=tmp_path / "broken"))


@pytest.mark.parametrize("change", [{"inputs": ("input_ids",)}, {"output": "last_hidden_state"}])
def test_a_graph_that_is_another(minilm_artifact, change):
    """A graph with other inputs or outputs than the manifest's is refused."""
    manifest = minilm_artifact.manifest
    graph = manifest.graph._replace(**change)
    with pytest.raises(ArtifactError, match=r"has inputs .* the manifest says"):
        Session(minilm_artifact._replace(manifest=manifest._replace(graph=graph)))


def test_the_operator_is_optional(minilm_artifact, tmp_path, monkeypatch, capfd):
    """Without its library, or with a damaged one, the plain graph runs and says so; then both."""
    monkeypatch.setattr(session_module, "has_kernel", lambda: True)
    library, damaged = session_module._LIBRARY, tmp_path / "damaged.so"
    damaged.write_bytes(b"\x7fELF" + bytes(5000))
    vectors = {}
    for path in (str(tmp_path / "missing.so"), str(damaged), library):
        monkeypatch.setattr(session_module, "_LIBRARY", path)
        session = Session(minilm_artifact)
        vectors[path] = session.run(IDS, MASK)
        is_plain = path != library
        assert session.graph_file == ("model.onnx" if is_plain else "model.operators.onnx")
        assert (f"slower, without {path}" in capfd.readouterr().err) is is_plain
    plain, same, others = vectors.values()
    np.testing.assert_array_equal(plain, same)
    assert ((plain * others).sum(axis=1) > 0.999).all()
    # An artifact of a compiler that wrote one graph.
    manifest = minilm_artifact.manifest
    graph = manifest.graph._replace(operator_file=None)
    older = Session(minilm_artifact._replace(manifest=manifest._replace(graph=graph)))
    np.testing.assert_array_equal(older.run(IDS, MASK), plain)


@pytest.mark.parametrize(
    ("machine", "flags", "is_used"),
    [
        ("x86_64", "avx512f avx512bw avx512dq avx512vl avx512_vnni", True),
        ("x86_64", "avx512f avx512bw avx512dq avx512vl avx512_vnni amx_int8", False),
        ("x86_64", "avx512f avx512bw avx512dq avx512vl", False),
        ("x86_64", "avx512f avx512bw avx512dq avx512_vnni", False),
        ("x86_64", "avx2 avx_vnni", False),
        ("arm64", "", False),
    ],
)
def test_processors_with_the_operator(machine, flags, is_used, tmp_path):
    """They have its instructions, and none for which ONNX Runtime may be faster."""
    assert not has_kernel(machine, str(tmp_path / "cpuinfo"))
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags : {flags}\n")
    assert has_kernel(machine, str(tmp_path / "cpuinfo")) is is_used


@pytest.mark.parametrize(("capabilities", "is_used"), [(1 << 20, True), (0xFF, False)])
def test_arm64_with_dot_products(capabilities, is_used, monkeypatch):
    """On ARM64, the system says whether the processor has them."""
    library = SimpleNamespace(getauxval=lambda kind: capabilities if kind == 16 else 0)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    assert has_kernel("aarch64") is is_used


def test_sums_of_int8_are_exact():
    """Products of the largest values do not saturate on any processor."""
    rows, columns = 64, 16
    factors = np.full((2, rows), 255, np.uint8)
    right = np.full((rows, columns), 127, np.int8)
    scale = np.array(1, np.float32)
    node = helper.make_node(
        "MatMulIntegerToFloat",
        ["left", "right", "scale", "scale", "zero"],
        ["product"],
        domain="com.microsoft",
    )
    graph = helper.make_graph(
        [node],
        "product",
        [helper.make_tensor_value_info("left", TensorProto.UINT8, [2, rows])],
        [helper.make_tensor_value_info("product", TensorProto.FLOAT, [2, columns])],
        [
            numpy_helper.from_array(right, "right"),
            numpy_helper.from_array(scale, "scale"),
            numpy_helper.from_array(np.array(128, np.uint8), "zero"),
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), session_options("none", threads=1)
    )
    (products,) = session.run(None, {"left": factors})
    np.testing.assert_array_equal(products, np.full((2, columns), rows * (255 - 128) * 127.0))


@pytest.mark.parametrize(
    ("machine", "flags", "saturates"),
    [
        ("x86_64", "fpu avx2 fsrm", True),
        ("x86_64", "fpu avx2 avx512_vnni", False),
        ("x86_64", "fpu avx2 avx_vnni", False),
        ("aarch64", "fp asimd", False),
    ],
)
def test_a_processor_without_vnni_saturates(machine, flags, saturates, tmp_path):
    """x86 without VNNI does; ARM does not."""
    # Slower and correct where the features cannot be read.
    assert _saturates(machine, str(tmp_path / "cpuinfo")) is machine.startswith("x86")
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags : {flags}\n")
    assert _saturates(machine, str(tmp_path / "cpuinfo")) is saturates


@pytest.mark.parametrize("module", ["embedder.core.session", "model_compiler.compile"])
def test_onnx_runtime_reports_nothing(module, tmp_path):
    """By default it writes an identifier of the device when it is imported, except in CI."""
    kept = {
        name: value for name, value in os.environ.items() if name != "CI" and "ORT_" not in name
    }
    environment = {**kept, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    program = [sys.executable, "-c", f"import {module}, sys; assert 'onnxruntime' in sys.modules"]
    subprocess.run(program, env=environment, check=True)
    assert list(tmp_path.iterdir()) == []
