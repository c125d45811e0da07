"""The tables of `scripts/bench download`, with the targets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Figures", "as_text"]


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured; medians."""

    cpu: str
    #: The machine's load when the measurement began.
    load: float
    rounds: int
    #: The object's size.
    megabytes: float
    #: What was started → its figures.
    starts: Mapping[str, Mapping[str, float]]
    #: The way of opening the graph → its figures, or why ONNX Runtime refused it.
    ways: Mapping[str, Mapping[str, Any]]


def as_text(figures: Figures) -> str:
    """Return the tables in Markdown."""
    return "\n".join([*_lines(figures), ""])


def _lines(figures: Figures) -> Iterator[str]:
    starts = figures.starts
    http, https = starts["http"], starts["https"]
    image, s3 = starts["from the image"], starts["from S3"]
    yield (
        f"{figures.megabytes:.0f} MB; medians of {figures.rounds} rounds; {figures.cpu}, "
        f"load {figures.load:.1f}"
    )
    yield ""
    yield "| step | found | target |"
    yield "|---|---|---|"
    yield (
        f"| client made, CPU | {starts['setup']['cpu ms']:.0f} ms "
        f"(botocore: {starts['botocore']['cpu ms']:.0f}) | 70 ms |"
    )
    yield f"| parts read, CRC-32, written, CPU, HTTP | {http['fetch s/GB']:.2f} s/GB | 1 s/GB |"
    yield f"| the same, HTTPS | {https['fetch s/GB']:.2f} s/GB | |"
    yield f"| SHA-256, CPU | {https['SHA-256 s/GB']:.2f} s/GB | |"
    yield f"| peak memory of the process that only downloads | {https['peak MB']:.0f} MB | 40 MB |"
    yield (
        f"| start, CPU | {s3['start cpu ms']:.0f} ms (from the image: "
        f"{image['start cpu ms']:.0f}) | |"
    )
    yield _step("start beside the network, CPU", s3, image, "beside the network ms", "500 ms")
    yield _step("the same without warming the model, CPU", s3, image, "without warming ms")
    yield _step("session, CPU", s3, image, "session ms", "5%")
    yield (
        f"| memory after the start | {s3['MB']:.0f} MB (from the image: {image['MB']:.0f}; "
        f"{100 * (s3['MB'] / image['MB'] - 1):+.1f}%) | 5% |"
    )
    yield ""
    yield from _ways(figures.ways)


def _step(
    name: str, s3: Mapping[str, float], image: Mapping[str, float], key: str, target: str = ""
) -> str:
    """Return the row of a part of the start."""
    more = 100 * (s3[key] / image[key] - 1)
    return (
        f"| {name} | {s3[key]:.0f} ms (from the image: {image[key]:.0f}; {more:+.1f}%) | {target} |"
    )


def _ways(ways: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    base = ways["path"]
    yield "| the graph is opened as | session, CPU | memory after a run | peak | vector |"
    yield "|---|---|---|---|---|"
    for name, found in ways.items():
        if "refused" in found:
            yield f"| {name} | refused | | | {' '.join(found['refused'].split())[:160]} |"
            continue
        yield (
            f"| {name} | {found['cpu ms']:.0f} ms ({found['cpu ms'] / base['cpu ms']:.1f}x) "
            f"| {found['MB']:.0f} MB ({found['MB'] / base['MB']:.1f}x) "
            f"| {found['peak MB']:.0f} MB | {found['vector']} |"
        )
