"""One contender in a separate process, controlled by lines on its standard input and output.

    python -m tools.bench.worker KIND FOLDER

It starts like a server, reports the time that this took, and then processes requests:

- a list of texts, which it embeds at once, for seconds of `cpu` and the `peak`, the highest MB
  since the start;
- `{"texts": texts, "seconds": seconds}`, which it embeds again and again, at least twice, for a
  list of seconds;
- `{"vectors": texts}`, each alone, for their vectors.

It measures CPU time, which can be compared on a shared machine. The module imports nothing heavy
before the contender does.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

#: Embeds texts.
Embed = Callable[[list[str]], Any]
#: Makes texts, or pairs of texts, the inputs of a graph.
Feed = Callable[[list[Any]], dict[str, Any]]


def main() -> None:
    """Start the contender, then process requests until the input ends."""
    kind, folder = sys.argv[1:]
    embed = KINDS[kind].start(folder)
    _say(_used())
    for line in sys.stdin:
        request = json.loads(line)
        if isinstance(request, list):
            began = time.process_time()
            embed(request)
            _say(_used(began))
        elif "vectors" in request:
            _say([[float(x) for x in embed([text])[0]] for text in request["vectors"]])
        else:
            _say(back_to_back(embed, request["texts"], request["seconds"]))


def back_to_back(embed: Embed, texts: list[str], seconds: float) -> list[float]:
    """Return the seconds of CPU time of each request."""
    times: list[float] = []
    end = time.monotonic() + seconds
    while len(times) < 2 or time.monotonic() < end:
        began = time.process_time()
        embed(texts)
        times.append(time.process_time() - began)
    return times


def _kit(folder: str) -> Embed:
    """Start this project: the whole service, as Lambda's handler starts it."""
    os.environ.update(EMBEDDING_ARTIFACT=folder, EMBEDDING_CACHE_ENTRIES="0")
    from embedder.aws_lambda.handler import _router  # noqa: PLC0415, PLC2701 - what Lambda imports
    from embedder.core.classifier import Classifier  # noqa: PLC0415
    from embedder.core.engine import Engine  # noqa: PLC0415
    from embedder.core.reranker import Reranker  # noqa: PLC0415
    from embedder.core.tokenization import RequestTokenizer  # noqa: PLC0415

    engine = _router.model.loaded
    if isinstance(engine, Reranker):
        return lambda texts: engine.rerank(texts[0], texts[1:], truncate="passage").scores
    if isinstance(engine, Classifier):
        return lambda texts: engine.predict(texts, truncate="right").scores
    assert isinstance(engine, Engine)  # noqa: S101 - for mypy: no sparse encoder is measured
    # Peers put no prompt in front of a text, so neither does this: its tokens would be measured.
    engine.request_tokenizer = RequestTokenizer(
        engine.tokenizer, engine.limits._replace(default_prompt=None)
    )
    return lambda texts: engine.embed(texts, truncate="right").vectors


def _endpoint(folder: str) -> Embed:
    """Start this project's handler without its model: each ONNX run returns the same vectors."""
    os.environ.update(EMBEDDING_ARTIFACT=folder, EMBEDDING_CACHE_ENTRIES="0")
    from embedder.aws_lambda.handler import handler  # noqa: PLC0415 - what Lambda imports
    from embedder.core.session import Session  # noqa: PLC0415

    run, outputs = Session.run, {}

    def remembered(session: Session, ids: Any, mask: Any) -> Any:
        if ids.shape not in outputs:
            outputs[ids.shape] = run(session, ids, mask)
        return outputs[ids.shape]

    Session.run = remembered  # type: ignore[method-assign, assignment]
    context = {"http": {"method": "POST"}, "requestId": "bench"}
    event: dict[str, Any] = {"version": "2.0", "requestContext": context, "headers": {}}
    event |= {"rawPath": "/v1/embeddings", "rawQueryString": "", "isBase64Encoded": False}

    def embed(texts: list[str]) -> Any:
        with open(os.devnull, "w") as log, contextlib.redirect_stdout(log):  # noqa: PTH123
            answer = handler({**event, "body": json.dumps({"input": texts, "model": "m"})}, None)
        if answer["statusCode"] != 200:
            raise SystemExit(f"the endpoint answered {answer}")

    return embed


