"""Made-up data for the dashboard's picture, from a simulated function: three hours with a peak.

Requests arrive at random, take a time that depends on their texts, and meet a cold start if no
environment is free. All lines are statistics of the same requests, so they agree with each other.
"""

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from embedding_kit.prices import load_prices

__all__ = ["BEGIN_HOUR", "MINUTES", "rows", "series", "single_value"]

#: The picture shows three hours, from this hour on.
MINUTES, BEGIN_HOUR = 180, 9
_GB = 1769 / 1024
_PRICES = load_prices()
#: Seconds after which Lambda ends an idle environment, in this simulation.
_IDLE = 420
_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "Maximum": 1.0}
_APIS = ("openai", "openai", "openai", "native", "tei")


@dataclass(frozen=True, slots=True)
class _Request:
    second: float
    texts: int
    cached: int
    tokens: int
    milliseconds: float
    #: Milliseconds of the initialization before it; 0 if an environment was free.
    init: float
    memory: int
    status: int
    api: str
    #: Environments that are busy, with this one.
    concurrent: int

    @property
    def minute(self) -> int:
        return int(self.second // 60)


def rows(title: str) -> tuple[str, ...]:
    """Return the first rows of a query's result."""
    if title == "Slowest requests":
        slowest = sorted(_requests(), key=lambda one: -one.milliseconds)[:4]
        return tuple(
            f"{_clock(one)}  {one.milliseconds:5.0f} ms  {one.texts:2d} texts  "
            f"{one.tokens:5,d} tokens  {one.api:6s}  {one.status}"
            for one in slowest
        )
    if title == "Cold starts":
        latest = [one for one in _requests() if one.init][-4:]
        return tuple(
            f"{_clock(one)}  init {one.init:3.0f} ms  {one.memory} MB" for one in reversed(latest)
        )
    raise KeyError(title)


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
            (minute, _share(_inits(requests), _SHARES[statistic]))
            for minute, requests in enumerate(_by_minute())
            if _inits(requests)
        ]
    return list(enumerate(_all_series()[key]))


def single_value(key: str) -> str:
    """Return the value of a single-value widget, over the three hours."""
    if key != "US dollars per 1,000 embeddings":
        raise KeyError(key)
    texts = sum(one.texts for one in _requests())
    return f"${1000 * sum(map(_usd, _requests())) / texts:.5f}"


@cache
def _requests() -> tuple[_Request, ...]:
    return tuple(_simulate(random.Random(4)))  # noqa: S311 - chance that can be repeated


