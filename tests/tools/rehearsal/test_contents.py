"""The rules for the files of the image's layers."""

import importlib.util
import py_compile
import sys
from pathlib import Path, PurePosixPath

import pytest

from tools.rehearsal.image.contents import (
    bytecode_faults,
    copies,
    kinds,
    leftovers,
    sizes,
    unloaded,
    unreadable,
)
from tools.rehearsal.image.layers import File, Layer

TAG = str(sys.implementation.cache_tag)
MODULE = PurePosixPath("/var/task/lib/module.py")
COMPILED = PurePosixPath(f"/var/task/lib/__pycache__/module.{TAG}.pyc")


def file(path: str, size: int = 1, mode: int = 0o644, digest: str = "") -> File:
    return File(path=PurePosixPath(path), size=size, mode=mode, digest=digest)


def layer(*files: File) -> Layer:
    return Layer(digest="sha256:0", files=files, member="layer.tar")


def compiled(tmp_path: Path, source: str, mode: py_compile.PycInvalidationMode) -> bytes:
    """Compile a module as Python does."""
    (tmp_path / "module.py").write_text(source)
    made = py_compile.compile(str(tmp_path / "module.py"), invalidation_mode=mode)
    return Path(str(made)).read_bytes()


def test_layers_are_named_after_their_contents():
    """As dependencies, model or code."""
    layers = [
        layer(file("/var/task/numpy/__init__.py"), file("/var/task/orjson/x.so")),
        layer(file("/var/task/artifact/model.onnx"), file("/var/task/index/vectors.npy")),
        layer(file("/var/task/embedder/handler.py")),
        layer(file("/var/task/embedder/handler.py"), file("/var/task/artifact/a")),
        layer(file("/etc/motd")),
    ]
    assert kinds(layers) == [
        "dependencies",
        "model",
        "code",
        "code and model",
        "outside /var/task",
    ]


def test_sizes_add_up_by_kind_and_folder():
    """With the largest first."""
    found = sizes(
        [
            layer(file("/var/task/numpy/a", 5), file("/var/task/onnxruntime/b", 7)),
            layer(file("/var/task/artifact/c", 3), file("/var/task/numpy/d", 1)),
        ]
    )
    assert found == {"dependencies": {"onnxruntime": 7, "numpy": 6}, "model": {"artifact": 3}}
    assert list(found["dependencies"]) == ["onnxruntime", "numpy"]


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/root/.cache/pip/wheels/x", "package cache"),
        ("/var/task/x.whl", "package cache"),
        ("/var/task/numpy/tests/test_a.py", "tests"),
        ("/var/task/numpy/conftest.py", "tests"),
        ("/var/task/pip/__init__.py", "installer"),
        ("/var/task/setuptools-80.dist-info/METADATA", "installer"),
        ("/usr/bin/gcc", "compiler or sources"),
        ("/var/task/numpy/include/a.h", "compiler or sources"),
        ("/var/task/numpy/__init__.pxd", "compiler or sources"),
        ("/var/task/model_compiler/compile.py", "model compiler"),
        ("/var/task/onnx/__init__.py", "model compiler"),
        ("/build/layer/x", "build stage"),
        ("/tmp/x", "build stage"),
        ("/var/task/artifact/model.safetensors", "model source"),
        ("/var/task/onnxruntime/capi/libonnxruntime.so.1.31.1", "second copy of ONNX Runtime"),
        ("/var/task/onnxruntime/capi/libonnxruntime.so", "second copy of ONNX Runtime"),
    ],
)
def test_files_of_the_build_are_found(path, what):
    """Each of these files was once in an image."""
    assert list(leftovers([file(path)])) == [(what, PurePosixPath(path))]


@pytest.mark.parametrize(
    "path",
    [
        "/var/task/onnxruntime/capi/_pybind_state.py",
        "/var/task/numpy/testing/__init__.py",
        "/var/task/embedder/apis/tei.py",
        "/var/task/artifact/model.onnx",
        "/var/task/orjson/orjson.so",
        "/var/task/onnxruntime/capi/libonnxruntime_providers_shared.so",
    ],
)
def test_files_of_a_run_are_accepted(path):
    """The rules match only files that a run does not read."""
    assert list(leftovers([file(path)])) == []


def test_large_files_of_equal_content_are_found():
    """Under any names and in any layers. Small files have no digest and are not compared."""
    files = [
        file("/var/task/b.so", digest="one"),
        file("/var/task/c.so", digest="two"),
        file("/usr/lib/a.so", digest="one"),
        file("/var/task/small"),
        file("/var/task/other"),
    ]
    assert copies(files) == [(PurePosixPath("/usr/lib/a.so"), PurePosixPath("/var/task/b.so"))]


def test_a_file_that_a_later_layer_replaces_is_not_a_copy():
    """The same path with the same content is the same file."""
    assert copies([file("/var/task/a.so", digest="one")] * 2) == []


def test_large_libraries_that_a_start_does_not_load_are_found():
    """Small ones, other files and two libraries that only some models need are accepted."""
    large = 1_000_000
    loaded = file("/var/task/numpy.libs/libopenblas-1.so.0", large)
    idle = file("/var/task/onnxruntime/capi/libengine.so.1.31.1", large)
    others = [
        file("/var/task/orjson/orjson.so", large - 1),
        file("/var/task/artifact/model.onnx.data", large),
        file("/var/task/tokenizers/tokenizers.abi3.so", large),
        file("/var/task/numpy/_core/_simd.cpython-313-aarch64-linux-gnu.so", large),
    ]
    core = file("/var/task/numpy/_core/_multiarray_umath.cpython-313-aarch64-linux-gnu.so", large)
    found = unloaded([loaded, idle, core, *others], [loaded.path])
    assert found == [core.path, idle.path]


def test_a_file_that_only_its_owner_can_read_is_found():
    """Lambda's user owns no file of the image."""
    files = [file("/var/task/a", mode=0o600), file("/var/task/b", mode=0o644)]
    assert list(unreadable(files)) == [PurePosixPath("/var/task/a")]


def faults(contents: dict[PurePosixPath, bytes]) -> list[str]:
    magic = importlib.util.MAGIC_NUMBER
    return [why for _, why in bytecode_faults(contents, tag=TAG, magic=magic)]


def test_unchecked_byte_code_is_accepted(tmp_path):
    """Python loads it without reading the source."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    made = compiled(tmp_path, "A = 1\n", mode)
    assert faults({MODULE: b"A = 1\n", COMPILED: made}) == []


def test_each_fault_of_byte_code_is_found(tmp_path):
    """It is missing, of another Python, checked at each import, or of another source."""
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    good = compiled(tmp_path, "A = 1\n", unchecked)
    for mode in (
        py_compile.PycInvalidationMode.TIMESTAMP,
        py_compile.PycInvalidationMode.CHECKED_HASH,
    ):
        made = compiled(tmp_path, "A = 1\n", mode)
        expected = ["byte code that is checked against its source at every import"]
        assert faults({MODULE: b"A = 1\n", COMPILED: made}) == expected
    assert faults({MODULE: b"A = 1\n"}) == ["no byte code"]
    assert faults({MODULE: b"A = 2\n", COMPILED: good}) == ["byte code of another source"]
    other = b"\x00\x00\r\n" + good[4:]
    assert faults({MODULE: b"A = 1\n", COMPILED: other}) == ["byte code of another Python"]
