"""The log that lets a run go on."""

import numpy as np
import pytest

from embedding_client import FileError
from embedding_client.vector_log import VectorLog

JOB = {"source": {"path": "a"}, "options": {"dtype": "float32"}}
FIRST = np.arange(6, dtype=np.float32).reshape(3, 2)
SECOND = FIRST + 10


def log_of(path, *parts, job=JOB):
    with VectorLog(path, job=job) as log:
        for part in parts:
            log.append(part, vector_space="m@1/x/2")
    return path


def rows_of(path, job=JOB, **how):
    with VectorLog(path, job=job) as log:
        parts = list(log.read(**how))
        return np.concatenate(parts) if parts else np.empty((0, 0))


def test_it_goes_on_where_it_was(tmp_path):
    """Rows of several runs stand in their order, with the vector space of the first."""
    path = log_of(tmp_path / "log", FIRST)
    log_of(path, SECOND)
    assert np.array_equal(rows_of(path, rows=2), np.concatenate([FIRST, SECOND]))
    with VectorLog(path, job=JOB) as log:
        assert (log.vector_space, log.shape, log.rows) == ("m@1/x/2", (6, 2), 6)


@pytest.mark.parametrize("cut", range(1, 25))
def test_a_row_that_was_not_whole_is_forgotten(tmp_path, cut):
    """A run that ended anywhere, even within a number, leaves whole rows only."""
    path = log_of(tmp_path / "log", FIRST)
    path.write_bytes(path.read_bytes()[:-cut])
    whole = 3 - -(-cut // 8)
    assert np.array_equal(rows_of(path), FIRST[:whole] if whole else rows_of(path))
    log_of(path, SECOND)
    assert np.array_equal(rows_of(path), np.concatenate([FIRST[:whole], SECOND]))


def test_a_header_that_was_not_whole_is_begun_anew(tmp_path):
    """A run that ended in the first line had embedded nothing."""
    path = log_of(tmp_path / "log", FIRST)
    path.write_bytes(path.read_bytes()[:10])
    log_of(path, SECOND)
    assert np.array_equal(rows_of(path), SECOND)


def test_another_job_is_refused(tmp_path):
    """Vectors of another file, or made in another way, are not mixed in."""
    path = log_of(tmp_path / "log", FIRST)
    with pytest.raises(FileError, match="begun for another file, state of the file, or options"):
        log_of(path, job={**JOB, "options": {"dtype": "int8"}})


def test_another_file_is_refused(tmp_path):
    """A file of that name that is something else is not touched."""
    path = tmp_path / "log"
    path.write_bytes(b"precious\nthings\n")
    with pytest.raises(FileError, match="not a log of vectors"):
        log_of(path)
    assert path.read_bytes() == b"precious\nthings\n"


def test_two_runs_at_once_are_refused(tmp_path):
    """The second says that the first is writing."""
    path = log_of(tmp_path / "log", FIRST)
    with VectorLog(path, job=JOB), pytest.raises(FileError, match="another run is writing"):
        log_of(path)


def test_nothing_embedded_nothing_left(tmp_path):
    """A run that fails before its first vector leaves no file."""
    assert not log_of(tmp_path / "log").exists()


def test_a_folder_that_is_not_there_is_told(tmp_path):
    """With the system's reason."""
    with pytest.raises(FileError, match="cannot be opened: No such file"):
        log_of(tmp_path / "none" / "log")
