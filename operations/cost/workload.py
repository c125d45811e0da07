"""The requests of a month, how long one takes, and how many meet a cold start."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from embedding_kit.settings import ModelSettings
from model_compiler.source.catalog import STATIC, estimate, find, measurements

#: 730 hours, as AWS's price calculator counts a month.
MONTH_SECONDS = 730 * 3600
#: A day's rate is up to 90% above and below its mean.
_SWING = 0.9
#: The rate of each hour of a day over the mean rate.
HOURLY = tuple(1 + _SWING * math.sin(2 * math.pi * (hour + 0.5) / 24) for hour in range(24))
#: X-Ray traces the first request of each second, and this share of the others. On Lambda nobody can
#: change that: https://docs.aws.amazon.com/lambda/latest/dg/services-xray.html
_TRACED = 0.05
#: Memory that equals one vCPU: https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html
VCPU_MB = 1769
#: Time of a request outside the model: the runtime, JSON and rounding up to a millisecond.
#: Inferred; the handler alone takes 0.5 ms (docs/performance.md).
OVERHEAD_SECONDS = 0.003
#: Growth beyond the longest measured text: time ~ tokens^1.3. EmbeddingGemma takes 14.7 times as
#: long for 2,048 tokens as for 256 (docs/performance.md).
_GROWTH = 1.3
#: The part of a run that a second thread shares: two threads took 0.66 of the time of one for 512
#: tokens (docs/performance.md).
_PARALLEL = 2 * (1 - 0.66)


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """The requests and other amounts of a month; the options of `scripts/cost`."""

    requests: float = 1e6
    #: Tokens of the text of one request.
    tokens: int = 128
    #: Time of one core for one request; measured times of the model if None.
    milliseconds: float | None = None
    #: Texts that batch jobs embed.
    batch_texts: float = 0.0
    #: Vectors that are loaded into the index in this month, and kept.
    vectors: float = 0.0
    #: Searches of the index; one for each request if None.
    searches: float | None = None
    #: Documents that are compared with the index each night.
    documents: float = 0.0
    #: Documents that are new, changed or deleted in this month.
    changes: float = 0.0
    #: Chunks that are embedded for them; 3 for each if None.
    chunks: float | None = None

    @property
    def rates(self) -> list[float]:
        """Requests a second in each hour of a day."""
        return [self.rate * multiple for multiple in HOURLY]

    @property
    def rate(self) -> float:
        """The mean number of requests a second."""
        return self.requests / MONTH_SECONDS

    @property
    def sampled(self) -> float:
        """The requests that X-Ray traces, if they arrive independently."""
        firsts = MONTH_SECONDS * fmean(-math.expm1(-rate) for rate in self.rates)
        return firsts + _TRACED * (self.requests - firsts)


def cold_start_share(month: Month, *, seconds: float, timeout: float) -> float:
    """Return the share of requests that meet a cold start, if they arrive independently.

    Lambda ends an environment that was idle for `timeout` seconds. Each rate is taken as if it
    lasted: right for a rate that changes within hours, and too low for bursts.
    """
    if not month.requests:
        return 0.0
    mean = fmean(cold_starts(rate, seconds, timeout) for rate in month.rates)
    return min(1.0, mean / month.rate)


def cold_starts(rate: float, seconds: float, timeout: float) -> float:
    """Return cold starts a second, if Lambda reuses the environment that was used last.

    The number of requests in flight is a Poisson number. An environment is idle while fewer than k
    requests are in flight, and the rise to k is a cold start if that took longer than the timeout:

        sum over k of  rate * P(k - 1 in flight) * P(time from k - 1 to k > timeout)

    The time is taken as exponential with its mean, rate * P(k - 1 in flight) / P(fewer than k in
    flight): exact for k = 1, and within 15% of the exact passage time of the chain M/M/inf else.
    """
    load = rate * seconds
    if not load:
        return 0.0
    total, fewer = 0.0, -math.inf
    for busy in range(int(load + 10 * math.sqrt(load) + 25)):
        # Logarithms, as the probabilities of a high load are smaller than any float.
        log_busy = busy * math.log(load) - load - math.lgamma(busy + 1)
        high, low = max(fewer, log_busy), min(fewer, log_busy)
        fewer = high + math.log1p(math.exp(low - high))
        passages = rate * math.exp(log_busy - fewer)
        total += rate * math.exp(log_busy - passages * timeout)
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Milliseconds of one core for one text, by its number of tokens."""

    #: Pairs of tokens and milliseconds, by rising tokens.
    points: tuple[tuple[int, float], ...]
    #: Where they were measured, in words.
    source: str


def core_seconds(speed: Speed, tokens: int) -> float:
    """Return the seconds of one core for a text, by log-log interpolation."""
    lengths, times = zip(*speed.points, strict=True)
    # A shorter text takes the time of the shortest that was measured: reading the weights dominates
    # there.
    within = np.interp(math.log(tokens), np.log(lengths), np.log(times))
    beyond = max(0.0, math.log(tokens / lengths[-1]))
    return math.exp(within + _GROWTH * beyond) / 1000


def billed_seconds(core: float, *, memory_mb: int) -> float:
    """Return the billed seconds on Lambda of a request that takes seconds of one `core`.

    Below 1,769 MB a function has a part of one vCPU. Above, one thread is no faster, and each
    further whole vCPU has a thread.
    """
    available = memory_mb / VCPU_MB
    threads = int(available)
    faster = available if threads < 1 else 1 / (1 - _PARALLEL + _PARALLEL / threads)
    return core / faster + OVERHEAD_SECONDS


def model_speed(model: ModelSettings) -> Speed:
    """Return the times of a model: of the catalog's shape, or estimated from its own folder."""
    table = measurements()
    ratios, source = _from_folder(model) if model.folder else _from_catalog(model.name)
    if ratios is None:
        raise ValueError(
            f"there are no measured times of {model.folder or model.name}; allowed: a model of the "
            "catalog that is listed with times (docs/models.md), a folder with the sizes in its "
            "config.json, or --milliseconds for one request"
        )
    times = (table.milliseconds["tokens_32"], table.milliseconds["tokens_256"])
    points = tuple(
        (tokens, time * ratio) for tokens, time, ratio in zip((32, 256), times, ratios, strict=True)
    )
    return Speed(points=points, source=f"{table.machine}, {source}")


def _from_catalog(name: str) -> tuple[tuple[float, float] | None, str]:
    entry = find(name)
    shape = measurements().shapes.get(entry.shape) if entry else None
    if shape is None:
        return None, ""
    return (shape.tokens_32, shape.tokens_256), "measured.json"


def _from_folder(model: ModelSettings) -> tuple[tuple[float, float] | None, str]:
    folder = model.folder or Path()
    for path in (folder / "config.json", folder / "0_Transformer" / "config.json"):
        try:
            config = json.loads(path.read_bytes())
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} cannot be read: {error}") from None
        if not isinstance(config, dict):
            return None, ""
        # A request to a reranker takes the time of all its pairs, one to a classifier of its text.
        if "Classification" in str(config.get("architectures")) and model.task != "classify":
            return None, ""
        return estimate(config), f"estimated by the sizes in {path}"
    # An adapter alone has none, and a folder of S3 may not be here yet.
    modules = folder / "modules.json"
    static = modules.is_file() and "StaticEmbedding" in modules.read_text(encoding="utf-8")
    return (STATIC, "as static models of the catalog") if static else (None, "")
