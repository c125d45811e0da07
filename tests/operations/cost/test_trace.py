"""Test how a trace of arrivals is read."""

import numpy as np
import pytest

from operations.cost.duration import Speed
from operations.cost.errors import CostError
from operations.cost.trace import read_trace

SPEED = Speed(points=((32, 10.0), (512, 160.0)), source="a test")


@pytest.fixture
def trace(tmp_path):
    """Read a trace from text."""

    def read(text):
        path = tmp_path / "arrivals.csv"
        path.write_text(text, encoding="utf-8")
        return read_trace(path, tokens=100)

    return read


def test_times_are_seconds_or_iso_8601_in_any_order(trace):
    """The first arrival is at zero; a line without tokens has the given number."""
    read = trace("time,tokens\n90.5,32\n30\n\n60.25,512\n")
    assert read.arrivals.tolist() == [0, 30.25, 60.5]
    assert read.tokens.tolist() == [100, 512, 32]
    iso = trace("2026-11-02T08:00:00+01:00\n2026-11-02T07:00:30Z\n2026-11-02T07:01:00.5\n")
    assert iso.arrivals.tolist() == [0, 30, 60.5]


def test_the_traffic_has_the_traces_rate_in_each_minute(trace):
    """Three minutes with 4, 0 and 2 requests."""
    read = trace("\n".join(["0", "1", "2", "3", "120", "170"]))
    loads = {load.multiple: load.share for load in read.traffic.loads}
    assert loads == pytest.approx({0.0: 1 / 3, 1.0: 1 / 3, 2.0: 1 / 3})
    assert sum(load.share * load.multiple for load in read.traffic.loads) == pytest.approx(1)
    assert sum(loads.values()) == pytest.approx(1)


def test_each_request_takes_the_time_of_its_tokens(trace):
    """Not that of the mean number of tokens."""
    read = trace("0,32\n1,512\n")
    assert read.core_seconds(SPEED) == pytest.approx(0.085)
    durations = read.sample(SPEED, memory_mb=1769, threads=None).durations
    assert np.allclose(durations, [0.013, 0.163])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time\n0\nsoon\n", r"arrivals.csv, line 3: found: soon; allowed: lines of a time"),
        ("0,5\n1,0\n", r"line 2: found: 0 tokens; allowed: 1 or more"),
        ("0,5\n1,few\n", r"line 2: found: 1,few; allowed: lines"),
        ("0\nnan\n", r"line 2: found: nan; allowed: lines"),
        ("0\n", r"has 1 arrivals; allowed: two or more"),
        ("", r"has 0 arrivals; allowed: two or more"),
    ],
)
def test_a_line_without_a_time_is_an_error(trace, text, message):
    """It names the line, what was found and what is allowed."""
    with pytest.raises(CostError, match=message):
        trace(text)


def test_a_file_that_is_no_text_is_an_error(tmp_path):
    """Such as a compressed one."""
    path = tmp_path / "arrivals.csv.gz"
    path.write_bytes(b"\x1f\x8b\x08\x00\xff\xfe")
    with pytest.raises(CostError, match=r"is no CSV file; allowed: lines of a time"):
        read_trace(path, tokens=100)
