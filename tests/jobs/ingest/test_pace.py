"""The rate of a load, on a clock that only its own pauses move."""

from jobs.ingest.pace import Pace


class Clock:
    """A clock that only moves when someone sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def read(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Move the time."""
        assert seconds > 0
        self.now += seconds


def test_vectors_are_written_at_the_rate_and_no_faster():
    """The first request goes at once. In the end, the last one has had its time."""
    clock = Clock()
    pace = Pace(500, now=clock.read, sleep=clock.sleep)
    starts = []
    for _ in range(4):
        pace.claim(500)
        starts.append(clock.now - 100)
    assert starts == [0, 1, 2, 3]
    pace.settle()
    assert clock.now == 104


def test_slow_requests_wait_for_nothing():
    """Time that was not used is not saved up for a burst."""
    clock = Clock()
    pace = Pace(500, now=clock.read, sleep=clock.sleep)
    pace.claim(500)
    clock.now += 30
    pace.claim(500)
    assert clock.now == 130
    pace.claim(500)
    assert clock.now == 131
