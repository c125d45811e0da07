"""The output files of a run."""

import numpy as np
import pytest

from embedding_client import ConfigurationError, FileError
from embedding_client.outputs import Outputs
from embedding_client.writers import WRITERS, Table

REPORT = [{"row": 2, "error": "is blank"}]


def place(outputs, content=b"whole", *, report=(), check=lambda: None):
    outputs.place(
        lambda file: file.write(content) and None,
        about={"count": 1},
        report=list(report),
        check=check,
    )


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_all_files_are_named_after_the_output(tmp_path):
    """The files of two outputs have different names."""
    place(Outputs(tmp_path / "a.npy"), report=REPORT)
    assert names(tmp_path) == ["a.npy", "a.npy.errors.jsonl", "a.npy.json"]
    assert (tmp_path / "a.npy.errors.jsonl").read_text() == '{"row": 2, "error": "is blank"}\n'
    assert (tmp_path / "a.npy").read_bytes() == b"whole"


def test_the_report_of_an_earlier_run_is_deleted(tmp_path):
    """If every row of the new output has a vector."""
    outputs = Outputs(tmp_path / "a.jsonl")
    place(outputs, report=REPORT)
    place(outputs)
    assert names(tmp_path) == ["a.jsonl"]


@pytest.mark.parametrize("name", ["a.npy", "a.jsonl", "a.parquet"])
def test_an_incomplete_output_is_not_moved_into_place(tmp_path, file_limit, name):
    """The existing output is unchanged, and no incomplete file remains."""
    outputs = Outputs(tmp_path / name)
    place(outputs, b"earlier")
    before = names(tmp_path)
    with file_limit(1000), pytest.raises(FileError, match=f"{name} cannot be written: File too"):
        place(outputs, b"x" * 5000)
    assert (tmp_path / name).read_bytes() == b"earlier"
    assert names(tmp_path) == before


@pytest.mark.parametrize("suffix", [".npy", ".jsonl", ".parquet"])
def test_every_writer_reports_a_full_disk(tmp_path, file_limit, suffix):
    """No incomplete file remains, and a second attempt succeeds."""
    outputs = Outputs(tmp_path / f"a{suffix}")
    vectors = np.random.default_rng(5).random((3000, 8), np.float32)
    table = Table(
        rows=len(vectors),
        pairs=lambda: (({"text": str(vector)}, vector) for vector in vectors),
        width=8,
        dtype=vectors.dtype,
        vector_space="m@1/x/8",
    )

    def write(file):
        WRITERS[suffix](file, table)

    with file_limit(40_000), pytest.raises(FileError, match="cannot be written: File too large"):
        outputs.place(write, about={}, report=[], check=lambda: None)
    assert names(tmp_path) == []
    outputs.place(write, about={}, report=[], check=lambda: None)
    assert outputs.path.stat().st_size > 40_000


def test_a_failing_check_leaves_no_output(tmp_path):
    """For example, if the input has changed."""

    def check():
        raise FileError("changed")

    with pytest.raises(FileError, match="changed"):
        place(Outputs(tmp_path / "a.npy"), report=REPORT, check=check)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.txt", r"must end in \.jsonl, \.parquet, \.npy"),
        ("none/a.npy", "in a folder that exists; found .*none"),
        ("folder.npy", "must name a file; found the folder .*folder.npy"),
    ],
)
def test_an_invalid_path_is_refused(tmp_path, name, message):
    """Before the input is read."""
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(ConfigurationError, match=message):
        Outputs(tmp_path / name)
