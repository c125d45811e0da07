"""Batch jobs: the CPU time of a row of about 120 tokens, next to a loop over the engine.

- a loop over the engine, 64 texts at a time: the model alone;
- `jobs.embed` in one process, and in one for each core: files, shards and Parquet too;
- with --peers, sentence-transformers and fastembed, 64 texts at a time.

The model is all-MiniLM-L6-v2, and the texts are Python's docstrings.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from model_compiler.index_builder import standard_library
from model_compiler.source.find import find_source
from tools.bench.contenders import Contender, Worker, compile_modules
from tools.bench.replicas import artifact_of, export_of
from tools.bench.run import KIT, Row, Run, middle, turns
from tools.local_endpoint.models import DEFAULT_MODEL

#: A job takes at most this factor of the loop's CPU time.
_MOST = 1 / 0.9
_LOOP, _PROCESSES = "loop", "processes"
_PEERS = ("sentence-transformers", "fastembed")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the subject's options."""
    parser.add_argument("--rows", type=int, default=3000, help="default: %(default)s")


def measure(options: argparse.Namespace) -> Run:
    """Measure the jobs."""
    compile_modules()
    source = find_source(DEFAULT_MODEL).folder
    artifact = artifact_of(source, options.cache)
    known, chosen = standard_library(), random.Random(1)  # noqa: S311 - not for cryptography
    texts = [f"{n}: " + " ".join(chosen.sample(known, 4)) for n in range(options.rows)]
    everyone = {_LOOP: Contender(KIT, "loop over the engine", artifact)}
    if options.peers:
        export = export_of(source, options.cache, options.peers)
        for name, folder in zip(_PEERS, (source, export), strict=True):
            everyone[name] = Contender(name, name, folder, options.peers)
    present = {name: one for name, one in everyone.items() if not one.absent}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [json.dumps({"id": number, "text": text}) for number, text in enumerate(texts)]
        (folder / "docs").mkdir()
        (folder / "docs" / "texts.jsonl").write_text("\n".join(rows), encoding="utf-8")
        cores = os.cpu_count() or 1
        work: dict[str, Callable[[], tuple[float, float]]] = {
            name: partial(_library, one, texts) for name, one in present.items()
        }
        work |= {
            kind: partial(_job, folder, artifact, processes)
            for kind, processes in ((KIT, 1), (_PROCESSES, cores))
        }
        spent = turns(work, rounds=options.rounds, warm_up=0)
    cpu, wall = (
        middle(
            {name: [run[part] for run in runs] for name, runs in spent.items()}, 1000 / len(texts)
        )
        for part in (0, 1)
    )
    labels = {name: one.label for name, one in everyone.items()}
    labels |= {KIT: "jobs.embed", _PROCESSES: f"jobs.embed, {cores} processes"}
    return Run(
        "Batch jobs",
        labels,
        [Row("a row", "ms of CPU time", cpu, {_LOOP: _MOST}), Row("a row, elapsed", "ms", wall)],
        base=_LOOP,
        absent={one.label: one.absent for one in everyone.values() if one.absent},
    )


def _library(contender: Contender, texts: Sequence[str]) -> tuple[float, float]:
    """Return the CPU and wall-clock seconds of a start and of all texts."""
    with Worker(contender) as worker:
        used = worker.embed(*(texts[start : start + 64] for start in range(0, len(texts), 64)))
        return worker.start["cpu"] + used["cpu"], worker.start["wall"] + used["wall"]


def _job(folder: Path, artifact: Path, processes: int) -> tuple[float, float]:
    """Return the CPU and wall-clock seconds of a new job, with those of its processes."""
    with tempfile.TemporaryDirectory(dir=folder) as output:
        command = [sys.executable, "-m", "jobs.embed", str(folder / "docs"), output]
        command += ["--artifact", str(artifact), "--processes", str(processes)]
        before, began = os.times(), time.perf_counter()
        subprocess.run([*command, "--truncate", "right"], check=True, capture_output=True)  # noqa: S603
        after = os.times()
    return after[2] + after[3] - before[2] - before[3], time.perf_counter() - began
