"""Cold starts by simulation, as a band, with a progress bar."""

from collections.abc import Callable

from tqdm import tqdm

from operations.cost.forecast import TIMEOUTS, ColdStarts
from operations.cost.simulation import Sample, least_recent, most_recent

__all__ = ["lowest_share", "simulated_cold_starts"]

_MINUTE = 60.0


def lowest_share(sample: Sample) -> float:
    """Return the share if the environment that is idle longest is taken, and lives long."""
    count = len(sample.arrivals)
    return least_recent(sample, TIMEOUTS[-1] * _MINUTE) / count if count else 0.0


def simulated_cold_starts(sample: Sample, *, progress: bool) -> ColdStarts:
    """Return the band of a sample.

    Args:
        sample: The requests.
        progress: Whether to draw a progress bar on standard error.
    """
    count = len(sample.arrivals)
    if not count:
        return ColdStarts(0.0, 0.0, 0.0, "simulation")
    shortest, longest = (minutes * _MINUTE for minutes in TIMEOUTS)
    runs: tuple[tuple[Callable[[Sample, float], int], float], ...] = (
        (least_recent, longest),
        (most_recent, longest),
        (most_recent, shortest),
    )
    shares = []
    with tqdm(
        total=len(runs) * count, unit=" requests", desc="simulating", disable=not progress
    ) as bar:
        for simulate, timeout in runs:
            shares.append(simulate(sample, timeout) / count)
            bar.update(count)
    lowest, recent, highest = shares
    return ColdStarts(lowest, recent, highest, "simulation")
