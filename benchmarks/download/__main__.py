"""The command `scripts/bench download`: starts whose artifact comes from S3."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from benchmarks.contenders import ROOT, compile_modules
from benchmarks.download.certificate import write_certificate
from benchmarks.download.report import Figures, as_text
from benchmarks.download.ways import GRAPH, WAYS
from benchmarks.machine import cpu_name
from embedder.artifact import MANIFEST_FILE
from model_compiler.artifact.packed import write_object, write_parts
from model_compiler.compile import Options, compile_model
from model_compiler.source.find import find_source
from tests.fixtures.replica import EMBEDDING_GEMMA, SMALL, write_replica

__all__ = ["main"]


@dataclass(frozen=True, slots=True)
class _Folders:
    artifact: Path
    #: What the function's package has of it.
    package: Path
    #: The artifact with all weights in one ONNX file.
    single: Path
    object: Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the tables and return the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/bench download", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small replica, one round")
    parser.add_argument("--rounds", type=int, default=None, help="default 5; quick 1")
    options = parser.parse_args(arguments)
    rounds = options.rounds or (1 if options.quick else 5)
    compile_modules()
    cache = ROOT / ".cache" / "bench"
    cache.mkdir(parents=True, exist_ok=True)
    # Beside the other models, on a disk as /tmp is on Lambda: a tmpfs would be memory.
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        folders = _prepare(Path(temporary), quick=options.quick)
        figures = Figures(
            cpu=cpu_name(),
            load=os.getloadavg()[0],
            rounds=rounds,
            megabytes=folders.object.stat().st_size / 1e6,
            starts=_starts(folders, Path(temporary), rounds),
            ways=_ways(folders, rounds),
        )
    sys.stdout.write(as_text(figures))
    return 0


def _prepare(folder: Path, *, quick: bool) -> _Folders:
    source = write_replica(folder / "replica", SMALL if quick else EMBEDDING_GEMMA)
    found = _Folders(*(folder / name for name in ("artifact", "package", "single", "object")))
    # Random weights have no meaning to compare.
    compile_model(
        find_source(str(source)), found.artifact, Options(thresholds=None, progress=False)
    )
    found.package.mkdir()
    shutil.copy(found.artifact / MANIFEST_FILE, found.package)
    write_parts(found.artifact, found.package / "parts.json")
    write_object(found.artifact, found.object)
    model = onnx.load(str(found.artifact / GRAPH), load_external_data=False)
    _write_tensors(model, found.artifact / "tensors.json")
    found.single.mkdir()
    onnx.save(onnx.load(str(found.artifact / GRAPH)), str(found.single / GRAPH))
    return found


def _write_tensors(model: onnx.ModelProto, path: Path) -> None:
    table = []
    for tensor in model.graph.initializer:
        where = {entry.key: entry.value for entry in tensor.external_data}
        if where:
            kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).str
            place = int(where.get("offset", 0))
            table.append([tensor.name, where["location"], kind, place, list(tensor.dims)])
    path.write_text(json.dumps(table), encoding="utf-8")


def _starts(folders: _Folders, temporary: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Return the medians of each kind of start and of its steps; they take turns."""
    certificate, key = write_certificate(temporary)
    with (
        _serving(folders.object) as http,
        _serving(folders.object, certificate, key) as https,
    ):
        trusted = {"SSL_CERT_FILE": str(certificate)}
        kinds: dict[str, tuple[list[str], dict[str, str]]] = {
            "setup": (["setup"], {}),
            "botocore": (["setup-botocore"], {}),
            "http": (["fetch", f"http://127.0.0.1:{http}", str(folders.package)], {}),
            "https": (["fetch", f"https://localhost:{https}", str(folders.package)], trusted),
            "from the image": (["start", str(folders.artifact)], {}),
            "from S3": (["start", str(folders.package), f"https://localhost:{https}"], trusted),
        }
        seen: dict[str, list[dict[str, float]]] = {name: [] for name in kinds}
        for _ in range(rounds + 1):  # The first round fills the page cache.
            for name, (arguments, environ) in kinds.items():
                with tempfile.TemporaryDirectory(dir=temporary) as folder:
                    remote = any("//" in argument for argument in arguments)
                    where = [folder] if remote else []
                    seen[name].append(_worker("worker", *arguments, *where, **environ))
    return {name: _medians(rows[1:]) for name, rows in seen.items()}


def _ways(folders: _Folders, rounds: int) -> dict[str, dict[str, Any]]:
    seen: dict[str, list[dict[str, Any]]] = {}
    for _ in range(rounds + 1):
        for way in WAYS:
            seen.setdefault(way, []).append(_worker("ways", way, str(folders.artifact)))
        for way in ("path", "memfd, by its path in /proc", "memfd, as bytes"):
            name = f"one file: {way}"
            seen.setdefault(name, []).append(_worker("ways", way, str(folders.single)))
    return {
        name: rows[-1] if "refused" in rows[-1] else _medians(rows[1:])
        for name, rows in seen.items()
    }


def _medians(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        key: statistics.median(row[key] for row in rows)
        if isinstance(value, int | float)
        else value
        for key, value in rows[0].items()
    }


def _worker(module: str, *arguments: str, **environ: str) -> dict[str, Any]:
    command = [sys.executable, "-m", f"benchmarks.download.{module}", *arguments]
    answer = subprocess.run(  # noqa: S603 - our own program
        command, capture_output=True, text=True, check=True, cwd=ROOT, env=os.environ | environ
    )
    return dict(json.loads(answer.stdout.splitlines()[-1]))


@contextmanager
def _serving(path: Path, *tls: Path) -> Iterator[int]:
    """Serve the object and yield the port."""
    command = [sys.executable, "-m", "benchmarks.download.object_server", str(path), *map(str, tls)]
    with subprocess.Popen(  # noqa: S603 - our own program
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as server:
        try:
            assert server.stdout is not None  # noqa: S101 - a pipe was asked for
            yield int(server.stdout.readline())
        finally:
            server.terminate()


if __name__ == "__main__":
    sys.exit(main())
