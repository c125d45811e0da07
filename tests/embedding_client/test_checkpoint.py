"""The log that lets a run go on."""

import numpy as np
import pytest

from embedding_client import FileError
from embedding_client.checkpoint import Checkpoint

JOB = {"source": {"path": "a"}, "options": {"dtype": "float32"}}
FIRST = np.arange(6, dtype=np.float32).reshape(3, 2)
SECOND = FIRST + 10


SPACE = "m@1/x/2"


def log_of(path, *parts, job=JOB):
    with Checkpoint(path) as log:
        log.job = job
        for part in parts:
            log.append(part, vector_space=SPACE)
    return path


def rows_of(path):
    with Checkpoint(path) as log:
        parts = list(log.read())
        return np.concatenate(parts) if parts else np.empty((0, 2))


def test_it_continues_where_it_was(tmp_path):
    """Rows of several runs are in their order, with the job and the vector space of the first."""
    path = log_of(tmp_path / "log", FIRST)
    log_of(path, SECOND)
    assert np.array_equal(rows_of(path), np.concatenate([FIRST, SECOND]))
    with Checkpoint(path) as log:
        assert (log.job, log.vector_space, log.rows, log.width) == (JOB, SPACE, 6, 2)


def test_rows_without_a_vector_are_kept_too(tmp_path):
    """With their reasons, under their own numbers."""
    path, why = tmp_path / "log", {"error": "is blank", "code": None}
    with Checkpoint(path) as log:
        log.append(np.empty((0, 0)), vector_space=None, rejected={0: why, 1: why})
        log.append(FIRST, vector_space=SPACE, rejected={2: why})
    with Checkpoint(path) as log:
        assert log.rejected == {0: why, 1: why, 4: why}
        assert log.rows == 6
        assert np.array_equal(np.concatenate(list(log.read())), FIRST)


@pytest.mark.parametrize("cut", range(1, 120))
def test_a_record_that_was_not_whole_is_forgotten(tmp_path, cut):
    """A run that ended anywhere, even within a number, leaves whole records only."""
    first = log_of(tmp_path / "log", FIRST)
    whole = first.read_bytes()
    log_of(first, SECOND)
    both = first.read_bytes()
    first.write_bytes(both[:-cut])
    kept = FIRST if len(both) - cut >= len(whole) else FIRST[:0]
    assert np.array_equal(rows_of(first), kept)
    log_of(first, SECOND)
    assert np.array_equal(rows_of(first), np.concatenate([kept, SECOND]))


@pytest.mark.parametrize("left", [0, 1, 20])
def test_a_first_line_that_was_not_whole_is_begun_again(tmp_path, left):
    """A run that ended in the first line had embedded nothing."""
    path = log_of(tmp_path / "log", FIRST)
    path.write_bytes(path.read_bytes()[:left])
    log_of(path, SECOND)
    assert np.array_equal(rows_of(path), SECOND)


def test_a_changed_job_is_written_with_the_next_rows(tmp_path):
    """The log names the latest one."""
    other = {**JOB, "options": {"dtype": "float32", "truncate": "right"}}
    path = log_of(tmp_path / "log", FIRST)
    log_of(path, job=other)
    with Checkpoint(path) as log:
        assert log.job == JOB
    log_of(path, SECOND, job=other)
    with Checkpoint(path) as log:
        assert log.job == other
    assert np.array_equal(rows_of(path), np.concatenate([FIRST, SECOND]))


@pytest.mark.parametrize("content", [b"precious\nthings\n", b"precious", b"embed: notes"])
def test_another_file_is_refused(tmp_path, content):
    """A file of that name that is something else is not touched."""
    path = tmp_path / "log"
    path.write_bytes(content)
    with pytest.raises(FileError, match="was not written by this version of embed"):
        log_of(path)
    assert path.read_bytes() == content


def test_a_damaged_log_is_refused(tmp_path):
    """A record that is no JSON in the middle of a log is no torn end."""
    path = log_of(tmp_path / "log", FIRST)
    with path.open("ab") as file:
        file.write(b"damage\n")
    with pytest.raises(FileError, match=r"is damaged\. Delete it to start again"):
        rows_of(path)


def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path, file_limit):
    """What does not fit is cut off again; the log continues once there is room."""
    path = log_of(tmp_path / "log", FIRST)
    many = np.ones((2000, 2), np.float32)
    with file_limit(4096), pytest.raises(FileError, match="log cannot be written: File too large"):
        log_of(path, many)
    assert np.array_equal(rows_of(path), FIRST)
    log_of(path, many)
    assert np.array_equal(rows_of(path), np.concatenate([FIRST, many]))


def test_a_log_can_be_written_after_a_full_disk(tmp_path, file_limit):
    """The torn record is gone at once, so the next one does not follow it."""
    with Checkpoint(tmp_path / "log") as log:
        log.append(FIRST, vector_space=SPACE)
        with file_limit(4096), pytest.raises(FileError):
            log.append(np.ones((2000, 2), np.float32), vector_space=SPACE)
        log.append(SECOND, vector_space=SPACE)
    assert np.array_equal(rows_of(tmp_path / "log"), np.concatenate([FIRST, SECOND]))


def test_a_disk_that_is_full_from_the_start_leaves_no_log(tmp_path, file_limit):
    """There is nothing in it to continue with."""
    with file_limit(100), pytest.raises(FileError, match="cannot be written"):
        log_of(tmp_path / "log", FIRST)
    assert not (tmp_path / "log").exists()


def test_a_log_that_is_closed_is_not_written(tmp_path):
    """Outside of its block."""
    with Checkpoint(tmp_path / "log") as log:
        pass
    with pytest.raises(FileError, match="is not open"):
        log.append(FIRST, vector_space=SPACE)


def test_two_runs_at_once_are_refused(tmp_path):
    """The second says that the first is writing."""
    path = log_of(tmp_path / "log", FIRST)
    with Checkpoint(path), pytest.raises(FileError, match="in use by another run"):
        log_of(path)


def test_nothing_embedded_nothing_left(tmp_path):
    """A run that fails before its first vector leaves no file."""
    assert not log_of(tmp_path / "log").exists()


def test_a_folder_that_is_not_there_is_told(tmp_path):
    """With the system's reason."""
    with pytest.raises(FileError, match="cannot be opened: No such file"):
        log_of(tmp_path / "none" / "log")
