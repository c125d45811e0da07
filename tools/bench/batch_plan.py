"""The plan of a large input: its time and memory, in each format. Nothing is embedded."""

import csv
import gzip
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as arrow
import pyarrow.parquet

from model_compiler.index_builder import standard_library

__all__ = ["measure_plan"]

#: Lambda's limit for a plan, and the least memory of a function with one vCPU.
_SECONDS, _MEGABYTES = 900, 1769
#: Planned in a process of its own, which reports its CPU seconds, peak memory in MB and shards.
_PLAN = """
import json, re, sys, time
from pathlib import Path
from jobs.embed.job import Job, job_id
from jobs.embed.planning import plan_shards
from jobs.embed.storage import open_folder
job = Job(source=sys.argv[1], destination="unused", id="id")
shards = list(plan_shards(open_folder(job.source), job, size=512 * 1024))
job_id(job, shards, vector_space="any")
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
print(json.dumps([time.process_time(), int(peak) / 1024, len(shards)]))
"""


def measure_plan(rows: int) -> int:
    """Print a table; return 1 if a plan does not fit into Lambda's time and memory."""
    print("| input | size | shards | CPU s | peak MB |")
    print("|---|---|---|---|---|")
    fits = True
    known = [" ".join(text.split())[:200] for text in standard_library()]
    for name, write in _WRITERS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            write(path, _rows(known, rows))
            size = path.stat().st_size / 1e6
            command = [sys.executable, "-c", _PLAN, folder]
            done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        seconds, peak, shards = json.loads(done.stdout)
        print(f"| {name} | {size:.0f} MB | {shards} | {seconds:.1f} | {peak:.0f} |", flush=True)
        fits &= seconds < _SECONDS and peak < _MEGABYTES
    return 0 if fits else 1


def _rows(known: list[str], count: int) -> Iterator[dict[str, str]]:
    """Yield rows with texts of up to 200 characters."""
    chosen = random.Random(1)  # noqa: S311 - not for cryptography
    for number in range(count):
        yield {"id": str(number), "text": f"{number}: {chosen.choice(known)}"}


def _write_jsonl(path: Path, rows: Iterator[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def _write_gzip(path: Path, rows: Iterator[dict[str, str]]) -> None:
    with gzip.open(path, "wt", compresslevel=1, encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def _write_csv(path: Path, rows: Iterator[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        written = csv.DictWriter(file, ["id", "text"])
        written.writeheader()
        written.writerows(rows)


def _write_parquet(path: Path, rows: Iterator[dict[str, str]]) -> None:
    pyarrow.parquet.write_table(arrow.Table.from_pylist(list(rows)), path, row_group_size=100_000)


_WRITERS: dict[str, Callable[[Path, Iterator[dict[str, str]]], None]] = {
    "a.jsonl": _write_jsonl,
    "a.csv": _write_csv,
    "a.jsonl.gz": _write_gzip,
    "a.parquet": _write_parquet,
}
