"""Reading safetensors files: every type, and every way in which a file can be wrong."""

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.numpy import save, save_file

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.weights import Weights

FLOATS = arrays.arrays(
    np.float32,
    arrays.array_shapes(max_dims=3, max_side=5),
    elements=st.floats(-(2.0**40), 2.0**40, width=32),
)


def folder_with(folder: Path, raw: bytes) -> Path:
    (folder / "model.safetensors").write_bytes(raw)
    return folder


@settings(deadline=None)
@given(tensors=st.dictionaries(st.text("abc.", min_size=1), FLOATS, min_size=1, max_size=4))
def test_what_was_saved_is_what_is_read(tmp_path_factory, tensors):
    """Every tensor comes back as it was."""
    weights = Weights(folder_with(tmp_path_factory.mktemp("weights"), save(tensors)))
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(weights.take(name, *tensor.shape), tensor)
    weights.done()


@pytest.mark.parametrize(("dtype", "exact"), [("F16", np.float16), ("F64", np.float64)])
def test_other_widths_become_float32(tmp_path, dtype, exact):
    """Half and double precision are read as the nearest float32."""
    values = np.array([0.0, -1.5, 3.140625, 65504.0])
    save_file({"x": values.astype(exact)}, tmp_path / "model.safetensors")
    array = Weights(tmp_path).take("x", 4)
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, values.astype(np.float32))


def test_bfloat16_is_the_upper_half_of_float32(tmp_path):
    """BF16, in which large models are kept, is read exactly."""
    exact = np.array([1.0, -2.5, 0.15625, 3e38], np.float32)
    stored = (exact.view(np.uint32) >> 16).astype("<u2")
    header = json.dumps({"x": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}}).encode()
    folder_with(tmp_path, len(header).to_bytes(8, "little") + header + stored.tobytes())
    expected = (stored.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(Weights(tmp_path).take("x", 4), expected)


def test_several_files_are_one_model(tmp_path):
    """Tensors are found in the file that the index names."""
    save_file({"x": np.ones(2, np.float32)}, tmp_path / "model-1.safetensors")
    save_file({"y": np.zeros(3, np.float32)}, tmp_path / "model-2.safetensors")
    index = {"weight_map": {"x": "model-1.safetensors", "y": "model-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    weights = Weights(tmp_path)
    assert weights.take("x", 2).sum() == 2
    assert weights.take("y", 3).sum() == 0
    assert weights.total_bytes == 20


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({}, "must hold a weight_map"),
        ({"weight_map": {"x": 3}}, "must hold a weight_map"),
        ({"weight_map": {"x": "../x.safetensors"}}, "files outside its own folder"),
        ({"weight_map": {"x": "gone.safetensors"}}, "gone.safetensors is missing"),
        ({"weight_map": {"x": ".."}}, "files outside its own folder"),
        ({"weight_map": {"x": "x.safetensors\0"}}, "files outside its own folder"),
        ({"weight_map": {"x": ""}}, "is not a regular file"),
    ],
)
def test_a_wrong_index_is_refused(tmp_path, index, message):
    """An index of several files is not trusted."""
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(SourceError, match=message):
        Weights(tmp_path)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 60, 100, 200])
def test_a_truncated_file_is_refused(tmp_path, length):
    """A file that was cut at any length is reported as incomplete."""
    raw = save({"x": np.ones(40, np.float32), "y": np.ones(2, np.float32)})
    assert len(raw) > 200
    with pytest.raises(SourceError, match=r"cut short|cannot be read"):
        Weights(folder_with(tmp_path, raw[:length]))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_model_or_an_error(tmp_path_factory, raw):
    """Bytes that are no safetensors file never raise anything but the compiler's own error."""
    folder = folder_with(tmp_path_factory.mktemp("weights"), raw)
    with contextlib.suppress(SourceError):
        assert Weights(folder).total_bytes <= len(raw)


def header_of(*pairs: tuple[str, object]) -> bytes:
    """Return the start of a file: the length of its header, and the header."""
    header = "{" + ",".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in pairs)
    raw = f"{header}}}".encode()
    return len(raw).to_bytes(8, "little") + raw


def tensor(start: object, end: object, dtype: str = "F32", shape: object = (2,)) -> object:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