def _baseline(folder: str) -> Embed:
    """Start the baseline: `tokenizers`, and ONNX Runtime at its level Basic, text by text."""
    embed = _onnx(folder, level="ORT_ENABLE_BASIC")
    return lambda texts: [embed([text])[0] for text in texts]


def _onnx(
    folder: str, feed: Feed | None = None, *, level: str = "ORT_ENABLE_ALL"
) -> Callable[[list[Any]], Any]:
    """Start the plain fp32 export, by default as ONNX Runtime loads it by default."""
    import onnxruntime  # noqa: PLC0415

    feed = feed or _feed(folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    session = onnxruntime.InferenceSession(f"{folder}/model.onnx", options)
    return lambda texts: session.run(["sentence_embedding"], feed(texts))[0]


def _transformers(folder: str) -> Embed:
    """Start ONNX Runtime with transformers' tokenizer; a classifier's logits become a softmax."""
    sys.modules["torch"] = None  # type: ignore[assignment]  # As without it: it starts faster.
    import numpy as np  # noqa: PLC0415
    from transformers import AutoTokenizer  # noqa: PLC0415

    tokenizer = AutoTokenizer.from_pretrained(folder)

    def feed(texts: list[Any]) -> dict[str, Any]:
        return dict(tokenizer(texts, padding=True, truncation=True, return_tensors="np"))

    run = _onnx(folder, feed)

    def classify(texts: list[str]) -> Any:
        powers = np.exp(run(texts))
        return powers / powers.sum(1, keepdims=True)

    return classify


def _openvino(folder: str) -> Embed:
    """Start OpenVINO with one thread, as `openvino.Core` loads it by default."""
    import openvino  # noqa: PLC0415

    feed = _feed(folder)
    options = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    options["ENABLE_CPU_PINNING"] = False  # Other contenders move between cores, too.
    model = openvino.Core().compile_model(f"{folder}/model.xml", "CPU", options)
    return lambda texts: model(feed(texts))["sentence_embedding"]


def _litert(folder: str) -> Embed:
    """Start LiteRT with one thread: each text alone, padded to the next length that has a graph."""
    import numpy as np  # noqa: PLC0415
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415
    from tokenizers import Tokenizer  # noqa: PLC0415

    interpreter = Interpreter(f"{folder}/model.tflite", num_threads=1)
    names = {int(name.removeprefix("tokens_")): name for name in interpreter.get_signature_list()}
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.no_padding()
    tokenizer.enable_truncation(max(names))
    runners: dict[int, Any] = {}

    def vector(text: str) -> Any:
        ids = tokenizer.encode(text).ids
        length = min(length for length in names if length >= len(ids))
        if length not in runners:
            runners[length] = interpreter.get_signature_runner(names[length])
        inputs = np.zeros((2, 1, length), np.int32)
        inputs[:, 0, : len(ids)] = ids, np.ones(len(ids))
        (row,) = runners[length](input_ids=inputs[0], attention_mask=inputs[1]).values()
        return row[0]

    vector("a")  # It prepares a graph's weights with its first text, as others do while they load.
    return lambda texts: [vector(text) for text in texts]


def _llama_cpp(folder: str) -> Embed:
    """Start llama.cpp with the tokens of its longest run as context; it tokenizes itself."""
    from llama_cpp import Llama  # noqa: PLC0415

    longest = {"n_ctx": 2048, "n_batch": 2048, "n_ubatch": 2048}
    threads = {"n_threads": 1, "n_threads_batch": 1}
    model = Llama(f"{folder}/model.gguf", embedding=True, verbose=False, **longest, **threads)
    return lambda texts: model.embed(texts, normalize=True)


#: Pairs of a run: the default of CrossEncoder.
_PAIRS = 32


def _pairs(folder: str) -> Embed:
    """Start a classifier's export; the first text is the query of the others."""
    run = _onnx(folder)

    def score(texts: list[str]) -> Any:
        pairs = [(texts[0], passage) for passage in texts[1:]]
        return [run(pairs[at : at + _PAIRS]) for at in range(0, len(pairs), _PAIRS)]

    return score


def _cross_encoder(folder: str) -> Embed:
    """Start sentence-transformers' CrossEncoder; the first text is the query of the others."""
    import torch  # noqa: PLC0415
    from sentence_transformers import CrossEncoder  # noqa: PLC0415

    torch.set_num_threads(1)
    model = CrossEncoder(folder, device="cpu")
    return lambda texts: model.predict([(texts[0], passage) for passage in texts[1:]])


def _feed(folder: str) -> Feed:
    """Return a function from texts, or pairs of texts, to the inputs of the plain export."""
    import numpy as np  # noqa: PLC0415
    from tokenizers import Tokenizer  # noqa: PLC0415

    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.enable_padding()
    tokenizer.no_truncation()

    def feed(texts: list[Any]) -> dict[str, Any]:
        encoded = tokenizer.encode_batch(texts)
        return {
            "input_ids": np.array([encoding.ids for encoding in encoded], np.int64),
            "attention_mask": np.array([encoding.attention_mask for encoding in encoded], np.int64),
        }

    return feed


def _sentences(folder: str) -> Embed:
    import torch  # noqa: PLC0415
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415

    torch.set_num_threads(1)
    model = SentenceTransformer(folder, device="cpu")
    return lambda texts: model.encode(texts, batch_size=len(texts))


def _fastembed(folder: str) -> Embed:
    """Start fastembed with the plain export."""
    from fastembed import TextEmbedding  # noqa: PLC0415
    from fastembed.common.model_description import ModelSource, PoolingType  # noqa: PLC0415

    with open(f"{folder}/config.json", encoding="utf-8") as file:  # noqa: PTH123 - no import
        config = json.load(file)
    TextEmbedding.add_custom_model(
        model="bench/replica",
        pooling=PoolingType.DISABLED,
        normalization=False,
        sources=ModelSource(hf="bench/replica"),
        dim=config["hidden_size"],
        model_file="model.onnx",
        additional_files=["model.onnx.data"],
    )
    model = TextEmbedding("bench/replica", specific_model_path=folder, threads=1)
    return lambda texts: list(model.embed(texts, batch_size=len(texts)))


def _model2vec(folder: str) -> Embed:
    """Start model2vec, the library of static models."""
    from model2vec import StaticModel  # noqa: PLC0415

    model = StaticModel.from_pretrained(folder)
    return lambda texts: model.encode(texts)  # noqa: PLW0108 - has more parameters


class ContenderKind(NamedTuple):
    """A way to serve a model.

    Attributes:
        label: Its name in tables.
        start: What starts it with a folder.
        environment: The environment of `environments.py` with its packages; empty for this one.
    """

    label: str
    start: Callable[[str], Embed]
    environment: str = ""


_PEERS = "peers"
KINDS: dict[str, ContenderKind] = {
    "baseline": ContenderKind("baseline", _baseline),
    "int8": ContenderKind("ONNX int8 (quantize_dynamic)", _onnx),
    "kit": ContenderKind("Embedding Kit", _kit),
    "kit-plain": ContenderKind("Embedding Kit without its operators", _kit),
    "endpoint": ContenderKind("Embedding Kit without its model", _endpoint),
    "export": ContenderKind("plain ONNX export", _onnx),
    "sentence-transformers": ContenderKind("sentence-transformers", _sentences, _PEERS),
    "fastembed": ContenderKind("fastembed", _fastembed, _PEERS),
    "model2vec": ContenderKind("model2vec", _model2vec, _PEERS),
    "openvino-static": ContenderKind("OpenVINO, static int8", _openvino, _PEERS),
    "openvino-weights": ContenderKind("OpenVINO, int8 weights", _openvino, _PEERS),
    "litert": ContenderKind("LiteRT, dynamic int8", _litert, _PEERS),
    "litert-outliers": ContenderKind("LiteRT, with our outliers", _litert, _PEERS),
    "llama-cpp": ContenderKind("llama.cpp, Q8_0", _llama_cpp, "llama-cpp"),
    "embedder": ContenderKind("Embedding Kit, embedding model", _kit),
    "transformers": ContenderKind("ONNX int8, transformers' tokenizer", _transformers, _PEERS),
    "cross-encoder": ContenderKind("sentence-transformers", _cross_encoder, _PEERS),
    "pairs-int8": ContenderKind("ONNX int8 (quantize_dynamic)", _pairs),
    "pairs": ContenderKind("plain ONNX export", _pairs),
}


def _used(began: float = 0.0) -> dict[str, float]:
    """Return the seconds of CPU time since `began`, and the highest memory so far, in MB."""
    cpu = time.process_time() - began
    with open("/proc/self/status", encoding="utf-8") as status:  # noqa: PTH123 - no import
        return {"cpu": cpu, "peak": int(status.read().split("VmHWM:")[1].split()[0]) / 1024}


def _say(message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
