"""The file that an interrupted run is resumed from."""

import numpy as np
import pytest

from embedding_client import FileError
from embedding_client._outputs import Checkpoint

JOB = {"source": {"path": "a"}, "options": {"dtype": "float32"}}
FIRST = np.arange(6, dtype=np.float32).reshape(3, 2)
SECOND = FIRST + 10


SPACE = "m@1/x/2"


def write_to(path, *parts, job=JOB):
    with Checkpoint(path) as checkpoint:
        checkpoint.job = job
        for part in parts:
            checkpoint.append(part, vector_space=SPACE)
    return path


def rows_of(path):
    with Checkpoint(path) as checkpoint:
        parts = list(checkpoint.read())
        return np.concatenate(parts) if parts else np.empty((0, 2))


def test_a_checkpoint_can_be_continued(tmp_path):
    """The rows of several runs are in order, with the job and the vector space of the first."""
    path = write_to(tmp_path / "log", FIRST)
    write_to(path, SECOND)
    assert np.array_equal(rows_of(path), np.concatenate([FIRST, SECOND]))
    with Checkpoint(path) as checkpoint:
        assert (checkpoint.job, checkpoint.vector_space, checkpoint.rows, checkpoint.width) == (
            JOB,
            SPACE,
            6,
            2,
        )


def test_rows_without_a_vector_are_stored(tmp_path):
    """With their positions and reasons."""
    path, why = tmp_path / "log", {"error": "is blank", "code": None}
    with Checkpoint(path) as checkpoint:
        checkpoint.append(np.empty((0, 0)), vector_space=None, rejected={0: why, 1: why})
        checkpoint.append(FIRST, vector_space=SPACE, rejected={2: why})
    with Checkpoint(path) as checkpoint:
        assert checkpoint.rejected == {0: why, 1: why, 4: why}
        assert checkpoint.rows == 6
        assert np.array_equal(np.concatenate(list(checkpoint.read())), FIRST)


def test_an_incomplete_record_is_dropped(tmp_path):
    """After a run that ended anywhere, only complete records remain."""
    path = write_to(tmp_path / "log", FIRST)
    whole = len(path.read_bytes())
    write_to(path, SECOND)
    both = path.read_bytes()
    for left in range(len(both)):
        path.write_bytes(both[:left])
        kept = FIRST if left >= whole else FIRST[:0]
        assert np.array_equal(rows_of(path), kept)
        write_to(path, SECOND)
        assert np.array_equal(rows_of(path), np.concatenate([kept, SECOND]))


def test_a_changed_job_is_written_with_the_next_rows(tmp_path):
    """The checkpoint then has the new job."""
    other = {**JOB, "options": {"dtype": "float32", "truncate": "right"}}
    path = write_to(tmp_path / "log", FIRST)
    write_to(path, job=other)
    with Checkpoint(path) as checkpoint:
        assert checkpoint.job == JOB
    write_to(path, SECOND, job=other)
    with Checkpoint(path) as checkpoint:
        assert checkpoint.job == other
    assert np.array_equal(rows_of(path), np.concatenate([FIRST, SECOND]))


@pytest.mark.parametrize("content", [b"precious\nthings\n", b"precious", b"embed: notes"])
def test_another_file_is_refused(tmp_path, content):
    """The file is unchanged."""
    path = tmp_path / "log"
    path.write_bytes(content)
    with pytest.raises(FileError, match="was not written by this version of embed"):
        write_to(path)
    assert path.read_bytes() == content


def test_a_damaged_checkpoint_is_refused(tmp_path):
    """A complete line that is not JSON is an error, not an incomplete record."""
    path = write_to(tmp_path / "log", FIRST)
    with path.open("ab") as file:
        file.write(b"damage\n")
    with pytest.raises(FileError, match=r"is damaged\. Delete it to start again"):
        rows_of(path)


def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path, file_limit):
    """The incomplete record is removed. The checkpoint can be continued once there is space."""
    path = write_to(tmp_path / "log", FIRST)
    many = np.ones((2000, 2), np.float32)
    with Checkpoint(path) as checkpoint:
        checkpoint.job = JOB
        with file_limit(4096), pytest.raises(FileError, match="log cannot be written: File too"):
            checkpoint.append(many, vector_space=SPACE)
        checkpoint.append(SECOND, vector_space=SPACE)
    write_to(path, many)
    assert np.array_equal(rows_of(path), np.concatenate([FIRST, SECOND, many]))


def test_a_full_disk_leaves_no_empty_checkpoint(tmp_path, file_limit):
    """A file without vectors is deleted."""
    with file_limit(100), pytest.raises(FileError, match="cannot be written"):
        write_to(tmp_path / "log", FIRST)
    assert not (tmp_path / "log").exists()


def test_a_closed_checkpoint_cannot_be_written(tmp_path):
    """After the `with` block."""
    with Checkpoint(tmp_path / "log") as checkpoint:
        pass
    with pytest.raises(FileError, match="is not open"):
        checkpoint.append(FIRST, vector_space=SPACE)


def test_concurrent_runs_are_refused(tmp_path):
    """The second run raises the error."""
    path = write_to(tmp_path / "log", FIRST)
    with Checkpoint(path), pytest.raises(FileError, match="in use by another run"):
        write_to(path)


def test_a_run_without_vectors_leaves_no_file(tmp_path):
    """If a run fails before its first vector."""
    assert not write_to(tmp_path / "log").exists()


def test_a_missing_folder_is_an_error(tmp_path):
    """The message has the reason of the operating system."""
    with pytest.raises(FileError, match="cannot be opened: No such file"):
        write_to(tmp_path / "none" / "log")
