"""`scripts/bench --family NAME`: Embedding Kit and the usual deployment, in one run."""

import os
import statistics
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from tools.bench.contenders import KIT, Contender, Worker
from tools.bench.families.folders import Folders, prepare
from tools.bench.families.report import FamilyResults, FamilyRow, target
from tools.bench.families.shapes import FAMILIES, SHAPES, Shape
from tools.bench.families.texts import Texts
from tools.bench.machine import cpu_name
from tools.bench.measure import MEMORY_TOKENS, Request

__all__ = ["folder_megabytes", "latency", "measure_family", "starts"]

#: The usual deployments of a model with a graph and of a static one, in `tools.bench.worker`.
EXPORT, STATIC = "export", "model2vec"
LENGTHS = (32, 256, 2048)
#: The numbers of tokens of the 64 short texts, from 4 to 24: queries and titles differ in length.
SHORT_TEXTS = [4 + 37 * place % 21 for place in range(64)]

#: After so many seconds a request is not run again, once it was measured so many times.
_SECONDS, _FEWEST = 30, 3


def measure_family(
    family: str, *, cache: Path, peers_python: str, count: int, runs: int
) -> FamilyResults:
    """Measure a replica of a family's model.

    Args:
        family: A name in `FAMILIES`.
        cache: The folder for the replica.
        peers_python: An interpreter with torch, transformers and model2vec.
        count: The number of starts of each contender.
        runs: The number of runs of each request.
    """
    name = FAMILIES[family]
    shape = SHAPES[name]
    folders = prepare(cache, name, shape, peers_python)
    present = _contenders(folders, shape, peers_python)
    kit, base = present
    texts = Texts(folders.source / "tokenizer.json")
    memory = texts.batch([min(MEMORY_TOKENS, shape.max_tokens)])
    started = starts(present, dict.fromkeys(present, memory), count=count)
    found = [
        ("init", "ms of CPU time", {label: row["cpu"] for label, row in started.items()}),
        ("peak memory", "MB", {label: row["peak"] for label, row in started.items()}),
    ]
    requests = {
        f"{length} tokens": texts.batch([length])
        for length in LENGTHS
        if length <= shape.max_tokens
    }
    requests["64 short texts"] = texts.batch(SHORT_TEXTS)
    for name, request in requests.items():
        times = latency(present, dict.fromkeys(present, request), runs=runs)
        found.append((name, "ms of CPU time", times))
    return FamilyResults(
        family=family,
        base=base,
        machine=f"{cpu_name()}, {os.cpu_count()} cores, one thread, "
        f"ONNX Runtime {version('onnxruntime')}",
        sizes={
            "artifact": folder_megabytes(folders.artifact),
            base: folder_megabytes(folders.export),
        },
        rows=[
            FamilyRow(
                label, unit, values[kit], values[base], target(label, vocabulary=shape.vocabulary)
            )
            for label, unit, values in found
        ],
    )


def starts(
    present: Mapping[str, Contender], requests: Mapping[str, Request], *, count: int
) -> dict[str, dict[str, float]]:
    """Start the contenders in turns, and let each answer one request.

    Returns:
        By the contender's label: `cpu`, the least milliseconds of CPU time until it was ready, and
        `peak`, the median peak memory in MB after the request. Other work on the machine adds to a
        time and never subtracts from it, so the least is the nearest to the contender's own.
    """
    seen: dict[str, list[tuple[float, float]]] = {label: [] for label in present}
    for _ in range(count + 1):  # The first start is not measured.
        for label, contender in present.items():
            with Worker(contender) as worker:
                cpu = worker.start["cpu"] * 1000
                seen[label].append((cpu, worker.embed(requests[label])["peak"]))
    return {
        label: {
            "cpu": min(cpu for cpu, _ in rows[1:]),
            "peak": statistics.median(peak for _, peak in rows[1:]),
        }
        for label, rows in seen.items()
    }


def latency(
    present: Mapping[str, Contender], requests: Mapping[str, Request], *, runs: int
) -> dict[str, float]:
    """Return the least milliseconds of CPU time of each contender's request, by its label.

    All contenders are loaded, and take turns. The first run is not measured. A request that takes
    long is run less often: the runs end after 30 seconds, but not before the fourth.
    """
    times: dict[str, list[float]] = {label: [] for label in present}
    with ExitStack() as stack:
        workers = {
            label: stack.enter_context(Worker(contender)) for label, contender in present.items()
        }
        end = time.monotonic() + _SECONDS
        for done in range(runs + 1):
            if done > _FEWEST and time.monotonic() > end:
                break
            for label, worker in workers.items():
                times[label].append(worker.embed(requests[label])["cpu"] * 1000)
    return {label: min(row[1:]) for label, row in times.items()}


def folder_megabytes(folder: Path) -> float:
    """Return the size of the files that a deployment of a folder needs."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def _contenders(folders: Folders, shape: Shape, peers_python: str) -> dict[str, Contender]:
    """Return Embedding Kit and the usual deployment, by their labels."""
    kit = Contender(KIT, "Embedding Kit", folders.artifact, sys.executable)
    base = (
        Contender(EXPORT, "plain ONNX export", folders.export, sys.executable)
        if shape.config
        else Contender(STATIC, "model2vec", folders.export, peers_python)
    )
    return {contender.label: contender for contender in (kit, base)}
