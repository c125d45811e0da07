"""The cost of the HTTP layer: from event to response, without the tokenizer and ONNX Runtime.

`python -m tools.bench.http_layer` prints four values with their limits:

- the additional initialization: CPU time to import the handler and create the service, minus the
  import of the engine (with numpy and ONNX Runtime), which every user of the model needs; both in
  fresh interpreters that take turns;
- the time of one event with one text of 32 tokens;
- the time of one event with 256 texts whose vectors have 768 floats, answered as JSON: at most half
  more than orjson takes to write them;
- the time of the two log lines of a request.

The model is a fake with precomputed vectors, so that only the layer is measured. Times are CPU
times, which other work on the machine hardly changes. `python -m tools.bench.http_layer
--profile` prints where the time of the third goes.
"""

import argparse
import contextlib
import cProfile
import gc
import io
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from embedder.aws_lambda.function_url import request_from_event, response_to_event
from embedder.core.artifact import GraphEntry, Manifest, ModelEntry, TokenizerEntry
from embedder.core.engine import Engine
from embedder.core.huge_pages import back_heap_with_huge_pages
from embedder.core.settings import Settings
from embedder.http.apis.operation import Model
from embedder.http.router import Service
from embedder.http.telemetry import RequestRecord, Telemetry

SOURCE_ROOT = Path(__file__).parents[2] / "lambda_image"
DIMENSIONS = 768
STARTS = 15

# The parts of a start. Both import the engine's libraries; the difference is the HTTP layer.
_ENGINE = (
    "import numpy, onnxruntime, orjson\n"
    "import embedder.core.engine, embedder.core.search, embedder.core.settings"
)
_SERVICE = (
    "import embedder.aws_lambda.function_url\n"
    "from embedder.http.router import Service\n"
    "from embedder.http.apis.operation import Model\n"
    "from embedder.http.telemetry import Telemetry\n"
    "from embedder.core.settings import Settings\n"
    "from embedder.core.embedding_request import Limits\n"
    "class Stub:\n"
    "    limits = Limits((768, 512), 2048, 512000, 262144, {'query': 'q: '}, None, 'refuse')\n"
    "Service(Model(Stub()), telemetry=Telemetry(Settings(artifact=None)))"
)
_START = """
import time
{engine}
before = time.process_time()
{service}
print((time.process_time() - before) * 1000)
"""


class ReadyTokenizer:
    """A fake tokenizer; the number of ids depends on the text."""

    prefix: tuple[int, ...] = (2,)
    suffix: tuple[int, ...] = (1,)
    vocabulary_size = 262_144

    def encode(self, text: str) -> list[int]:
        """Return as many ids as the text has spaces; the last one depends on the text."""
        return [*range(10, 9 + text.count(" ")), hash(text) % 200_000 + 100]

    def token(self, token_id: int) -> str:
        """Raise an error, because the measurement does not call it."""
        raise NotImplementedError


class ReadySession:
    """A fake session with precomputed vectors."""

    def __init__(self) -> None:
        vectors = np.random.default_rng(1).standard_normal((256, DIMENSIONS)).astype(np.float32)
        self._vectors: npt.NDArray[np.float32] = vectors / np.linalg.norm(
            vectors, axis=1, keepdims=True
        )

    def run(
        self, input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Return as many vectors as the input has rows."""
        del attention_mask
        return self._vectors[: len(input_ids)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    arguments = parser.parse_args()
    # A session does the same when it starts; otherwise page faults slow down each large response.
    back_heap_with_huge_pages(64 << 20)
    service = ready_service()
    gc.freeze()  # The handler does the same when it has started.
    text = "word " * 31
    one = event("/", {"text": text})
    many = event("/v1/embeddings", {"input": [f"{n} {text}" for n in range(256)], "model": "m"})
    if arguments.profile:
        profile(service, many)
        return
    vectors = ReadySession().run(np.zeros((256, 1), np.int64), np.zeros((256, 1), np.int64))
    floor = median(lambda: orjson.dumps(vectors, option=orjson.OPT_SERIALIZE_NUMPY), 60)
    rows = [
        ("start grows by", start_growth(), 25.0),
        ("one text of 32 tokens, p50", median_time(service, one, 2000), 0.5),
        ("256 x 768 floats as JSON, p50", median_time(service, many, 60), 1.5 * floor),
        ("of one request, telemetry, p50", telemetry_time(service), 0.2),
    ]
    for name, milliseconds, bound in rows:
        print(f"{name:32} {milliseconds:8.3f} ms   (bound {bound:.1f} ms)")
    print(f"{'of it, orjson writing the floats':32} {floor:8.3f} ms")


def ready_service() -> Service:
    """Create a service with the fakes; it logs its requests as in Lambda."""
    manifest = Manifest(
        format_version=1,
        model=ModelEntry(name="ready", revision="1", architecture="none", license=None),
        vector_space="ready@1/fp32/0",
        precision="fp32",
        dimensions=(DIMENSIONS, 512, 256, 128),
        max_tokens=2048,
        max_characters=None,
        prompts={},
        default_prompt=None,
        tokenizer=TokenizerEntry(kind="bpe", file="tokenizer.bin", reason=None),
        graph=GraphEntry(
            runtime="onnxruntime",
            file="model.onnx",
            inputs=(),
            output="sentence_embedding",
            optimization="none",
        ),
        fidelity={},
        golden=(),
        files={},
        checksum="",
    )
    engine = Engine(manifest, ReadyTokenizer(), ReadySession())
    return Service(Model(engine), telemetry=Telemetry(Settings(artifact=Path())))


def event(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return a Function URL event."""
    return {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json", "host": "abc.lambda-url.aws"},
        "requestContext": {"http": {"method": "POST"}, "requestId": "1"},
        "body": orjson.dumps(body).decode(),
        "isBase64Encoded": False,
    }


def median_time(service: Service, given: dict[str, Any], times: int) -> float:
    """Return the median CPU time of an event, in milliseconds."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):

        def answer() -> None:
            response_to_event(service.handle(request_from_event(given)))

        return median(answer, times)


def telemetry_time(service: Service) -> float:
    """Return the median CPU time of logging a request, in milliseconds."""
    telemetry = Telemetry(Settings(artifact=Path()))
    record = RequestRecord("8f507cfc-xmpl-4697-b07a-ac58fc914c95")
    record.api, record.operation, record.status = "openai", "create_embeddings", 200
    record.embeddings = service.model.engine.embed(["word " * 31])
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        return median(lambda: telemetry.write(record), 2000)


def median(work: Callable[[], object], times: int) -> float:
    """Return the median CPU time of some work, in milliseconds."""
    for _ in range(3):
        work()
    taken = []
    for _ in range(times):
        began = time.process_time_ns()
        work()
        taken.append(time.process_time_ns() - began)
    return statistics.median(taken) / 1e6


def start_growth() -> float:
    """Return the median CPU time that the HTTP layer adds to a start, in milliseconds."""
    code = _START.format(engine=_ENGINE, service=_SERVICE)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE_ROOT)}
    taken = [
        float(
            subprocess.run(  # noqa: S603 - our own interpreter, our own code
                [sys.executable, "-c", code],
                env=environment,
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        for _ in range(STARTS)
    ]
    return statistics.median(taken)


def profile(service: Service, given: dict[str, Any]) -> None:
    """Print where the time of an event goes."""
    profiler = cProfile.Profile()
    with contextlib.redirect_stdout(io.StringIO()):
        for _ in range(50):
            request = request_from_event(given)
            profiler.runcall(service.handle, request)
    profiler.print_stats("tottime")


if __name__ == "__main__":
    main()
