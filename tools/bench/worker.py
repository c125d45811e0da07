"""One contender in a separate process, controlled by lines on its standard input and output.

    python -m tools.bench.worker KIND FOLDER

It starts like a server, reports the time that this took, and then processes requests. It measures
CPU time and wall-clock time; on a shared machine only the former can be compared. The module
imports nothing heavy before the contender does.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["KINDS"]

Texts = list[str]
Ids = list[list[int]]
#: Embeds texts, or their token ids with special tokens. A contender that accepts ids gets ids:
#: the benchmark compares the models, and tokenizers have a separate benchmark.
Embed = Callable[[Texts, Ids], Any]


def main() -> None:
    """Start the contender, then process requests until the input ends."""
    kind, folder = sys.argv[1:]
    embed = KINDS[kind](folder)
    _say({"cpu": time.process_time(), **_memory()})
    for line in sys.stdin:
        request = json.loads(line)
        cpu, wall = time.process_time(), time.perf_counter()
        for texts, ids in request:
            embed(texts, ids)
        used = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        _say({**used, **_memory()})


def _kit(folder: str) -> Embed:
    """Start this project: the whole service, as Lambda's handler starts it."""
    os.environ["EMBEDDING_ARTIFACT"] = folder
    os.environ["EMBEDDING_CACHE_ENTRIES"] = "0"
    from embedder.aws_lambda.handler import _service  # noqa: PLC0415 - what Lambda imports
    from embedder.core.embedding_request import EmbedRequest, Inputs  # noqa: PLC0415 - after the measured part

    engine = _service.model.engine
    before, after = len(engine.tokenizer.prefix), len(engine.tokenizer.suffix)

    def embed(texts: Texts, ids: Ids) -> Any:
        if not ids:
            return engine.embed_request(EmbedRequest(Inputs(texts=texts)))
        bodies = [sequence[before : len(sequence) - after] for sequence in ids]
        return engine.embed_request(EmbedRequest(Inputs(token_ids=bodies)))

    return embed


def _baseline(folder: str) -> Embed:
    """Start the baseline: `tokenizers`, and ONNX Runtime at its level Basic."""
    return _onnx(folder, level="ORT_ENABLE_BASIC")


def _export(folder: str) -> Embed:
    """Start the plain fp32 export, as ONNX Runtime loads it by default."""
    return _onnx(folder, level="ORT_ENABLE_ALL")


def _onnx(folder: str, *, level: str) -> Embed:
    import numpy as np  # noqa: PLC0415
    import onnxruntime  # noqa: PLC0415
    from tokenizers import Tokenizer  # noqa: PLC0415

    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    session = onnxruntime.InferenceSession(f"{folder}/model.onnx", options)

    def embed(texts: Texts, ids: Ids) -> Any:
        if not ids:
            ids = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
        longest = max(map(len, ids))
        batch = np.zeros((len(ids), longest), np.int64)
        mask = np.zeros_like(batch)
        for row, sequence in enumerate(ids):
            batch[row, : len(sequence)] = sequence
            mask[row, : len(sequence)] = 1
        return session.run(["sentence_embedding"], {"input_ids": batch, "attention_mask": mask})

    return embed


def _sentence_transformers(folder: str) -> Embed:
    import torch  # noqa: PLC0415
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415

    torch.set_num_threads(1)
    model = SentenceTransformer(folder, device="cpu")

    def embed(_: Texts, ids: Ids) -> Any:
        longest = max(map(len, ids))
        batch = torch.zeros((len(ids), longest), dtype=torch.int64)
        mask = torch.zeros_like(batch)
        for row, sequence in enumerate(ids):
            batch[row, : len(sequence)] = torch.tensor(sequence)
            mask[row, : len(sequence)] = 1
        with torch.inference_mode():
            return model({"input_ids": batch, "attention_mask": mask})["sentence_embedding"]

    return embed


def _fastembed(folder: str) -> Embed:
    """Start fastembed with the plain export; it takes texts, so its time includes tokenizing."""
    from fastembed import TextEmbedding  # noqa: PLC0415
    from fastembed.common.model_description import ModelSource, PoolingType  # noqa: PLC0415

    TextEmbedding.add_custom_model(
        model="bench/replica",
        pooling=PoolingType.DISABLED,
        normalization=False,
        sources=ModelSource(hf="bench/replica"),
        dim=768,
        model_file="model.onnx",
        additional_files=["model.onnx.data"],
    )
    model = TextEmbedding("bench/replica", specific_model_path=folder, threads=1)

    def embed(texts: Texts, _: Ids) -> Any:
        return list(model.embed(texts, batch_size=len(texts)))

    return embed


def _model2vec(folder: str) -> Embed:
    """Start model2vec, the library of static models."""
    from model2vec import StaticModel  # noqa: PLC0415

    model = StaticModel.from_pretrained(folder)

    def embed(texts: Texts, _: Ids) -> Any:
        return model.encode(texts)

    return embed


KINDS: dict[str, Callable[[str], Embed]] = {
    "kit": _kit,
    "baseline": _baseline,
    "export": _export,
    "sentence-transformers": _sentence_transformers,
    "fastembed": _fastembed,
    "model2vec": _model2vec,
}


def _memory() -> dict[str, float]:
    """Return the process's memory in MB: current, peak, and private."""
    wanted = {"VmRSS": "rss", "VmHWM": "peak", "RssAnon": "anonymous"}
    found = {}
    with open("/proc/self/status", encoding="utf-8") as status:  # noqa: PTH123 - no import
        for line in status:
            name, _, value = line.partition(":")
            if name in wanted:
                found[wanted[name]] = int(value.split()[0]) / 1024
    return found


def _say(message: dict[str, float]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
