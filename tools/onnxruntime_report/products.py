"""ONNX Runtime's `MatMulIntegerToFloat` with weights from memory, and with weights from the cache.

python products.py ROWS [MATRICES]

128 matrices of 768 x 768 are 75 MB; 8 fit into the last cache, and 16 runs of them are as many
products. It prints the milliseconds of CPU time of both, the least of 15 runs. Pages of 2 MB:
GLIBC_TUNABLES=glibc.malloc.hugetlb=1.
"""

import sys
import time

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

_SIZE, _MATRICES, _CACHED = 768, 128, 8


def session(matrices: int) -> onnxruntime.InferenceSession:
    """Return a session of products with different weights and the same input."""
    source = np.random.default_rng(1)
    constants = [
        numpy_helper.from_array(np.array(128, np.uint8), "zero"),
        numpy_helper.from_array(np.array(0.02, np.float32), "scale"),
        numpy_helper.from_array(np.full(_SIZE, 1e-3, np.float32), "scales"),
    ]
    nodes, outputs = [], []
    for n in range(matrices):
        weights = source.integers(-127, 127, (_SIZE, _SIZE), dtype=np.int8)
        constants.append(numpy_helper.from_array(weights, f"w{n}"))
        inputs = ["a", f"w{n}", "scale", "scales", "zero", ""]
        nodes.append(
            helper.make_node("MatMulIntegerToFloat", inputs, [f"y{n}"], domain="com.microsoft")
        )
        # An output that costs nothing to copy, so that no product is removed.
        nodes.append(helper.make_node("Shape", [f"y{n}"], [f"o{n}"], start=0, end=1))
        outputs.append(helper.make_tensor_value_info(f"o{n}", TensorProto.INT64, [1]))
    one = helper.make_tensor_value_info("a", TensorProto.UINT8, ["rows", _SIZE])
    graph = helper.make_graph(nodes, "products", [one], outputs, constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.enable_mem_reuse = False
    options.add_session_config_entry("session.x64quantprecision", "1")  # Exact without VNNI.
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def least(run: onnxruntime.InferenceSession, rows: int, repeats: int) -> float:
    """Return the seconds of CPU time of `repeats` runs, the least of 15 times."""
    feed = {"a": np.random.default_rng(2).integers(0, 255, (rows, _SIZE), dtype=np.uint8)}
    taken = []
    for _ in range(15):
        began = time.process_time()
        for _ in range(repeats):
            run.run(None, feed)
        taken.append(time.process_time() - began)
    return min(taken)


if __name__ == "__main__":
    count = int(sys.argv[1])
    streamed = least(session(_MATRICES), count, 1)
    cached = least(session(_CACHED), count, _MATRICES // _CACHED)
    print(f"streamed {streamed * 1e3:.2f}\ncached {cached * 1e3:.2f}")
