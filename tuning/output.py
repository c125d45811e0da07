"""The result as text and as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from embedding_kit.environment import Environment
from tuning.requests import EmbeddingRequest
from tuning.results import ALLOWED_COSINE, SizeResult, recommended

__all__ = ["as_json", "as_table"]

_WIDTH = 22


def as_table(
    environment: Environment, requests: Sequence[EmbeddingRequest], results: Sequence[SizeResult]
) -> str:
    """Return the table, what the sizes buy, and the recommendation."""
    return "\n".join(_lines(environment, requests, results)) + "\n"


def as_json(
    environment: Environment,
    requests: Sequence[EmbeddingRequest],
    results: Sequence[SizeResult],
    shares: Sequence[float],
) -> dict[str, Any]:
    """Return the result for programs."""
    best = recommended(results)
    return {
        "environment": environment.name,
        "lengths": [
            {"tokens": request.tokens, "texts": request.texts, "share": share}
            for request, share in zip(requests, shares, strict=True)
        ],
        "sizes": [_size(result) for result in results],
        "memory_mb": environment.function.memory_mb,
        "recommended": {"memory_mb": best.size.memory_mb, "threads": best.size.threads},
    }


def _size(result: SizeResult) -> dict[str, Any]:
    return {
        "memory_mb": result.size.memory_mb,
        "threads": result.size.threads,
        "init_ms": result.init_ms,
        "lengths": [
            {
                "p50_ms": length.p50,
                "p99_ms": length.p99,
                "usd_per_million": length.usd_per_million,
                "samples": length.samples,
            }
            for length in result.lengths
        ],
        "mean_ms": result.mean_ms,
        "mean_usd_per_million": result.mean_usd,
        "peak_memory_mb": result.peak_mb,
        "vectors": {"equal": result.equal, "cosine": result.cosine},
    }


def _lines(
    environment: Environment, requests: Sequence[EmbeddingRequest], results: Sequence[SizeResult]
) -> Iterator[str]:
    yield f"{'':{2 * _WIDTH}}{'p50 ms':>10}{'p99 ms':>10}{'$ a million':>14}"
    yield from _block("initialization", results, [_cells(one.init_ms) for one in results])
    for place, request in enumerate(requests):
        several = f", {request.texts} texts" if request.texts > 1 else ""
        found = [result.lengths[place] for result in results]
        yield from _block(
            f"{request.tokens:,} tokens{several}",
            results,
            [_cells(one.p50, one.p99, one.usd_per_million) for one in found],
        )
    means = [_cells(one.mean_ms, None, one.mean_usd) for one in results]
    yield from _block("mean of all requests", results, means)
    yield ""
    yield from _comparisons(requests, results)
    yield from _vectors(results)
    yield ""
    yield from _recommendation(environment, results)


def _block(name: str, results: Sequence[SizeResult], cells: Sequence[str]) -> Iterator[str]:
    """Yield a line for each size, the first of them with the block's name."""
    for place, (result, text) in enumerate(zip(results, cells, strict=True)):
        yield f"{'' if place else name:{_WIDTH}}{result.size!s:{_WIDTH}}{text}".rstrip()


def _cells(p50: float | None, p99: float | None = None, usd: float | None = None) -> str:
    times = "".join(f"{'' if ms is None else f'{ms:,.1f}':>10}" for ms in (p50, p99))
    return times + f"{'' if usd is None else f'{usd:,.2f}':>14}"


def _comparisons(
    requests: Sequence[EmbeddingRequest], results: Sequence[SizeResult]
) -> Iterator[str]:
    first = results[0]
    yield (
        "One thread uses one vCPU, which is 1,769 MB. Below it, a request costs the same and takes "
        "longer in"
    )
    yield "proportion; above it, it takes as long and costs more."
    for result in results[1:]:
        if result.size.threads > 1:
            yield f"{result.size.threads} threads, against {first.size}:"
            for request, old, new in zip(requests, first.lengths, result.lengths, strict=True):
                yield (
                    f"  {request.tokens:,} tokens: {old.p50 / new.p50:.2f} times as fast for "
                    f"{new.usd_per_million / old.usd_per_million:.2f} times the cost"
                )


def _vectors(results: Sequence[SizeResult]) -> Iterator[str]:
    if all(result.equal for result in results):
        yield "Vectors: equal bit for bit in each start of each size."
        return
    lowest = min(result.cosine for result in results)
    yield (
        f"Vectors: not equal bit for bit; the lowest cosine to those of {results[0].size} is "
        f"{lowest:.7f} (allowed: {ALLOWED_COSINE})."
    )
    yield ("  Only one thread on one kind of processor gives equal bits; AWS has several kinds.")


def _recommendation(environment: Environment, results: Sequence[SizeResult]) -> Iterator[str]:
    first, best = results[0], recommended(results)
    now = environment.function
    change = "as now" if best.size.memory_mb == now.memory_mb else f"now {now.memory_mb}"
    yield f"recommended: memory_mb = {best.size.memory_mb} ({change})"
    if best is first:
        others = [result for result in results if result is not best]
        reason = "; ".join(
            f"{result.size}: {result.mean_usd / best.mean_usd:.2f} times the cost, "
            f"{best.mean_ms / result.mean_ms:.2f} times as fast"
            for result in others
        )
        yield f"  the others cost more than they gain: {reason}" if others else "  the only size"
    else:
        yield (
            f"  {first.mean_ms / best.mean_ms:.2f} times as fast as {first.size} for "
            f"{best.mean_usd / first.mean_usd:.2f} times the cost"
        )
    if now.threads is not None and now.threads != best.size.threads:
        yield f"  threads = {best.size.threads} with it, or no threads (now {now.threads})"
    for result in results:
        if not result.right:
            yield f"  {result.size}: other vectors (cosine {result.cosine:.6f}), so not recommended"
