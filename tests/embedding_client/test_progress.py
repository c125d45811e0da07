"""The progress of a run."""

import io
import sys

import pytest

from embedding_client.progress import LineProgress, progress_on


@pytest.fixture
def lines():
    """Return a display, and the list with the time of its clock."""
    now = [0.0]
    return LineProgress("notes.csv", 1000, 200, clock=lambda: now[0]), now


def test_a_line_every_ten_seconds(lines, capsys):
    """It has the rows, the percentage, the rate of this run and the remaining time."""
    shown, now = lines
    for second in range(1, 31):
        now[0] = float(second)
        shown.update(10)
    shown.close()
    assert capsys.readouterr().err.splitlines() == [
        "notes.csv: 300 of 1000 rows (30%), 10.0 rows/s, 01:10 left",
        "notes.csv: 400 of 1000 rows (40%), 10.0 rows/s, 01:00 left",
        "notes.csv: 500 of 1000 rows (50%), 10.0 rows/s, 00:50 left",
    ]


def test_a_full_log_does_not_end_the_run(lines, monkeypatch):
    """An error while printing progress is ignored."""
    tried = []

    class Full(io.StringIO):
        def write(self, text):
            tried.append(text)
            raise OSError(28, "No space left on device")

    shown, now = lines
    monkeypatch.setattr(sys, "stderr", Full())
    now[0] = 11.0
    shown.update(1)
    assert tried


def test_a_terminal_shows_a_bar(monkeypatch, capsys):
    """It starts at the number of rows of the earlier run."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    bar = progress_on("notes.csv", total=1000, done=200)
    bar.update(300)
    bar.close()
    output = capsys.readouterr().err
    assert "200/1000" in output
    assert "500/1000" in output
