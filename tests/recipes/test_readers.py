"""Every reader of docs/batch.md reads the vectors of a batch in each of five types."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset
import pytest

pytestmark = pytest.mark.slow

#: The numbers of a row in each type.
TYPES = {"float": 384, "int8": 384, "uint8": 384, "binary": 48, "ubinary": 48}
TEXTS = {f"row {number}": f"text number {number}" for number in range(70)}
#: Each prints the rows of a type as a list of pairs of an id and numbers.
READERS = {
    "pyarrow": """
import pyarrow.parquet
read = lambda kind: pyarrow.parquet.read_table(kind).select(["id", "embedding"]).to_pydict()
""",
    "pandas": """
import pandas
read = lambda kind: pandas.read_parquet(kind, columns=["id", "embedding"]).to_dict("list")
""",
    "Daft": """
import daft
read = lambda kind: daft.read_parquet(f"{kind}/*/*.parquet").select("id", "embedding").to_pydict()
""",
    "DuckDB": """
import duckdb
read = lambda kind: dict(zip(
    ("id", "embedding"),
    zip(*duckdb.sql(f"SELECT id, embedding FROM '{kind}/*/*.parquet'").fetchall()),
))
""",
    "LanceDB": """
import lancedb, pyarrow.dataset
def read(kind):
    documents = pyarrow.dataset.dataset(kind, format="parquet")
    table = lancedb.connect("lance").create_table(kind, documents.to_table())
    return table.to_arrow().to_pydict()
""",
    "PySpark": """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").getOrCreate()
read = lambda kind: dict(zip(
    ("id", "embedding"),
    zip(*spark.read.parquet(f"{kind}/*").select("id", "embedding").collect()),
))
""",
}
PRINT = f"""
import json
found = {{}}
for kind in {[*TYPES]}:
    rows = read(kind)
    vectors = ([float(number) for number in row] for row in rows["embedding"])
    found[kind] = dict(zip(rows["id"], vectors))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, embed: Callable[..., None]) -> Path:
    """Return a folder with the output of a job of some parts for each type."""
    folder = tmp_path_factory.mktemp("readers")
    (folder / "docs").mkdir()
    for part in range(2):
        lines = [json.dumps({"id": k, "text": t}) for k, t in [*TEXTS.items()][part::2]]
        (folder / "docs" / f"{part}.jsonl").write_text("\n".join(lines))
    for kind in TYPES:
        options = f"--local 1 --artifact artifact --id id --dtype {kind}"
        embed(f"embed batch start docs {kind} {options}", folder)
    return folder


@pytest.mark.parametrize("reader", READERS)
def test_every_type_is_read(reader, folder, run):
    """Each id has its numbers, float32 bit for bit, from all parts of the job."""
    found = json.loads(run(READERS[reader] + PRINT, folder).splitlines()[-1])
    for kind, dimensions in TYPES.items():
        table = pyarrow.dataset.dataset(folder / kind, format="parquet").to_table()
        rows = zip(table["id"].to_pylist(), table["embedding"].to_pylist(), strict=True)
        assert found[kind] == dict(rows)
        assert {len(vector) for vector in found[kind].values()} == {dimensions}
        assert found[kind].keys() == TEXTS.keys()
