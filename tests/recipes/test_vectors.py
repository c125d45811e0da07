"""Each recipe of docs/batch.md runs and finds or makes the right vectors."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset
import pytest

from tests.docs.pages import BATCH, blocks, sections

pytestmark = pytest.mark.slow

SECTIONS = sections(BATCH, "python", level=3)
QUERY = SECTIONS.pop("The model in your process")


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory,
    embed: Callable[..., None],
    run: Callable[..., str],
    packages: Path,
) -> Path:
    """Return a folder with the page's files, and with DuckDB's extension as if it was installed."""
    folder = tmp_path_factory.mktemp("recipes")
    for commands in blocks(BATCH.read_text(encoding="utf-8"), "bash"):
        embed(commands, folder)
    (extension,) = (packages / "duckdb_extension_vss").rglob("*.duckdb_extension")
    platform = run("import duckdb; print(duckdb.sql('PRAGMA platform').fetchone()[0])", folder)
    installed = folder / ".duckdb" / "extensions" / extension.parent.name / platform.strip()
    installed.mkdir(parents=True)
    shutil.copy(extension, installed)
    return folder


def vectors(folder: Path) -> dict[str, Any]:
    """Return the vectors of all Parquet files by id."""
    table = pyarrow.dataset.dataset(folder, format="parquet").to_table()
    rows = zip(table["id"].to_pylist(), table["embedding"].to_pylist(), strict=True)
    return {key: np.float32(vector) for key, vector in rows}


def test_every_recipe_is_tested():
    """A new section is a search or a way to embed."""
    assert {*SEARCHES, *EMBEDDERS, BITS} == SECTIONS.keys()


#: The ids that each search prints, the nearest first.
SEARCHES = {
    "pgvector": ["dates", "times"],
    "LanceDB": ["dates", "times"],
    "DuckDB": ["dates", "times"] * 2,
}
EMBEDDERS = ("Daft", "PySpark")
BITS = "Integers and bits"


@pytest.mark.parametrize("title", SEARCHES)
def test_a_search_finds_the_nearest(title, folder, run, request):
    """The ids are in the order of the cosine, and the scores are the cosine."""
    more = {}
    if "DATABASE_URL" in SECTIONS[title]:
        more["DATABASE_URL"] = request.getfixturevalue("database")
    save = "\nimport numpy; numpy.save('query', query)"
    printed = run(QUERY + SECTIONS[title] + save, folder, **more)
    found = re.findall(r"\b(dates|times|bread)\b'?,? (-?[\d.]+)", printed)
    assert [key for key, _ in found] == SEARCHES[title]
    exact, query = vectors(folder / "vectors"), np.load(folder / "query.npy")
    assert [float(score) for _, score in found] == pytest.approx(
        [float(exact[key] @ query) for key, _ in found], abs=1e-5
    )


def test_bits_are_searched_by_those_that_differ(folder, run):
    """The distance is the number of signs that differ from those of the query."""
    save = "\nnumpy.save('query', query)"
    printed = run(QUERY + SECTIONS[BITS] + save, folder)
    query, exact = np.load(folder / "query.npy") > 0, vectors(folder / "vectors")
    differing = {key: float(np.sum(query != (vector > 0))) for key, vector in exact.items()}
    nearest = sorted(differing, key=differing.__getitem__)[:2]
    assert printed.splitlines() == [f"{key} {differing[key]}" for key in nearest]


@pytest.mark.parametrize("title", EMBEDDERS)
def test_vectors_are_those_of_a_batch(title, folder, run):
    """The same engine in another program gives the same vectors."""
    made, expected = folder / "embedded", vectors(folder / "vectors")
    shutil.rmtree(made, ignore_errors=True)
    run(SECTIONS[title], folder)
    found = vectors(made)
    assert found.keys() == expected.keys() == {"dates", "times", "bread"}
    for key, vector in found.items():
        np.testing.assert_allclose(vector, expected[key], atol=1e-6)
