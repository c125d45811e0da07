"""One way of getting a graph with its weights into ONNX Runtime, in a process of its own.

    python -m benchmarks.download.ways WAY FOLDER

Before the clock starts, the files are where a download would have put them: in a folder, or in
memfds. It prints one line of JSON; a way that ONNX Runtime refuses has the error in it.
"""

import hashlib
import json
import mmap
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from benchmarks.download.worker import memory
from embedder.session import session_options

__all__ = ["WAYS"]

GRAPH = "model.onnx"


class Opened:
    """The graph's files, in a folder and, if a way needs them there, in memfds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.memfds: dict[str, int] = {}
        #: Kept as long as the session, which does not keep them.
        self._views: list[mmap.mmap] = []

    def memfd(self, name: str) -> int:
        """Return a memfd with a file's content."""
        if name not in self.memfds:
            made = os.memfd_create(name)
            with (self.folder / name).open("rb") as file:
                while chunk := file.read(1 << 24):
                    os.write(made, chunk)
            self.memfds[name] = made
        return self.memfds[name]

    def view(self, name: str) -> mmap.mmap:
        """Return the mapped content of a memfd."""
        self._views.append(mmap.mmap(self.memfd(name), 0, prot=mmap.PROT_READ))
        return self._views[-1]

    @property
    def weights(self) -> list[str]:
        """The names of the files with weights."""
        return sorted(path.name for path in self.folder.glob(f"{GRAPH}.*"))

    def fill(self) -> None:
        """Write all files to memfds."""
        for name in (GRAPH, *self.weights):
            self.memfd(name)


Way = Callable[[Opened, onnxruntime.SessionOptions], Any]


def _path(files: Opened, _: onnxruntime.SessionOptions) -> Any:
    return str(files.folder / GRAPH)


def _descriptor(files: Opened, _: onnxruntime.SessionOptions) -> Any:
    return f"/proc/self/fd/{files.memfd(GRAPH)}"


def _links(files: Opened, _: onnxruntime.SessionOptions) -> Any:
    folder = files.folder / "links"
    folder.mkdir(exist_ok=True)
    for name in (GRAPH, *files.weights):
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(f"/proc/self/fd/{files.memfd(name)}")
    return str(folder / GRAPH)


def _bytes(files: Opened, _: onnxruntime.SessionOptions) -> Any:
    return bytes(files.view(GRAPH))


def _files_in_memory(files: Opened, options: onnxruntime.SessionOptions) -> Any:
    views = [memoryview(files.view(name)) for name in files.weights]
    options.add_external_initializers_from_files_in_memory(
        files.weights, views, [len(view) for view in views]
    )
    return bytes(files.view(GRAPH))


def _initializers(files: Opened, options: onnxruntime.SessionOptions) -> Any:
    """Give ONNX Runtime each tensor; a product would list them in the manifest."""
    table = json.loads((files.folder / "tensors.json").read_text("utf-8"))
    views = {name: files.view(name) for name in files.weights}
    values = [
        onnxruntime.OrtValue.ortvalue_from_numpy(
            np.frombuffer(views[file], dtype=kind, count=int(np.prod(shape)), offset=start).reshape(
                shape
            )
        )
        for _, file, kind, start, shape in table
    ]
    options.add_external_initializers([name for name, *_ in table], values)
    return bytes(files.view(GRAPH))


#: Name → whether memfds are needed, and what the session is made from.
WAYS: dict[str, tuple[bool, Way]] = {
    "path": (False, _path),
    "memfd, by its path in /proc": (True, _descriptor),
    "memfds, through a folder of links": (True, _links),
    "memfd, as bytes": (True, _bytes),
    "memfds, as files in memory": (True, _files_in_memory),
    "memfds, as tensors": (True, _initializers),
}


def main() -> None:
    """Measure and print."""
    way, folder = sys.argv[1], Path(sys.argv[2])
    files = Opened(folder)
    needs_memfds, make = WAYS[way]
    if needs_memfds:
        files.fill()
    before = memory()
    cpu = time.process_time()
    try:
        options = session_options("none", threads=1)
        session = onnxruntime.InferenceSession(
            make(files, options), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # ONNX Runtime's exceptions have no common base.
        _print({"refused": str(error)})
    cpu_ms = 1000 * (time.process_time() - cpu)
    ids = np.arange(2, 34, dtype=np.int64)[None]
    (vector,) = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
    _print(
        {"cpu ms": cpu_ms, "before MB": before["MB"]}
        | memory()
        | {"vector": hashlib.sha256(vector.tobytes()).hexdigest()[:8]}
    )


def _print(found: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
