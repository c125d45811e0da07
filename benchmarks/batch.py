"""Batch embedding against a loop over the engine and against other libraries.

`python -m benchmarks.batch [--rows N] [--peers PYTHON]` embeds the same texts, made of Python's
docstrings, with all-MiniLM-L6-v2:

- a loop over the engine, 64 texts at a time: the model alone;
- `batch_embedding` in one process, and in one for each core: files, shards and Parquet too;
- with `--peers`, an interpreter that has sentence-transformers: its `encode`, on one thread.

The contenders take turns, and the median of the rounds counts. CPU time is that of all processes of
a contender; other work on the machine hardly changes it.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from model_compiler.compile import Options, compile_model
from model_compiler.docstrings import standard_library
from model_compiler.source.find import find_source

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
ROUNDS = 3
#: The least rate of a job per CPU second, as a part of the loop's.
LEAST = 0.9

_LOOP = """
import json, sys
from embedder.artifact import load_artifact
from embedder.engine import Engine
texts = [json.loads(line)["text"] for line in open(sys.argv[1])]
engine = Engine.load(load_artifact(sys.argv[2]))
for start in range(0, len(texts), 64):
    engine.embed(texts[start : start + 64], truncate="right")
"""
_ENCODE = """
import json, sys, torch
from sentence_transformers import SentenceTransformer
torch.set_num_threads(1)
texts = [json.loads(line)["text"] for line in open(sys.argv[1])]
SentenceTransformer(sys.argv[2], device="cpu").encode(texts, batch_size=64)
"""


class Spent(NamedTuple):
    """The seconds of one run."""

    cpu: float
    wall: float


def main() -> int:
    """Measure, and print a table; return 1 if a job is slower than it may be."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=3000, help="default: %(default)s")
    parser.add_argument("--peers", help="an interpreter with sentence-transformers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = find_source(MODEL)
        artifact = folder / "artifact"
        compile_model(source, artifact, Options(thresholds=None, progress=False))
        (folder / "docs").mkdir()
        texts = folder / "docs" / "texts.jsonl"
        texts.write_text("\n".join(_rows(options.rows)), encoding="utf-8")
        python = sys.executable
        contenders = {"loop over the engine": [python, "-c", _LOOP, texts, artifact]}
        for processes in sorted({1, os.cpu_count() or 1}):
            contenders[f"batch_embedding, {processes} processes"] = [
                *(python, "-m", "batch_embedding", texts.parent, folder / "out"),
                *("--artifact", artifact, "--processes", processes, "--truncate", "right"),
            ]
        if options.peers:
            contenders["sentence-transformers"] = [
                *(options.peers, "-c", _ENCODE, texts, source.folder)
            ]
        spent = _measure({name: [*map(str, words)] for name, words in contenders.items()}, folder)
    return _report(spent, options.rows)


def _rows(count: int) -> list[str]:
    """Return JSON lines of different texts: four docstrings each, about 120 tokens."""
    known, chosen = standard_library(), random.Random(1)  # noqa: S311 - not for cryptography
    return [
        json.dumps({"id": number, "text": f"{number}: " + " ".join(chosen.sample(known, 4))})
        for number in range(count)
    ]


def _measure(contenders: dict[str, list[str]], folder: Path) -> dict[str, list[Spent]]:
    spent: dict[str, list[Spent]] = {name: [] for name in contenders}
    for round_number in range(ROUNDS):
        for name, command in contenders.items():
            # Each run is a new job: a folder of its own for its parts.
            words = [
                word.replace(str(folder / "out"), str(folder / f"out-{name}-{round_number}"))
                for word in command
            ]
            before, began = os.times(), time.perf_counter()
            subprocess.run(words, check=True, capture_output=True)  # noqa: S603 - our own commands
            after = os.times()
            cpu = (after.children_user - before.children_user) + (
                after.children_system - before.children_system
            )
            spent[name].append(Spent(cpu, time.perf_counter() - began))
    return spent


def _report(spent: dict[str, list[Spent]], rows: int) -> int:
    medians = {
        name: Spent(*(statistics.median(part) for part in zip(*runs, strict=True)))
        for name, runs in spent.items()
    }
    loop, *_ = medians.values()
    print("| | CPU ms a row | rows a CPU second, to the loop's | rows a second |")
    print("|---|---|---|---|")
    for name, median in medians.items():
        print(
            f"| {name} | {1000 * median.cpu / rows:.2f} | {loop.cpu / median.cpu:.2f} | "
            f"{rows / median.wall:.0f} |"
        )
    slow = [
        name
        for name, median in medians.items()
        if name.startswith("batch_embedding") and loop.cpu / median.cpu < LEAST
    ]
    for name in slow:
        print(f"under {LEAST}: {name}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