def _simulate(chance: random.Random) -> Iterator[_Request]:
    busy: list[float] = []  # When each busy environment is free again.
    free: list[float] = []  # Since when each free environment is idle; the last is used first.
    second = 0.0
    while True:
        minute = second / 60
        peak = 1.1 * math.exp(-(((minute - 118) / 7) ** 2))
        second += chance.expovariate(7 + 3 * math.sin(minute / 58) + 10 * peak)
        if second >= MINUTES * 60:
            return
        while busy and busy[0] <= second:
            free.append(heapq.heappop(busy))
        free = [since for since in free if second - since < _IDLE]
        init = 0.0
        if free:
            free.pop()
        else:
            init = max(240.0, chance.gauss(310, 30)) * (1.6 if chance.random() < 0.05 else 1)
        texts = chance.choice((1, 1, 1, 1, 1, 1, 2, 4, 16))
        tokens = sum(min(256, 4 + int(chance.lognormvariate(3.2, 0.7))) for _ in range(texts))
        status = 200 if chance.random() > 0.008 else 400
        milliseconds = 4 + tokens * 0.125 * chance.lognormvariate(0, 0.16) if status == 200 else 2.0
        heapq.heappush(busy, second + (init + milliseconds) / 1000)
        yield _Request(
            second=second,
            texts=texts,
            cached=sum(chance.random() < 0.12 for _ in range(texts)),
            tokens=tokens,
            milliseconds=milliseconds,
            init=init,
            memory=214 + min(60, tokens // 40),
            status=status,
            api=chance.choice(_APIS),
            concurrent=len(busy),
        )


@cache
def _by_minute() -> list[list[_Request]]:
    minutes: list[list[_Request]] = [[] for _ in range(MINUTES)]
    for one in _requests():
        minutes[one.minute].append(one)
    return minutes


@cache
def _all_series() -> dict[str, list[float]]:
    minutes = _by_minute()
    others = random.Random(9)  # noqa: S311
    account = [others.randint(5, 11) for _ in minutes]
    zero = [0.0] * MINUTES
    found = {
        "UrlRequestCount Sum": [float(len(of)) for of in minutes],
        "Url4xxCount Sum": [float(sum(one.status == 400 for one in of)) for of in minutes],
        "Url5xxCount Sum": zero,
        "Errors Sum": zero,
        "Throttles Sum": zero,
        "Errors, percent": zero,
        "Texts": [sum(one.texts for one in of) / 60 for of in minutes],
        "Texts from cache": [sum(one.cached for one in of) / 60 for of in minutes],
        "Tokens": [sum(one.tokens for one in of) / 60 for of in minutes],
        "TokenizationTime p50": [0.012 * _share(_tokens(of), 0.5) for of in minutes],
        "InferenceTime p50": [0.95 * _share(_durations(of), 0.5) for of in minutes],
        "InferenceTime p99": [0.95 * _share(_durations(of), 0.99) for of in minutes],
        "PaddingWaste Average": [
            4 * sum(one.texts > 1 for one in of) / max(1, len(of)) for of in minutes
        ],
        "BatchSize Average": [sum(one.texts for one in of) / max(1, len(of)) for of in minutes],
        "InitDuration SampleCount": [float(len(_inits(of))) for of in minutes],
        "RestoreDuration SampleCount": zero,
        "ProvisionedInitDuration SampleCount": zero,
        "ColdStarts Sum": [float(len(_inits(of))) for of in minutes],
        "Percent": [100 * len(_inits(of)) / max(1, len(of)) for of in minutes],
        "ConcurrentExecutions Maximum": [
            float(max((one.concurrent for one in of), default=0)) for of in minutes
        ],
        "MaxMemoryUsed p50": [_share([one.memory for one in of], 0.5) for of in minutes],
        "MaxMemoryUsed Maximum": [_share([one.memory for one in of], 1) for of in minutes],
        "US dollars per hour": [60 * sum(map(_usd, of)) for of in minutes],
    }
    found["ConcurrentExecutions Maximum of the account"] = [
        own + other
        for own, other in zip(found["ConcurrentExecutions Maximum"], account, strict=True)
    ]
    for name, share in _SHARES.items():
        found[f"Duration {name}"] = [_share(_durations(of), share) for of in minutes]
        # The URL adds some milliseconds, and the initialization of a cold start.
        found[f"UrlRequestLatency {name}"] = [
            6 + _share([one.milliseconds + one.init for one in of], share) for of in minutes
        ]
    return found


def _durations(requests: list[_Request]) -> list[float]:
    return [one.milliseconds for one in requests]


def _tokens(requests: list[_Request]) -> list[int]:
    return [one.tokens for one in requests]


def _inits(requests: list[_Request]) -> list[float]:
    return [one.init for one in requests if one.init]


def _share(values: list[float] | list[int], share: float) -> float:
    """Return the value that this share of the values does not exceed; 0 without values."""
    ordered = sorted(values)
    return float(ordered[math.ceil(share * len(ordered)) - 1]) if ordered else 0.0


def _usd(one: _Request) -> float:
    gb_seconds = (one.milliseconds + one.init) / 1000 * _GB
    return gb_seconds * _PRICES["lambda_duration"].usd + _PRICES["lambda_requests"].usd


def _clock(one: _Request) -> str:
    seconds = int(one.second)
    return f"{BEGIN_HOUR + seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
