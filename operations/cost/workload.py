"""The requests of a month, how long one takes, and how many meet a cold start."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from embedding_kit.settings import Model
from model_compiler.source.catalog import STATIC, estimate, find, measurements
from operations.cost import CostError

#: 730 hours, as AWS's price calculator counts a month.
MONTH_SECONDS = 730 * 3600
#: A diurnal rate is up to 90% above and below its mean, with its lowest rate at 2:00.
_SWING, _TROUGH_HOUR = 0.9, 2
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


def _diurnal() -> tuple[float, ...]:
    quarter = _TROUGH_HOUR + 6
    angles = (2 * math.pi * (hour + 0.5 - quarter) / 24 for hour in range(24))
    return tuple(1 + _SWING * math.sin(angle) for angle in angles)


#: Of each shape that has a name: equal parts of the month, by their rate over the mean rate.
SHAPES = {"flat": (1.0,), "diurnal": _diurnal()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """The requests and other amounts of a month; the options of `scripts/cost`."""

    requests: float = 1e6
    #: Of one text, or of one pair of a query and a passage.
    tokens: int = 128
    #: Passages that a reranker scores for one request; None of texts to embed.
    passages: int | None = None
    #: A name of `SHAPES`.
    shape: str = "diurnal"
    #: Of one core for one request; measured times of the model if None.
    milliseconds: float | None = None
    releases: float = 4
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
    #: Golden questions that the watch asks each day.
    questions: float = 200.0

    @property
    def rates(self) -> list[float]:
        """Requests a second in each of the equal parts of the month."""
        return [self.rate * multiple for multiple in SHAPES[self.shape]]

    @property
    def rate(self) -> float:
        """The mean number of requests a second."""
        return self.requests / MONTH_SECONDS

    @property
    def peak(self) -> float:
        """The highest rate over the mean rate."""
        return max(SHAPES[self.shape])

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
    cold = fmean(_cold_starts(rate, seconds, timeout) for rate in month.rates)
    return min(1.0, cold / month.rate)


def _cold_starts(rate: float, seconds: float, timeout: float) -> float:
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
    found, fewer = 0.0, -math.inf
    for busy in range(int(load + 10 * math.sqrt(load) + 25)):
        # Logarithms, as the probabilities of a high load are smaller than any float.
        log_busy = busy * math.log(load) - load - math.lgamma(busy + 1)
        high, low = max(fewer, log_busy), min(fewer, log_busy)
        fewer = high + math.log1p(math.exp(low - high))
        passages = rate * math.exp(log_busy - fewer)
        found += rate * math.exp(log_busy - passages * timeout)
    return found


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


def speed_of(model: Model) -> Speed:
    """Return the times of a model: of the catalog's shape, or estimated from its own folder."""
    table = measurements()
    ratios, source = _of_folder(model.folder) if model.folder else _of_catalog(model.name)
    if ratios is None:
        raise CostError(
            f"there are no measured times of {model.folder or model.name}; allowed: a model of the "
            "catalog that is listed with times (docs/models.md), a folder with the sizes in its "
            "config.json, or --milliseconds for one request"
        )
    times = (table.milliseconds["tokens_32"], table.milliseconds["tokens_256"])
    points = tuple(
        (tokens, time * ratio) for tokens, time, ratio in zip((32, 256), times, ratios, strict=True)
    )
    return Speed(points=points, source=f"{table.machine}, {source}")


def init_seconds(speed: Speed) -> float:
    """Return the CPU seconds of an initialization, of the measured shape nearest in time.

    They are those of the code and the model; fetching an image on AWS is not measured.
    """
    table = measurements()
    ratio = 1000 * core_seconds(speed, 32) / table.milliseconds["tokens_32"]
    starts = {shape.tokens_32: shape.start for shape in table.shapes.values()}
    nearest = min(starts, key=lambda tokens_32: abs(math.log(tokens_32 / ratio)))
    return table.milliseconds["start"] * starts[nearest] / 1000


def is_reranker(model: Model) -> bool:
    """Return whether a model's own folder is a cross-encoder, by its `config.json`."""
    try:
        config = json.loads(((model.folder or Path()) / "config.json").read_bytes())
        return any("SequenceClassification" in kind for kind in config["architectures"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _of_catalog(name: str) -> tuple[tuple[float, float] | None, str]:
    entry = find(name)
    shape = measurements().shapes.get(entry.shape) if entry else None
    if shape is None:
        return None, ""
    return (shape.tokens_32, shape.tokens_256), "measured.json"


def _of_folder(folder: Path) -> tuple[tuple[float, float] | None, str]:
    for path in (folder / "config.json", folder / "0_Transformer" / "config.json"):
        try:
            config = json.loads(path.read_bytes())
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise CostError(f"{path} cannot be read: {error}") from None
        ratios = estimate(config) if isinstance(config, dict) else None
        return ratios, f"estimated by the sizes in {path}"
    # An adapter alone has none, and a folder of S3 may not be here yet.
    modules = folder / "modules.json"
    static = modules.is_file() and "StaticEmbedding" in modules.read_text(encoding="utf-8")
    return (STATIC, "as static models of the catalog") if static else (None, "")
