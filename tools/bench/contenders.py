"""The contenders that are processes with a model, and what is measured of them."""

import compileall
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from tools.bench.run import KIT, ROOT, turns

#: Consecutive starts of a contender: unmeasured ones to warm up, then measured ones.
_WARM_UPS, _STARTS = 2, 3
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
#: The packages that a start of these contenders imports.
_IMPORTED = ("numpy", "onnxruntime", "orjson", "tokenizers", "huggingface_hub")
#: The packages that a contender or an export needs, where they are not its name.
PACKAGES: Mapping[str, Sequence[str]] = {
    "cross-encoder": ("sentence_transformers",),
    "export": ("torch", "transformers", "safetensors", "onnx", "onnxscript"),
    "openvino-static": ("openvino", "nncf", "onnx", "tokenizers"),
    "openvino-weights": ("openvino", "nncf", "onnx", "tokenizers"),
    "llama-cpp": ("llama_cpp", "gguf", "torch", "transformers"),
}
_FIND = "import sys, importlib.util as u; print(*(n for n in sys.argv[1:] if not u.find_spec(n)))"


@dataclass(frozen=True, slots=True)
class Contender:
    """An implementation to measure.

    Attributes:
        kind: Its name in `tools.bench.worker`.
        label: Its name in tables.
        folder: The folder that it loads.
        python: The interpreter in which it is installed.
    """

    kind: str
    label: str
    folder: Path
    python: str = sys.executable

    @property
    def absent(self) -> str:
        """The reason why it cannot be measured; empty if it can."""
        if self.python == sys.executable and self.kind in (
            KIT,
            "baseline",
            "export",
            "pairs",
            "pairs-int8",
        ):
            return ""
        return missing(self.python, self.kind)


def missing(python: str, kind: str) -> str:
    """Return the packages that a contender needs and an interpreter lacks; empty if none."""
    packages = PACKAGES.get(kind, (kind.replace("-", "_"),))
    try:
        found = subprocess.run(  # noqa: S603 - the user's own interpreter
            [python, "-c", _FIND, *packages], capture_output=True, check=True, text=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(
            f"error: --peers must be a Python interpreter; found: {python} ({error})"
        ) from error
    names = found.stdout.split()
    return f"not installed: {', '.join(names)}" if names else ""


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
            measured by the process itself; and `peak`, its highest memory in MB until then.
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
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the process was started without pipes")
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self.start: dict[str, float] = {**self._answer(), "wall": time.perf_counter() - began}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.close()
        self._process.wait(timeout=30)
        self._answers.close()

    def embed(self, *requests: Sequence[str]) -> dict[str, float]:
        """Embed lists of texts, one list after the other.

        Returns:
            Seconds `cpu` and `wall`, and `peak`, the highest memory in MB since the start.
        """
        self._requests.write(json.dumps(requests) + "\n")
        self._requests.flush()
        used: dict[str, float] = self._answer()
        return used

    def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts, each alone."""
        self._requests.write(json.dumps({"vectors": texts}) + "\n")
        self._requests.flush()
        found: list[list[float]] = self._answer()
        return found

    def _answer(self) -> Any:
        line = self._answers.readline()
        if not line:
            self._process.wait()
            raise RuntimeError(f"{self._kind} ended with status {self._process.returncode}")
        return json.loads(line)


@contextmanager
def workers(contenders: Mapping[str, Contender]) -> Iterator[dict[str, Worker]]:
    """Start the contenders, and stop them at the end of the context."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(Worker(contender)) for name, contender in contenders.items()
        }


def starts(
    contenders: Mapping[str, Contender],
    texts: Mapping[str, Sequence[str]],
    *,
    rounds: int,
    cold: bool = False,
) -> dict[str, dict[str, list[float]]]:
    """Start each contender several times in a row, and let it embed the texts.

    The first starts of a row are not measured: the others' starts between two rows take long
    enough for a kernel or a hypervisor that reclaims memory to drop files from the page cache and
    to release free pages. For cold starts, the page cache is dropped before each one.

    Returns:
        What was measured → by contender the values: seconds `cpu` and `wall` until it is ready; the
        peak memory in MB after the start, `start_peak`, and after the texts, `peak`.
    """

    def row(name: str) -> list[dict[str, float]]:
        return [
            _start(contenders[name], texts[name], cold=cold) for _ in range(_WARM_UPS + _STARTS)
        ][_WARM_UPS:]

    rows = turns({name: partial(row, name) for name in contenders}, rounds=rounds, warm_up=0)
    return {
        key: {
            name: [start[key] for found in seen for start in found] for name, seen in rows.items()
        }
        for key in ("cpu", "wall", "start_peak", "peak")
    }


def _start(contender: Contender, texts: Sequence[str], *, cold: bool) -> dict[str, float]:
    if cold:
        os.sync()
        DROP_CACHES.write_text("1", encoding="ascii")
    with Worker(contender) as worker:
        after = worker.embed(texts)
        return {**worker.start, "start_peak": worker.start["peak"], "peak": after["peak"]}


def latency(
    running: Mapping[str, Worker], texts: Mapping[str, Sequence[str]], *, seconds: float
) -> dict[str, list[float]]:
    """Return the seconds of CPU time of a request with the texts, by contender.

    Args:
        running: The contenders, which take turns.
        texts: The texts of each.
        seconds: The time for all of them; each is measured at least three times.
    """

    def cpu(name: str) -> float:
        return running[name].embed(texts[name])["cpu"]

    return turns({name: partial(cpu, name) for name in running}, rounds=3, seconds=seconds)
