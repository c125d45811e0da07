"""The files of a run."""

import numpy as np
import pytest

from embedding_client import FileError
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
    """So they meet no other output's files."""
    place(Outputs(tmp_path / "a.npy"), report=REPORT)
    assert names(tmp_path) == ["a.npy", "a.npy.errors.jsonl", "a.npy.json"]
    assert (tmp_path / "a.npy.errors.jsonl").read_text() == '{"row": 2, "error": "is blank"}\n'
    assert (tmp_path / "a.npy").read_bytes() == b"whole"


def test_a_report_of_an_earlier_run_goes(tmp_path):
    """When the output is replaced by one in which each row has its vector."""
    outputs = Outputs(tmp_path / "a.jsonl")
    place(outputs, report=REPORT)
    place(outputs)
    assert names(tmp_path) == ["a.jsonl"]


@pytest.mark.parametrize("name", ["a.npy", "a.jsonl", "a.parquet"])
def test_what_cannot_be_written_is_not_put_in_place(tmp_path, file_limit, name):
    """The output is as it was, and nothing half written is left."""
    outputs = Outputs(tmp_path / name)
    place(outputs, b"earlier")
    before = names(tmp_path)
    with file_limit(1000), pytest.raises(FileError, match=f"{name} cannot be written: File too"):
        place(outputs, b"x" * 5000)
    assert (tmp_path / name).read_bytes() == b"earlier"
    assert names(tmp_path) == before


@pytest.mark.parametrize("suffix", [".npy", ".jsonl", ".parquet"])
def test_a_format_that_is_cut_short_is_not_put_in_place(tmp_path, file_limit, suffix):
    """Each writer reports a full disk, pyarrow's too."""
    outputs = Outputs(tmp_path / f"a{suffix}")
    vectors = np.random.default_rng(5).random((9000, 8), np.float32)
    table = Table(
        rows=len(vectors),
        pairs=lambda: (({"text": str(vector)}, vector) for vector in vectors),
        width=8,
        dtype=vectors.dtype,
        vector_space="m@1/x/8",
    )

    def write(file):
        WRITERS[suffix](file, table)

    with file_limit(100_000), pytest.raises(FileError, match="cannot be written: File too large"):
        outputs.place(write, about={}, report=[], check=lambda: None)
    assert names(tmp_path) == []
    outputs.place(write, about={}, report=[], check=lambda: None)
    assert outputs.path.stat().st_size > 100_000


def test_what_is_refused_at_the_end_is_not_put_in_place(tmp_path):
    """A source that changed in the meantime, say."""

    def check():
        raise FileError("changed")

    with pytest.raises(FileError, match="changed"):
        place(Outputs(tmp_path / "a.npy"), report=REPORT, check=check)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.txt", r"must end in \.jsonl, \.parquet, \.npy"),
        ("none/a.npy", "none is not a folder"),
        ("folder.npy", "is a folder; --output must name a file"),
    ],
)
def test_an_output_that_cannot_be_is_refused(tmp_path, name, message):
    """Before anything is read."""
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(FileError, match=message):
        Outputs(tmp_path / name)
