"""How long a request takes: measured milliseconds of one core, scaled to memory and threads."""

import math
from dataclasses import dataclass

__all__ = ["OVERHEAD_SECONDS", "VCPU_MB", "Speed", "billed_seconds", "core_seconds", "speedup"]

#: Memory that equals one vCPU: https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html
VCPU_MB = 1769
#: Time of a request outside the model: the runtime, JSON and rounding up to a millisecond.
#: Inferred; the handler alone takes 0.5 ms (docs/performance.md).
OVERHEAD_SECONDS = 0.003
#: Growth beyond the longest measured text: time ~ tokens^1.3. EmbeddingGemma takes 14.7 times as
#: long for 2,048 tokens as for 256 (docs/performance.md).
_GROWTH = 1.3
#: The part of a run that a second thread shares: two threads are 1.7 times as fast on idle cores.
_PARALLEL = 2 * (1 - 1 / 1.7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Milliseconds of one core for one text, by its number of tokens."""

    #: Pairs of tokens and milliseconds, by rising tokens.
    points: tuple[tuple[int, float], ...]
    #: Where they were measured, in words.
    source: str
    #: The factor of the processor: 1.5 takes half as long again.
    slower: float = 1.0

    @property
    def longest(self) -> int:
        """The tokens of the longest measured text."""
        return self.points[-1][0]


def core_seconds(speed: Speed, tokens: int) -> float:
    """Return the seconds of one core for a text, by log-log interpolation."""
    x = math.log(tokens)
    known = [(math.log(count), math.log(time)) for count, time in speed.points]
    if len(known) == 1 or x <= known[0][0]:
        value = known[0][1]
        # A shorter text takes the time of the shortest that was measured: reading the weights
        # dominates there. One measurement alone is of this length.
    elif x >= known[-1][0]:
        value = known[-1][1] + _GROWTH * (x - known[-1][0])
    else:
        after = next(i for i, (count, _) in enumerate(known) if count >= x)
        (x0, y0), (x1, y1) = known[after - 1], known[after]
        value = y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return math.exp(value) * speed.slower / 1000


def billed_seconds(core: float, *, memory_mb: int, threads: int | None = None) -> float:
    """Return the billed seconds of a request on Lambda.

    Below 1,769 MB a function has a part of one vCPU. Above, one thread is no faster; each further
    vCPU helps only if a thread runs on it.

    Args:
        core: The seconds of one core.
        memory_mb: The function's memory.
        threads: Inference threads; one for each whole vCPU if None.
    """
    return core / speedup(memory_mb=memory_mb, threads=threads) + OVERHEAD_SECONDS


def speedup(*, memory_mb: int, threads: int | None = None) -> float:
    """Return how many times as fast as one core a function runs the model.

    Args:
        memory_mb: The function's memory.
        threads: Inference threads; one for each whole vCPU if None.
    """
    available = memory_mb / VCPU_MB
    used = min(available, threads or max(1, int(available)))
    return used if used <= 1 else 1 / (1 - _PARALLEL + _PARALLEL / used)
