"""The contenders, and the processes that run them."""

import compileall
import importlib.util
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from tools.bench.models import Models

__all__ = ["BASE", "KIT", "Contender", "Worker", "compile_modules", "contenders"]

ROOT = Path(__file__).resolve().parents[2]
#: The baseline of all ratios, and this project.
BASE, KIT = "baseline", "kit"
#: The packages that a start of these contenders imports.
_IMPORTED = ("numpy", "onnxruntime", "orjson", "tokenizers", "huggingface_hub")


@dataclass(frozen=True, slots=True)
class Contender:
    """An implementation to measure.

    Attributes:
        kind: Its name in `tools.bench.worker`.
        label: Its name in tables.
        folder: The folder that it loads.
        python: The interpreter in which it is installed.
        absent: The reason why it cannot be measured; empty if it can.
    """

    kind: str
    label: str
    folder: Path
    python: str
    absent: str = ""


def contenders(models: Models, peers_python: str | None) -> list[Contender]:
    """Return all contenders; a missing one has a reason in `absent`."""
    peers = peers_python or sys.executable
    return [
        Contender(BASE, "baseline", models.baseline, sys.executable),
        Contender(KIT, "Embedding Kit", models.artifact, sys.executable),
        Contender("export", "plain ONNX export", models.export, sys.executable),
        Contender(
            "sentence-transformers",
            "sentence-transformers",
            models.source,
            peers,
            _missing(peers, "sentence_transformers"),
        ),
        Contender("fastembed", "fastembed", models.export, peers, _missing(peers, "fastembed")),
    ]


def compile_modules() -> None:
    """Compile the modules that the contenders of this interpreter import, as in the image.

    Not every installer does, and a start that compiles numpy takes three times as long.
    """
    compileall.compile_dir(ROOT / "lambda_image" / "embedder", quiet=1)
    for package in _IMPORTED:
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            compileall.compile_dir(folder, quiet=2)


class Worker:
    """The process of a contender.

    Attributes:
        start: Seconds from the start of the process until it was ready: `wall`, and `cpu` as
            measured by the process itself; and its memory in MB at that time.
    """

    def __init__(self, contender: Contender) -> None:
        self._kind = contender.kind
        began = time.perf_counter()
        paths = [str(ROOT), str(ROOT / "lambda_image")]
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [contender.python, "-m", "tools.bench.worker", contender.kind, str(contender.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"},
        )
        answer = self._answer()
        self.start: dict[str, float] = {**answer, "wall": time.perf_counter() - began}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pipe(self._process.stdin).close()
        self._process.wait(timeout=30)
        self._pipe(self._process.stdout).close()

    def embed(self, *requests: tuple[list[str], list[list[int]]]) -> dict[str, float]:
        """Embed the requests one by one; return seconds `cpu` and `wall`, and memory in MB."""
        pipe = self._pipe(self._process.stdin)
        pipe.write(json.dumps(requests) + "\n")
        pipe.flush()
        return self._answer()

    def _answer(self) -> dict[str, float]:
        line = self._pipe(self._process.stdout).readline()
        if not line:
            self._process.wait()
            raise RuntimeError(f"{self._kind} ended with status {self._process.returncode}")
        answer: dict[str, float] = json.loads(line)
        return answer

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        if pipe is None:
            raise RuntimeError("the process was started without pipes")
        return pipe


def _missing(python: str, package: str) -> str:
    command: list[Any] = [
        python,
        "-c",
        f"import importlib.util as u; u.find_spec('{package}').name",
    ]
    found = subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603
    return "" if found else f"{package} is not installed"