@pytest.mark.parametrize(
    ("entries", "size", "message"),
    [
        ([("x", tensor(0, 8, shape=[3]))], 8, "damaged .* invalid shape, data type, or offset"),
        ([("x", tensor(8, 0))], 8, "damaged .* invalid offset for tensor `x`"),
        ([("x", tensor(0, 8, shape=[-2]))], 8, "damaged .* invalid JSON in header"),
        ([("x", {"dtype": "F32", "shape": [2]})], 8, "damaged .* missing field `data_offsets`"),
        ([("x", tensor(0, 800, shape=[200]))], 8, "The file ends inside a tensor"),
        ([("x", tensor(0, 8))], 9, "or has bytes after its last one"),
        (
            [("x", tensor(0, 8)), ("y", tensor(4, 12))],
            12,
            "tensor `[xy]`. The tensor overlaps another",
        ),
        (
            [("x", tensor(0, 8)), ("y", tensor(0, 8))],
            8,
            "tensor `[xy]`. The tensor overlaps another",
        ),
        ([("x", tensor(0, 8)), ("y", tensor(12, 20))], 20, "or there is a hole before it"),
        ([("x", tensor(8, 16)), ("x", tensor(0, 8))], 8, "its header has x more than once"),
        ([("x", tensor(0, 1e300))], 8, "damaged .* invalid JSON in header"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, entries, size, message):
    """The tensors must cover the file exactly, each once, each as long as its shape says."""
    folder_with(tmp_path, header_of(*entries) + bytes(size))
    with pytest.raises(SourceError, match=message):
        Weights(tmp_path)


def test_an_offset_that_no_double_can_hold(tmp_path):
    """1e400 is a number of JSON, and no place in a file."""
    raw = header_of(("x", tensor(0, 8))).replace(b"8]", b"1e400]")[8:]
    folder_with(tmp_path, len(raw).to_bytes(8, "little") + raw + bytes(8))
    with pytest.raises(SourceError, match="number out of range"):
        Weights(tmp_path)


def test_two_files_with_one_tensor(tmp_path):
    """A tensor that is in two files of a model is an error: only one of them would count."""
    save_file({"x": np.ones(2, np.float32)}, tmp_path / "model-1.safetensors")
    save_file({"x": np.zeros(2, np.float32)}, tmp_path / "model-2.safetensors")
    index = {"weight_map": {"x": "model-1.safetensors", "y": "model-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(SourceError, match=r"model-2\.safetensors has tensors of another file.*: x"):
        Weights(tmp_path)


def test_a_device_is_not_read(tmp_path):
    """A link to a device, which never ends, is refused."""
    (tmp_path / "model.safetensors").symlink_to("/dev/zero")
    with pytest.raises(SourceError, match="is not a regular file"):
        Weights(tmp_path)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        *(
            (
                np.array([1, bad, 2, bad], np.float32),
                SourceError,
                "x holds 2 values that are NaN or",
            )
            for bad in (np.nan, np.inf, -np.inf)
        ),
        (np.array([1, 2, 3, 1e300]), SourceError, "x holds 1 values that are NaN or infinite"),
        (
            np.ones(4, np.int8),
            UnsupportedModelError,
            "x is of type I8; the compiler reads F64, F32",
        ),
    ],
    ids=["NaN", "infinity", "-infinity", "too large for float32", "of a quantized checkpoint"],
)
def test_values_that_are_no_weights_are_refused(tmp_path, values, error, message):
    """They are found where the tensor is used, and counted."""
    save_file({"x": values}, tmp_path / "model.safetensors")
    with pytest.raises(error, match=message):
        Weights(tmp_path).take("x", 4)


def test_missing_and_unused_tensors_are_named(tmp_path):
    """The errors name the tensors that are there and the one that is not; all ones are no copy."""
    sizes = {"a": 1, "b.c": 2, "d": 3, "e": 3}
    save_file(
        {name: np.ones(size, np.float32) for name, size in sizes.items()},
        tmp_path / "model.safetensors",
    )
    weights = Weights(tmp_path)
    with pytest.raises(SourceError, match=r"no tensor 'x'; found a, b.c, d, e"):
        weights.take("x", 1)
    with pytest.raises(SourceError, match=r"a has shape \[1\]; .* asks for \[2\]"):
        weights.take("a", 2)
    weights.take("a", 1)
    with pytest.raises(UnsupportedModelError, match=r"does not use: d, e\."):
        weights.done({"a reason": "b.*"})
    weights.take("d", 3)
    with pytest.raises(UnsupportedModelError, match=r"does not use: e\."):
        weights.done({"a reason": "b.*"})
    weights.take("e", 3)
    weights.done({"a reason": "b.*"})
    with pytest.raises(UnsupportedModelError, match=r"does not use: b\.c\."):
        weights.done({"a module of which the model uses a part": "*"})


def test_a_pickle_is_not_opened(tmp_path):
    """A folder with nothing but a pickle gets the line that converts it."""
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02")
    with pytest.raises(SourceError, match=r"Convert it with: python -c .*S\('FOLDER'\)\.save\("):
        Weights(tmp_path)
