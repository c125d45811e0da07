"""From measured times to what each size costs, and which one is recommended."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from embedding_kit.prices import Prices
from tuning.errors import TuneError
from tuning.measure import Measured
from tuning.sizes import Size

__all__ = ["ALLOWED_COSINE", "LengthResult", "SizeResult", "recommended", "summarize"]

#: What `scripts/verify-image` allows between two processors, for int8.
ALLOWED_COSINE = 0.999
#: A larger size must be better by this part, or it is noise.
_CLEARLY = 0.05


@dataclass(frozen=True, slots=True)
class LengthResult:
    """One length at one size."""

    #: Milliseconds of the warm invocations, without the network.
    p50: float
    p99: float
    #: US dollars of a million requests at list prices, without cold starts and logs.
    usd_per_million: float
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeResult:
    """One size."""

    size: Size
    #: The median of the initializations; None if Lambda reported none.
    init_ms: float | None
    lengths: tuple[LengthResult, ...]
    #: The same for the mix of all lengths by their shares.
    mean_ms: float
    mean_usd: float
    peak_mb: int
    #: The lowest cosine of any vector to that of the first size.
    cosine: float
    #: Whether each vector is equal to that of the first size, bit for bit.
    equal: bool

    @property
    def right(self) -> bool:
        """Whether the vectors are those of the first size."""
        return self.cosine >= ALLOWED_COSINE


def summarize(
    measured: Sequence[Measured], shares: Sequence[float], prices: Prices
) -> tuple[SizeResult, ...]:
    """Compute times, costs and the agreement of vectors.

    Args:
        measured: What each size showed, by rising memory.
        shares: The share of the requests of each length.
        prices: The prices of the region.

    Raises:
        TuneError: No size was measured.
    """
    if not measured:
        raise TuneError("no size could be measured: the account allows none of them")
    return tuple(_summarize(one, measured[0], shares, prices) for one in measured)


def recommended(results: Sequence[SizeResult]) -> SizeResult:
    """Return the size with the lowest product of cost and time.

    So twice the cost must buy more than twice the speed. A larger size must be better by 5%, and
    its vectors must be those of the first one.
    """
    best = results[0]
    for result in results[1:]:
        if result.right and _product(result) < (1 - _CLEARLY) * _product(best):
            best = result
    return best


def _product(result: SizeResult) -> float:
    return result.mean_usd * result.mean_ms


def _summarize(
    one: Measured, first: Measured, shares: Sequence[float], prices: Prices
) -> SizeResult:
    lengths = []
    for reports in one.warm:
        times = [report.milliseconds for report in reports]
        seconds = statistics.fmean(report.billed for report in reports) / 1000
        usd = seconds * one.size.gb * prices["lambda_duration"].usd + prices["lambda_requests"].usd
        lengths.append(
            LengthResult(
                p50=statistics.median(times),
                p99=float(np.percentile(times, 99, method="inverted_cdf")),
                usd_per_million=1e6 * usd,
                samples=len(times),
            )
        )
    pairs = [
        (found, expected)
        for place, expecteds in enumerate(first.vectors)
        for expected in expecteds[:1]
        for found in one.vectors[place]
    ]
    return SizeResult(
        size=one.size,
        init_ms=statistics.median(one.inits) if one.inits else None,
        lengths=tuple(lengths),
        mean_ms=sum(s * length.p50 for s, length in zip(shares, lengths, strict=True)),
        mean_usd=sum(s * length.usd_per_million for s, length in zip(shares, lengths, strict=True)),
        peak_mb=one.peak_mb,
        cosine=min(float(_cosines(found, expected).min()) for found, expected in pairs),
        equal=all(np.array_equal(found, expected) for found, expected in pairs),
    )


def _cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the cosine of each row to the same row of the other: float64 [texts]."""
    left, right = one.astype(np.float64), other.astype(np.float64)
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return np.asarray((left * right).sum(axis=1) / lengths)
