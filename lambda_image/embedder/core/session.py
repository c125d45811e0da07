"""The artifact's graph, loaded into ONNX Runtime and run: token ids in, embeddings out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime

from embedder.core.artifact import Artifact
from embedder.core.errors import ArtifactError
from embedder.core.huge_pages import back_heap_with_huge_pages

if TYPE_CHECKING:  # see startup
    import numpy.typing as npt

_OPTIMIZATION = {
    "none": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
}
#: Bytes that a session allocates besides the weights: its nodes and the graph file.
_GRAPH_BYTES = 16 << 20


class Session:
    """An ONNX Runtime session on the CPU; one run may use `threads` threads.

    Raises:
        ArtifactError: if ONNX Runtime cannot load the graph, or the manifest describes another.
    """

    def __init__(self, artifact: Artifact, *, threads: int = 1) -> None:
        graph = artifact.manifest.graph
        options = session_options(graph.optimization, threads=threads)
        _prepare(artifact.graph_path)
        try:
            self._session = onnxruntime.InferenceSession(
                artifact.graph_path, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ONNX Runtime's exceptions have no common base.
            raise ArtifactError(
                f"ONNX Runtime cannot load {artifact.graph_path}: {error}"
            ) from error
        inputs = tuple(entry.name for entry in self._session.get_inputs())
        outputs = [entry.name for entry in self._session.get_outputs()]
        if inputs != graph.inputs or graph.output not in outputs:
            raise ArtifactError(
                f"{artifact.graph_path} has inputs {inputs} and outputs {outputs}; the manifest "
                f"says inputs {graph.inputs} and output {graph.output!r}."
            )
        self._outputs = [graph.output]
        # An export has its inputs in an order of its own.
        (self._second,) = (name for name in inputs if name != "input_ids")

    def run(
        self, input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Embed a batch; see `InferenceSession.run`."""
        feed = {"input_ids": input_ids, self._second: attention_mask}
        (embeddings,) = self._session.run(self._outputs, feed)
        return embeddings  # type: ignore[no-any-return]


def session_options(optimization: str, *, threads: int) -> onnxruntime.SessionOptions:
    """Return the options of every session; see `GraphEntry.optimization`."""
    options = onnxruntime.SessionOptions()
    if _saturates(os.uname().machine):
        # Have weights of 8 bits converted while the graph is loaded, so that sums are exact.
        # https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html
        optimization = "extended"
        options.add_session_config_entry("session.x64quantprecision", "1")
    options.graph_optimization_level = _OPTIMIZATION[optimization]
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Planning which tensors may share memory takes time that grows faster than the graph: 440
    # of 530 ms for 1,400 nodes. The arena shares as much at run time, at no cost.
    options.enable_mem_reuse = False
    # Nor does it keep a block of memory for each shape of batch that it has seen.
    options.enable_mem_pattern = False
    # Errors only: warnings at every cold start would fill the log, and no one can act on them.
    options.log_severity_level = 3
    # A spinning thread steals from what shares its core: four times slower when busy.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _saturates(machine: str, cpu_info: str = "/proc/cpuinfo") -> bool:
    """Return whether the processor's int8 products saturate at 16 bits, which changes vectors.

    `vpmaddubsw` of x86 does so, on which ONNX Runtime falls back without VNNI: EPYC of the third
    generation and older, Xeon before Cascade Lake. ARM has no such instruction.
    """
    if machine not in {"x86_64", "amd64"}:
        return False
    try:
        with open(cpu_info) as file:
            return not any("vnni" in line for line in file if line.startswith("flags"))
    except OSError:  # macOS on Intel
        return True


def _prepare(graph_path: str) -> None:
    """Start reading the weights ahead, and reserve heap for them."""
    try:
        file = os.open(f"{graph_path}.data", os.O_RDONLY)
    except FileNotFoundError:  # an export that keeps them in the graph
        return
    try:
        size = os.fstat(file).st_size
        if hasattr(os, "posix_fadvise"):  # Linux
            os.posix_fadvise(file, 0, size, os.POSIX_FADV_WILLNEED)
    finally:
        os.close(file)
    back_heap_with_huge_pages(size + _GRAPH_BYTES, prefaulted=size)
