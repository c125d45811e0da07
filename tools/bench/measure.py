"""The measurements. Contenders always take turns, so that all run under the same conditions."""

import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tokenizers import Tokenizer

from tools.bench.contenders import BASE, Contender, Worker

__all__ = [
    "MEMORY_TOKENS",
    "Batches",
    "Request",
    "Requests",
    "Start",
    "batches",
    "latency",
    "starts",
]

#: The length in tokens of the request after which memory is read.
MEMORY_TOKENS = 512
#: Consecutive starts of a contender: unmeasured ones to warm up, then measured ones.
WARM_UPS, STARTS = 2, 3
DROP_CACHES = Path("/proc/sys/vm/drop_caches")

Start = dict[str, float]
Batches = dict[str, dict[str, float]]
#: Texts and their token ids; without ids, a contender tokenizes the texts.
Request = tuple[list[str], list[list[int]]]


class Requests:
    """Create texts with a given number of tokens, special tokens included.

    Args:
        tokenizer: The model's `tokenizer.json`.
    """

    def __init__(self, tokenizer: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_truncation()
        self._words = [
            token
            for token, number in self._tokenizer.get_vocab().items()
            if number < 60_000 and token.startswith("▁") and token[1:].isalpha() and len(token) > 2
        ]
        self._words.sort()

    def text(self, tokens: int, seed: int) -> tuple[str, list[int]]:
        """Return a text and its ids."""
        source = random.Random(f"{tokens} {seed}")  # noqa: S311 - not a secret
        words: list[str] = []
        ids = self._tokenizer.encode("").ids
        while len(ids) < tokens:
            words += [source.choice(self._words)[1:] for _ in range(1 + (tokens - len(ids)) // 2)]
            ids = self._tokenizer.encode(" ".join(words)).ids
        # Extra tokens are removed from the middle, so that the last token stays the same.
        return " ".join(words), [*ids[: tokens - 1], ids[-1]]

    def batch(self, lengths: Sequence[int]) -> Request:
        """Return one request with a text of each length."""
        pairs = [self.text(length, seed) for seed, length in enumerate(lengths)]
        return [text for text, _ in pairs], [ids for _, ids in pairs]


def starts(
    present: Sequence[Contender], request: Request, *, rounds: int, cold: bool
) -> dict[str, Start]:
    """Start each contender several times in a row, in turns with the others, round after round.

    The first starts of a row are not measured: the others' starts between two rows take long
    enough for a kernel or a hypervisor that reclaims memory to drop files from the page cache and
    to release free pages. For cold starts, the page cache is dropped before each one.

    Returns:
        For each contender: median seconds `cpu` and `wall` until it is ready; the peak memory in MB
        after the start, `start_peak`, and after the request, `peak`.
    """
    seen: dict[str, list[Start]] = {contender.kind: [] for contender in present}
    for _ in range(rounds):
        for contender in present:
            row = [_start(contender, request, cold=cold) for _ in range(WARM_UPS + STARTS)]
            seen[contender.kind] += row[WARM_UPS:]
    return {
        kind: {key: statistics.median(found[key] for found in rows) for key in rows[0]}
        for kind, rows in seen.items()
    }


def _start(contender: Contender, request: Request, *, cold: bool) -> Start:
    if cold:
        drop_page_cache()
    with Worker(contender) as worker:
        started = worker.start
        after = worker.embed(request)
    return {
        "cpu": started["cpu"],
        "wall": started["wall"],
        "start_peak": started["peak"],
        "peak": after["peak"],
    }


def latency(
    present: Sequence[Contender],
    requests: Requests,
    lengths: Sequence[int],
    *,
    seconds: float,
) -> dict[int, dict[str, float]]:
    """Return for each length the median CPU seconds of one text, by contender.

    Args:
        present: The contenders to measure; all of them run at once, and take turns.
        requests: The source of the texts.
        lengths: The lengths in tokens.
        seconds: Wall-clock time for each length.
    """
    with ExitStack() as stack:
        workers = {contender.kind: stack.enter_context(Worker(contender)) for contender in present}
        found: dict[int, dict[str, float]] = {}
        for length in lengths:
            request = requests.batch([length])
            times: dict[str, list[float]] = {kind: [] for kind in workers}
            for worker in workers.values():
                worker.embed(request)
            end = time.monotonic() + seconds
            while time.monotonic() < end or len(times[BASE]) < 3:
                for kind, worker in workers.items():
                    times[kind].append(worker.embed(request)["cpu"])
            found[length] = {kind: statistics.median(row) for kind, row in times.items()}
            sys.stderr.write(f"latency at {length} tokens measured\n")
        return found


def batches(present: Sequence[Contender], requests: Requests, *, rounds: int) -> Batches:
    """Return seconds of CPU time per text, by the kind of request and by contender.

    The baseline embeds one text at a time. The others get the whole request.
    """
    source = random.Random(3)  # noqa: S311 - not a secret
    mixed = [min(400, max(4, round(2.718 ** source.gauss(3.7, 0.8)))) for _ in range(24)]
    kinds = {"64 texts of 8 tokens": [8] * 64, "24 texts of 4 to 400 tokens": mixed}
    found: Batches = {name: {} for name in kinds}
    with ExitStack() as stack:
        workers = {contender.kind: stack.enter_context(Worker(contender)) for contender in present}
        for name, lengths in kinds.items():
            whole = requests.batch(lengths)
            single = [([text], [ids]) for text, ids in zip(*whole, strict=True)]
            asked = {kind: single if kind == BASE else [whole] for kind in workers}
            times: dict[str, list[float]] = {kind: [] for kind in workers}
            for _ in range(rounds + 1):  # The first run warms up.
                for kind, worker in workers.items():
                    times[kind].append(worker.embed(*asked[kind])["cpu"])
            for kind, row in times.items():
                found[name][kind] = statistics.median(row[1:]) / len(lengths)
    return found


def drop_page_cache() -> None:
    """Drop the kernel's page cache; needs root."""
    os.sync()
    DROP_CACHES.write_text("1", encoding="ascii")
