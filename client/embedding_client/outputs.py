"""Rows and their vectors → JSONL, Parquet or .npy, whole or not at all."""

import json
import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from embedding_client.errors import FileError
from embedding_client.sources import Record, Source
from embedding_client.vector_log import VectorLog

__all__ = ["SUFFIXES", "check_output", "numbers", "write_output"]

SUFFIXES = (".jsonl", ".parquet", ".npy")


def check_output(path: Path) -> None:
    """Refuses a file name whose format is not known.

    Raises:
        FileError: it does not end in one of `SUFFIXES`.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise FileError(f"{path} must end in {', '.join(SUFFIXES)}: that says its format.")
    if not path.parent.is_dir():
        raise FileError(f"{path.parent} is no folder.")


def write_output(path: Path, source: Source, log: VectorLog) -> None:
    """Writes the file beside its place and moves it there when it is whole.

    - JSONL: each row with its fields, `embedding`, and `vector_space`.
    - Parquet: the same as columns; `embedding` is a list of fixed size, the vector space stands in
      the schema's metadata.
    - .npy: the array alone; what it is stands in a .json of the same name.

    Raises:
        FileError: the file cannot be written.
    """
    writers: dict[str, Callable[[Path, Source, VectorLog], None]] = {
        ".jsonl": _jsonl,
        ".parquet": _parquet,
        ".npy": _npy,
    }
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        writers[path.suffix.lower()](partial, source, log)
        partial.replace(path)
        if path.suffix.lower() == ".npy":
            about = {
                "vector_space": log.vector_space,
                "count": log.rows,
                "source": str(source.path),
            }
            path.with_suffix(".json").write_text(
                json.dumps(about, indent=1) + "\n", encoding="utf-8"
            )
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        partial.unlink(missing_ok=True)


def numbers(vector: npt.NDArray[Any]) -> list[float] | list[int]:
    """A vector's numbers for JSON: as short as they can be without losing a bit of float32."""
    if vector.dtype == np.float32:
        return [float(text) for text in map(str, vector)]
    return [int(number) for number in vector]


def _jsonl(path: Path, source: Source, log: VectorLog) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row, vector in _pairs(source, log):
            whole = {**row, "embedding": numbers(vector), "vector_space": log.vector_space}
            file.write(json.dumps(whole, ensure_ascii=False, default=str) + "\n")


def _npy(path: Path, _source: Source, log: VectorLog) -> None:
    with path.open("wb") as file:
        header = {"descr": log.dtype.str, "fortran_order": False, "shape": log.shape}
        np.lib.format.write_array_header_1_0(file, header)
        for part in log.read():
            file.write(part.tobytes())


def _parquet(path: Path, source: Source, log: VectorLog) -> None:
    try:
        import pyarrow as arrow  # noqa: PLC0415  (an extra)
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise FileError("Parquet needs pyarrow: pip install 'embedding-kit[parquet]'.") from None
    records = source.records()
    schema = writer = None
    try:
        for part in log.read():
            rows = list(islice(records, len(part)))
            table = arrow.Table.from_pylist(rows, schema=schema)
            schema = schema or table.schema
            flat = arrow.array(part.reshape(-1))
            vectors = arrow.FixedSizeListArray.from_arrays(flat, part.shape[1])
            table = table.append_column("embedding", vectors).replace_schema_metadata(
                {"vector_space": log.vector_space or ""}
            )
            # Floats hardly ever repeat: a dictionary of them would only take room.
            writer = writer or arrow.parquet.ParquetWriter(
                path, table.schema, use_dictionary=schema.names
            )
            writer.write_table(table)
    except arrow.ArrowException as error:
        raise FileError(f"The rows do not fit into one Parquet table: {error}") from error
    finally:
        if writer is not None:
            writer.close()


def _pairs(source: Source, log: VectorLog) -> Iterator[tuple[Record, npt.NDArray[Any]]]:
    vectors = (vector for part in log.read() for vector in part)
    return zip(source.records(), vectors, strict=True)
