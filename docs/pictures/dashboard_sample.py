"""Made-up data for the dashboard's picture: three hours of random requests with a peak.

All lines of a minute are statistics of the same requests, so they agree with each other.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from embedding_kit.prices import load_prices

__all__ = ["BEGIN_HOUR", "MINUTES", "rows", "series", "single_value"]

#: The picture shows three hours, from this hour on.
MINUTES, BEGIN_HOUR = 180, 9
_GB = 1769 / 1024
_SHARES = {"p50": 50, "p90": 90, "p99": 99, "Maximum": 100}
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Minute:
    """The requests of one minute: an element of each array is a request."""

    second: Numbers
    texts: Numbers
    tokens: Numbers
    milliseconds: Numbers
    inits: Numbers  # Of the cold starts alone.
    memory: Numbers
    failed: int
    busy: int
    others: int

    @property
    def usd(self) -> float:
        """What Lambda's duration and requests cost."""
        prices, seconds = load_prices(), (self.milliseconds.sum() + self.inits.sum()) / 1000
        of_requests = prices["lambda_requests"].usd * len(self.second)
        return float(seconds * _GB * prices["lambda_duration"].usd + of_requests)


@cache
def _minutes() -> list[_Minute]:
    chance, environments, found = np.random.default_rng(4), 0, []
    for minute in range(MINUTES):
        peak = 11 * np.exp(-(((minute - 118) / 7) ** 2))
        count = int(chance.poisson(60 * (7 + 3 * np.sin(minute / 58) + peak)))
        texts = chance.choice([1.0] * 6 + [2.0, 4.0, 16.0], count)
        tokens = texts * np.minimum(256, 4 + chance.lognormal(3.2, 0.3, count)).round()
        milliseconds = 4 + tokens * 0.125 * chance.lognormal(0, 0.16, count)
        busy = int(2 + 2 * milliseconds.sum() / 60_000 + chance.integers(0, 2))
        # Lambda ends an idle environment now and then, and a busy minute needs more of them.
        started = max(0, busy - environments)
        environments = max(busy, environments) - int(chance.random() < 0.06)
        found.append(
            _Minute(
                second=60 * minute + np.sort(chance.uniform(0, 60, count)),
                texts=texts,
                tokens=tokens,
                milliseconds=milliseconds,
                inits=np.maximum(240, chance.normal(310, 30, started)),
                memory=214 + np.minimum(60, tokens // 40),
                failed=int(chance.binomial(count, 0.008)),
                busy=busy,
                others=int(chance.integers(5, 12)),
            )
        )
    return found


def series(key: str) -> list[tuple[int, float]]:
    """Return the minutes and values of a line; a minute may have no value.

    Args:
        key: Metric and statistic, or an expression's label.

    Raises:
        KeyError: The dashboard shows a line that has no made-up data.
    """
    metric, _, statistic = key.partition(" ")
    if metric == "InitDuration" and statistic in _SHARES:
        return [
            (number, float(np.percentile(minute.inits, _SHARES[statistic])))
            for number, minute in enumerate(_minutes())
            if len(minute.inits)
        ]
    found = [(number, _values(minute)) for number, minute in enumerate(_minutes())]
    if key not in found[0][1]:
        raise KeyError(f"{key}: give the dashboard's line made-up data, in {__file__}")
    return [(number, values[key]) for number, values in found]


def _values(of: _Minute) -> dict[str, float]:
    count, cold = len(of.second), float(len(of.inits))
    none = "Url5xxCount Sum", "Errors Sum", "Throttles Sum", "Errors, percent"
    never = "RestoreDuration SampleCount", "ProvisionedInitDuration SampleCount"
    of_url = np.append(of.milliseconds, of.inits + 20)
    return {
        **dict.fromkeys(none + never, 0.0),
        "UrlRequestCount Sum": float(count),
        "Url4xxCount Sum": float(of.failed),
        "Texts": of.texts.sum() / 60,
        "Texts from cache": 0.12 * of.texts.sum() / 60,
        "Tokens": of.tokens.sum() / 60,
        "TokenizationTime p50": 0.012 * float(np.median(of.tokens)),
        "InferenceTime p50": 0.95 * float(np.median(of.milliseconds)),
        "InferenceTime p99": 0.95 * float(np.percentile(of.milliseconds, 99)),
        "PaddingWaste Average": 4 * float((of.texts > 1).mean()),
        "BatchSize Average": float(of.texts.mean()),
        "InitDuration SampleCount": cold,
        "ColdStarts Sum": cold,
        "Percent": 100 * cold / count,
        "ConcurrentExecutions Maximum": float(of.busy),
        "ConcurrentExecutions Maximum of the account": float(of.busy + of.others),
        "MaxMemoryUsed p50": float(np.median(of.memory)),
        "MaxMemoryUsed Maximum": float(of.memory.max()),
        "US dollars per hour": 60 * of.usd,
    } | {
        # The URL adds some milliseconds, and the initialization of a cold start.
        f"{metric} {name}": float(np.percentile(values, share))
        for metric, values in (("Duration", of.milliseconds), ("UrlRequestLatency", of_url + 6))
        for name, share in _SHARES.items()
    }


def single_value(key: str) -> str:
    """Return the value of a single-value widget, over the three hours."""
    if key != "US dollars per 1,000 embeddings":
        raise KeyError(key)
    usd, texts = sum(of.usd for of in _minutes()), sum(of.texts.sum() for of in _minutes())
    return f"${1000 * usd / texts:.5f}"


def rows(title: str) -> list[str]:
    """Return the first rows of a query's result."""
    if title == "Slowest requests":
        slowest = sorted(_minutes(), key=lambda of: -of.milliseconds.max())[:4]
        return [_slow(of, int(of.milliseconds.argmax())) for of in slowest]
    if title == "Cold starts":
        cold = [of for of in _minutes() if len(of.inits)][:-5:-1]
        return [f"{_clock(of.second[0])}  init {of.inits[0]:3.0f} ms  214 MB" for of in cold]
    raise KeyError(title)


def _slow(of: _Minute, row: int) -> str:
    return (
        f"{_clock(of.second[row])}  {of.milliseconds[row]:5.0f} ms  {of.texts[row]:2.0f} texts  "
        f"{of.tokens[row]:5,.0f} tokens  openai  200"
    )


def _clock(second: float) -> str:
    minutes, seconds = divmod(int(second), 60)
    return f"{BEGIN_HOUR + minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}"
