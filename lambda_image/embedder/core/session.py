"""The artifact's graph, loaded into ONNX Runtime and run: token ids in, embeddings out.

Of a model in int8 there are two graphs of the same function, of ONNX Runtime's own operators and
with the kit's, `LinearRows` and `AttentionRows`. The latter runs where that is known to be faster:
the package has a library of them for the machine, and the processor has what its kernels need.
"""

from __future__ import annotations

import ctypes
import os
import sys
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
_LIBRARY = os.path.join(os.path.dirname(__file__), f"operators.{os.uname().machine}.so")
_X86 = frozenset({"x86_64", "amd64"})
#: What the library's kernel for x86 asks for; without one of them it would run plain C.
_VNNI = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"})
#: From Linux's auxvec.h, and hwcap.h of ARM64: the dot product of bytes.
_AT_HWCAP, _HWCAP_ASIMDDP = 16, 1 << 20


class Session:
    """An ONNX Runtime session on the CPU; one run may use `threads` threads.

    `operator` says whether the graph with the kit's operators runs, by default where it is faster.

    Raises:
        ArtifactError: if ONNX Runtime cannot load the graph, or the manifest describes another.
    """

    def __init__(
        self, artifact: Artifact, *, threads: int = 1, operator: bool | None = None
    ) -> None:
        graph = artifact.manifest.graph
        #: The file of the graph that runs.
        self.graph_file, options = graph_to_run(artifact, threads=threads, operator=operator)
        path = os.path.join(artifact.folder, self.graph_file)
        _prepare(artifact.graph_path)
        try:
            self._session = onnxruntime.InferenceSession(
                path, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ONNX Runtime's exceptions have no common base.
            raise ArtifactError(f"ONNX Runtime cannot load {path}: {error}") from error
        inputs = tuple(entry.name for entry in self._session.get_inputs())
        outputs = [entry.name for entry in self._session.get_outputs()]
        if inputs != graph.inputs or graph.output not in outputs:
            raise ArtifactError(
                f"{path} has inputs {inputs} and outputs {outputs}; the manifest says "
                f"inputs {graph.inputs} and output {graph.output!r}."
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


def graph_to_run(
    artifact: Artifact, *, threads: int, operator: bool | None = None
) -> tuple[str, onnxruntime.SessionOptions]:
    """Return the file of the artifact's graph to run, and its options; see `Session`."""
    graph = artifact.manifest.graph
    options = session_options(graph.optimization, threads=threads)
    if graph.operator_file is None or not (has_kernel() if operator is None else operator):
        return graph.file, options
    return (graph.operator_file if add_operator(options) else graph.file), options


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


def add_operator(options: onnxruntime.SessionOptions) -> bool:
    """Add the kit's operators to a session's options, and return whether that was possible."""
    try:
        options.register_custom_ops_library(_LIBRARY)
    except Exception as error:  # ONNX Runtime's exceptions have no common base.
        sys.stderr.write(f"The model runs slower, without {_LIBRARY}: {error}\n")
        return False
    return True


def has_kernel(machine: str | None = None, cpu_info: str = "/proc/cpuinfo") -> bool:
    """Return whether the kit's operators are known to be faster here than ONNX Runtime's.

    They have kernels for the dot products of bytes of x86-64 (AVX-512 VNNI) and of ARM64. With AMX,
    which ONNX Runtime uses, they were not measured. The machine is by default this one.
    """
    machine = machine or os.uname().machine
    if machine == "aarch64":
        # Under an emulator, the file is the host's.
        return bool(ctypes.CDLL(None).getauxval(_AT_HWCAP) & _HWCAP_ASIMDDP)
    flags = _x86_flags(machine, cpu_info)
    return flags >= _VNNI and "amx_int8" not in flags


def _saturates(machine: str, cpu_info: str = "/proc/cpuinfo") -> bool:
    """Return whether the processor's int8 products saturate at 16 bits, which changes vectors.

    `vpmaddubsw` of x86 does so, on which ONNX Runtime falls back without VNNI: EPYC of the third
    generation and older, Xeon before Cascade Lake. ARM has no such instruction.
    """
    flags = _x86_flags(machine, cpu_info)
    return machine in _X86 and not any("vnni" in flag for flag in flags)


def _x86_flags(machine: str, cpu_info: str) -> set[str]:
    """Return the features of an x86 processor; none of another, or where they cannot be read."""
    if machine not in _X86:
        return set()
    try:
        with open(cpu_info) as file:
            return next((set(line.split()) for line in file if line.startswith("flags")), set())
    except OSError:  # macOS on Intel
        return set()


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
