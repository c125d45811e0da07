"""The session of a static model: sums of rows, the precision of the table, and damaged files."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from embedder.core.artifact import Artifact
from embedder.core.errors import ArtifactError
from embedder.core.loaded_model import load_session
from embedder.core.static_session import StaticSession
from tests.embedder.small_model import manifest_of

ROWS, WIDTH = 50, 32
Array = npt.NDArray[Any]


@pytest.fixture
def table() -> Array:
    return np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)


def saved(folder: Path, table: Array, scales: Array | None = None) -> Artifact:
    np.save(folder / "embeddings.npy", table)
    if scales is not None:
        np.save(folder / "scales.npy", scales)
    manifest = manifest_of()
    graph = manifest.graph._replace(runtime="numpy", file="embeddings.npy")
    return Artifact(folder, manifest._replace(graph=graph))


def test_a_vector_is_the_normalized_mean_of_its_tokens_rows(tmp_path, table):
    """Each occurrence counts, and nothing under a 0 of the mask; zeros have no direction."""
    table[2] = 0
    session = load_session(saved(tmp_path, table))
    assert isinstance(session, StaticSession)
    vectors = session.run(np.array([[3, 7, 7], [9, 1, 0]]), np.array([[1, 1, 1], [1, 0, 0]]))
    assert vectors.dtype == np.float32
    means = np.stack([table[[3, 7, 7]].mean(axis=0), table[9]])
    expected = means / np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert not session.run(np.array([[2, 2]]), np.array([[1, 1]])).any()


def test_a_row_of_int8_has_a_scale(tmp_path, table):
    """A token's vector is its row of int8 times its scale."""
    rows = np.rint(table * 40).astype(np.int8)
    scales = np.linspace(0.01, 3, ROWS, dtype=np.float32)
    ids, mask = np.array([[4, 5, 6, 0]]), np.array([[1, 1, 1, 0]])
    exact = load_session(saved(tmp_path, rows * scales[:, None])).run(ids, mask)
    vectors = load_session(saved(tmp_path, rows, scales)).run(ids, mask)
    np.testing.assert_allclose(vectors, exact, atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("tokens", [1, 3, 40, 255, 256, 257, 600])
def test_a_text_has_the_same_vector_in_every_batch(tmp_path, table, precision, tokens):
    """It is equal to the last bit, also over several blocks of tokens, and that of all tokens."""
    scales = None
    if precision == "int8":
        table, scales = np.rint(table * 40).astype(np.int8), np.ones(ROWS, np.float32) / 40
    session = load_session(saved(tmp_path, table, scales))
    ids = np.random.default_rng(1).integers(0, ROWS, (5, tokens))
    mask = np.ones_like(ids)
    mask[1:4, tokens // 2 + 1 :] = 0
    batch = session.run(ids, mask)
    alone = [session.run(ids[row : row + 1], mask[row : row + 1]) for row in range(5)]
    assert np.array_equal(batch, np.concatenate(alone))
    rows = table * np.float64(1) if scales is None else table * scales[:, None].astype(np.float64)
    sums = (rows[ids] * mask[:, :, None]).sum(axis=1)
    np.testing.assert_allclose(batch, sums / np.linalg.norm(sums, axis=1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table[:, :16], r"float32 \[50, 16\]; the manifest says .* 32 columns"),
        (lambda table: table.astype(np.float64), r"a table of float64 \[50, 32\]"),
        (lambda table: table[0], r"a table of float32 \[32\]"),
    ],
)
def test_a_table_that_is_another(tmp_path, table, change, message):
    """A table of another width, type or rank than the manifest's is refused."""
    with pytest.raises(ArtifactError, match=message):
        load_session(saved(tmp_path, change(table)))


def test_scales_that_do_not_fit(tmp_path, table):
    """An int8 table without a scale for each row is refused."""
    rows = np.rint(table * 40).astype(np.int8)
    with pytest.raises(ArtifactError, match=r"scales.npy cannot be read as an array: .*No such"):
        load_session(saved(tmp_path, rows))
    with pytest.raises(ArtifactError, match=r"has float32 \[49\]; the table has 50 rows"):
        load_session(saved(tmp_path, rows, np.ones(49, np.float32)))


@pytest.mark.parametrize("name", ["embeddings.npy", "scales.npy"])
def test_an_altered_header_is_read_or_refused(tmp_path, table, name):
    """Each bit of the header, flipped alone, is an ArtifactError or is not seen."""
    artifact = saved(tmp_path, table.astype(np.int8), np.ones(ROWS, np.float32))
    path = tmp_path / name
    content = path.read_bytes()
    refused = 0
    for bit in range(128 * 8):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with suppress(ArtifactError):
            StaticSession(artifact)
            continue
        refused += 1
    assert refused > 500
