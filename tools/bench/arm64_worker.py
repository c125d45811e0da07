"""Run by the emulator: counts the instructions of a start and of requests, and prints JSON.

    python arm64_worker.py ENGINE FOLDER PLAN

ENGINE is of `ENGINES`, FOLDER has its form of a model. PLAN is JSON: `requests`, by name the path
and the body of a request to the service; `shapes`, the texts and their tokens of runs of the graph
alone; `nodes`, one such shape, whose instructions are also given for each operator.

The numbers are millions. A start is of the service for an artifact, and of Python, the engine and
the graph for others.
"""

import contextlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

#: Runs of a shape; the last one is counted, as the first ones allocate memory. With so many tokens
#: the first two of a graph differ by less than 0.02 %.
_RUNS, _LONG_RUNS, _LONG = 3, 2, 128
#: Runs a graph with token ids, int64 [texts, tokens].
Run = Callable[[Any], Any]


def _count() -> float:
    """Return the millions of instructions of this process: the clock has them as microseconds."""
    return time.perf_counter_ns() / 1e9


def _last(work: Callable[[], Any], *, runs: int = _RUNS) -> float:
    """Return the millions of instructions of a warm run."""
    for _ in range(runs):
        began = _count()
        work()
        spent = _count() - began
    return spent


def _session(engine: str, folder: str, *, profile: bool = False) -> Any:
    """Return ONNX Runtime's session of an artifact or of another graph."""
    # As the service has it: what its thread does is not the same in each run.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime  # noqa: PLC0415 - not each engine needs it

    if engine == "kit":
        from embedder.core.artifact import load_artifacts  # noqa: PLC0415
        from embedder.core.session import graph_to_run  # noqa: PLC0415

        (artifact,) = load_artifacts(folder)
        file, options = graph_to_run(artifact, threads=1)
    else:
        file, options = "model.onnx", onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        level = f"ORT_ENABLE_{engine.removeprefix('onnx-').upper()}"
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.enable_profiling = profile
    options.profile_file_prefix = "/tmp/profile"  # noqa: S108 - of this run as root
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(f"{folder}/{file}", options, providers=providers)


def _run_of(session: Any) -> Run:
    inputs = [entry.name for entry in session.get_inputs()]

    def run(ids: Any) -> Any:
        feed = {name: ids if name == "input_ids" else ids * 0 + 1 for name in inputs}
        return session.run(None, feed)

    return run


def _onnx(engine: str, folder: str) -> Run:
    return _run_of(_session(engine, folder))


def _litert(_: str, folder: str) -> Run:
    """Return runs of one text after another: a graph has one text of a fixed length."""
    import numpy as np  # noqa: PLC0415
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415

    interpreter = Interpreter(f"{folder}/model.tflite", num_threads=1)
    graphs = interpreter.get_signature_list()

    def run(ids: Any) -> Any:
        name = f"tokens_{ids.shape[1]}"
        if name not in graphs:
            raise LookupError(f"{folder} has no graph {name}; it has {', '.join(graphs)}")
        runner = interpreter.get_signature_runner(name)
        rows = ids.astype(np.int32)[:, np.newaxis]
        return [runner(input_ids=row, attention_mask=row * 0 + 1) for row in rows]

    return run


ENGINES: Mapping[str, Callable[[str, str], Run]] = {
    "kit": _onnx,
    "onnx-basic": _onnx,
    "onnx-all": _onnx,
    "litert": _litert,
}


def _service(folder: str) -> Callable[[str, Any], None]:
    """Start the service, as Lambda does, and return a function that sends it a request."""
    os.environ.update(EMBEDDING_ARTIFACT=folder, EMBEDDING_CACHE_ENTRIES="0")
    from embedder.aws_lambda.handler import handler  # noqa: PLC0415 - what Lambda imports

    context = {"http": {"method": "POST"}, "requestId": "bench"}
    event: dict[str, Any] = {"version": "2.0", "requestContext": context, "headers": {}}
    event |= {"rawQueryString": "", "isBase64Encoded": False}

    def ask(path: str, body: Any) -> None:
        with open(os.devnull, "w") as log, contextlib.redirect_stdout(log):  # noqa: PTH123
            answer = handler({**event, "rawPath": path, "body": json.dumps(body)}, None)
        if answer["statusCode"] != 200:
            raise SystemExit(f"the service answered {answer}")

    return ask


def _operators(engine: str, folder: str, ids: Any) -> Mapping[str, float]:
    """Return the millions of instructions of each operator's nodes in a warm run."""
    session = _session(engine, folder, profile=True)
    run = _run_of(session)
    for _ in range(_RUNS):
        run(ids)
    events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    began = max(event["ts"] for event in events if event["name"] == "model_run")
    spent = Counter[str]()
    for event in events:
        if event["name"].endswith("_kernel_time") and event["ts"] >= began:
            spent[event["args"]["op_name"]] += event["dur"]
    return {operator: total / 1e6 for operator, total in spent.most_common()}


def _name(shape: Sequence[int]) -> str:
    texts, tokens = shape
    return f"{tokens} tokens" if texts == 1 else f"{texts} texts of {tokens} tokens"


def main(engine: str, folder: str, plan: str) -> None:
    """Print the counts."""
    planned = json.loads(plan)
    counts: dict[str, float] = {}
    if engine == "kit":
        ask = _service(folder)
        counts["start"] = _count()
        for name, (path, body) in planned["requests"].items():
            counts[name] = _last(lambda path=path, body=body: ask(path, body))  # type: ignore[misc]
    run = ENGINES[engine](engine, folder)
    counts.setdefault("start", _count())
    import numpy as np  # noqa: PLC0415 - the service imports it in its own way

    def token_ids(shape: Sequence[int]) -> Any:
        return np.full(shape, 2000, np.int64)

    for shape in planned["shapes"]:
        ids = token_ids(shape)
        runs = _LONG_RUNS if ids.size >= _LONG else _RUNS
        with contextlib.suppress(LookupError):
            counts[_name(shape)] = _last(lambda ids=ids: run(ids), runs=runs)  # type: ignore[misc]
    if planned["nodes"] and ENGINES[engine] is _onnx:
        name = _name(planned["nodes"])
        for operator, count in _operators(engine, folder, token_ids(planned["nodes"])).items():
            counts[f"{operator}, {name}"] = count
    print(json.dumps(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
