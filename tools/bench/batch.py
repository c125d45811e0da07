"""Batch embedding against a loop over the engine and against other libraries.

`scripts/bench batch [--rows N] [--peers PYTHON]` embeds the same texts, made of Python's
docstrings, with all-MiniLM-L6-v2:

- a loop over the engine, 64 texts at a time: the model alone;
- `jobs.embed` in one process, and in one for each core: files, shards and Parquet too;
- with `--peers`, an interpreter that has torch, sentence-transformers and fastembed: `encode` on
  one thread, and fastembed's parallel mode with a process for each core, over a plain ONNX export.

`scripts/bench batch --plan ROWS` measures the plan of an input of that many rows instead.

The contenders take turns, and the median of the rounds counts. CPU time is that of all processes of
a contender; other work on the machine hardly changes it.
"""

import argparse
import ctypes
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from model_compiler.compile import Options, compile_model
from model_compiler.index_builder import standard_library
from model_compiler.source.find import find_source
from tools.bench.batch_plan import measure_plan

__all__ = ["Spent", "main", "report"]

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
_EXPORTER = Path(__file__).parent / "families" / "torch_replica.py"
#: The least rate of a job per CPU second, as a part of the loop's.
LEAST = 0.9

#: No contender asks the model hub for a newer revision.
_ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1"}

_LOOP = """
import json, sys
from embedder.core.artifact import load_artifact
from embedder.core.engine import Engine
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
#: fastembed's processes import this program again, so the model is registered in each.
_FASTEMBED = """
import json, sys
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
TextEmbedding.add_custom_model(
    model="bench/minilm", pooling=PoolingType.DISABLED, normalization=False, dim=384,
    sources=ModelSource(hf="bench/minilm"), model_file="model.onnx",
    additional_files=["model.onnx.data"],
)
if __name__ == "__main__":
    texts = [json.loads(line)["text"] for line in open(sys.argv[1])]
    model = TextEmbedding("bench/minilm", specific_model_path=sys.argv[2], threads=1)
    for _ in model.embed(texts, batch_size=64, parallel=int(sys.argv[3])):
        pass
"""
#: The files that fastembed's tokenizer needs.
_TOKENIZER = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


class Spent(NamedTuple):
    """The seconds of one run."""

    cpu: float
    wall: float


def main(arguments: Sequence[str]) -> int:
    """Measure, and print a table; return 1 if a job is slower than it may be."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench batch", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--rows", type=int, default=3000, help="default: %(default)s")
    parser.add_argument(
        "--peers",
        metavar="PYTHON",
        help="an interpreter with torch, sentence-transformers and fastembed",
    )
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument(
        "--plan", type=int, metavar="ROWS", help="measure only the plan of an input"
    )
    options = parser.parse_args(arguments)
    if options.plan:
        return measure_plan(options.plan)
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
            contenders[f"jobs.embed, {processes} processes"] = [
                *(python, "-m", "jobs.embed", texts.parent, folder / "out"),
                *("--artifact", artifact, "--processes", processes, "--truncate", "right"),
            ]
        if options.peers:
            export, program = folder / "export", folder / "fastembed_job.py"
            _write_export(source.folder, export, options.peers)
            program.write_text(_FASTEMBED)
            processes = os.cpu_count() or 1
            contenders |= {
                "sentence-transformers": [options.peers, "-c", _ENCODE, texts, source.folder],
                f"fastembed, {processes} processes": [
                    *(options.peers, program, texts, export, processes)
                ],
            }
        commands = {name: [*map(str, words)] for name, words in contenders.items()}
        spent = _measure(commands, folder, rounds=options.rounds)
    return report(spent, options.rows)


def _rows(count: int) -> list[str]:
    """Return JSON lines of different texts: four docstrings each, about 120 tokens."""
    known, chosen = standard_library(), random.Random(1)  # noqa: S311 - not for cryptography
    return [
        json.dumps({"id": number, "text": f"{number}: " + " ".join(chosen.sample(known, 4))})
        for number in range(count)
    ]


def _write_export(source: Path, target: Path, python: str) -> None:
    """Write the model's plain export, with pooling and normalization, and its tokenizer."""
    target.mkdir()
    for name in _TOKENIZER:
        shutil.copy(source / name, target)
    # torch_replica reads the pooling in the new form of its configuration.
    described = target / "source"
    shutil.copytree(source, described)
    (described / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}')
    command = [python, str(_EXPORTER), str(described), str(target)]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own program


def _measure(
    contenders: dict[str, list[str]], folder: Path, *, rounds: int
) -> dict[str, list[Spent]]:
    _adopt_orphans()
    spent: dict[str, list[Spent]] = {name: [] for name in contenders}
    for round_number in range(rounds):
        for name, command in contenders.items():
            # Each run is a new job: a folder of its own for its parts.
            words = [
                word.replace(str(folder / "out"), str(folder / f"out-{name}-{round_number}"))
                for word in command
            ]
            before, began = os.times(), time.perf_counter()
            subprocess.run(words, check=True, capture_output=True, env=_ENVIRONMENT)  # noqa: S603
            _wait_for_orphans()
            after = os.times()
            cpu = (after.children_user - before.children_user) + (
                after.children_system - before.children_system
            )
            spent[name].append(Spent(cpu, time.perf_counter() - began))
    return spent


def _adopt_orphans() -> None:
    """Become the parent of processes that outlive theirs, so that their CPU time is counted.

    The processes of fastembed are children of a server that forks them, and which ends last.
    """
    set_child_subreaper = 36  # prctl(2)
    ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def _wait_for_orphans() -> None:
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def report(spent: dict[str, list[Spent]], rows: int) -> int:
    """Print the table of the medians.

    Args:
        spent: The runs of each contender; the loop over the engine comes first.
        rows: The rows of a run.

    Returns:
        1 if a job takes more CPU time than it may, compared with the loop; 0 if not.
    """
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
        if name.startswith("jobs.embed") and loop.cpu / median.cpu < LEAST
    ]
    for name in slow:
        print(f"under {LEAST}: {name}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
