"""Send a hundred thousand mixed requests through the real runtime, and monitor its memory.

`python -m tools.bench.soak ARTIFACT [--requests N]` runs the handler in AWS's Runtime Interface
Emulator with awslambdaric, as in a Lambda container, and sends it requests of all APIs: short
and long, single and in batches, repeated and new, valid and invalid. It fails if a response has an
unexpected status, or if the memory of the function's process grows: the last tenth of the run may
use 2% more than the second tenth. The first tenth fills the caches, above all the tokenizer's word
cache. WordPiece has two, one for the parts between spaces and one for those between punctuation,
and Python does not return their memory. The mixed requests alone, of which one in thirty fills the
second cache, would fill both only in the middle of the run.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tools.local_endpoint.runtime import EmulatedRuntime, Function, emulator_binary

SOURCE_ROOT = Path(__file__).parents[2] / "lambda_image"
#: The number of pairs of requests at the beginning that fill the tokenizer's word cache: 16,384
#: words, then it is cleared.
FILLING = 50
#: The number of new words in each: more tokens than a model of the catalog accepts, but within its
#: limit of characters.
FILLING_WORDS = 512
#: The number of requests between two readings of the memory.
EVERY = 100
ALLOWED_GROWTH = 0.02

WORDS = [
    "the",
    "of",
    "and",
    "parse",
    "date",
    "string",
    "model",
    "vector",
    "search",
    "über",
    "façade",
    "日本語",
    "😀",
    "don't",
    "e-mail",
    "3.14",
    "embedding",
    "lambda",
    "signature",
    "region",
    "timeout",
    "retry",
    "Zürich",
    "naïve",
    "мир",
    "שלום",
]

Case = tuple[str, str, Any, int]


def main() -> None:
    """Run the requests and return the measurements."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("artifact", type=Path, help="the folder of a compiled model")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    binary = emulator_binary()
    if binary is None:
        sys.exit("error: AWS's emulator has no binary for this machine")
    function = Function(
        handler="embedder.aws_lambda.handler.handler",
        source_root=SOURCE_ROOT,
        environment={"EMBEDDING_ARTIFACT": str(arguments.artifact.resolve())},
    )
    runtime = EmulatedRuntime(function, binary=binary)
    try:
        statuses, wrong, memory, seconds = soak(runtime, arguments.requests, arguments.seed)
    finally:
        runtime.close()
    report(arguments.requests, statuses, wrong, memory, seconds)


def soak(
    runtime: EmulatedRuntime, count: int, seed: int
) -> tuple[Counter[int], list[str], list[int], float]:
    """Send requests; return their statuses, the errors, memory in kB, and the seconds."""
    statuses: Counter[int] = Counter()
    wrong: list[str] = []
    memory: list[int] = []
    pid = 0
    began = time.monotonic()
    for number, (method, path, body, expected) in enumerate(
        tqdm(cases(count, seed), total=count, unit=" requests", mininterval=1)
    ):
        answer = json.loads(runtime.invoke(event(method, path, body)))
        statuses[answer["statusCode"]] += 1
        if answer["statusCode"] != expected:
            wrong.append(f"{method} {path} {str(body)[:80]}: {answer}"[:300])
        pid = pid or runtime_process()
        if number % EVERY == EVERY - 1:
            memory.append(resident(pid))
    return statuses, wrong, memory, time.monotonic() - began


def report(
    count: int, statuses: Counter[int], wrong: list[str], memory: list[int], seconds: float
) -> None:
    """Print the measurements; exit with an error if one is out of bounds."""
    tenth = len(memory) // 10
    tenths = [sum(memory[part * tenth : (part + 1) * tenth]) / tenth / 1024 for part in range(10)]
    growth = tenths[9] / tenths[1] - 1
    summary = ", ".join(f"{number} x {status}" for status, number in sorted(statuses.items()))
    print(f"{count} requests in {seconds:.0f} s ({seconds / count * 1000:.2f} ms each): {summary}")
    print("resident memory by tenths, MB:", " ".join(f"{megabytes:.1f}" for megabytes in tenths))
    print(f"last tenth over second: {growth:+.2%} (bound {ALLOWED_GROWTH:.0%})")
    for line in wrong[:10]:
        print("wrong:", line)
    if wrong or growth > ALLOWED_GROWTH:
        sys.exit(f"error: {len(wrong)} wrong answers, memory grew by {growth:.2%}")


def cases(count: int, seed: int) -> Iterator[Case]:
    """Yield requests, the same for the same seed, each with the expected status."""
    rng = random.Random(seed)  # noqa: S311 - chance that can be repeated, no secret
    kinds: list[tuple[int, Callable[[random.Random], Case]]] = [
        (30, lambda r: ("POST", "/", {"text": text(r)}, 200)),
        (20, lambda r: ("POST", "/v1/embeddings", {"input": texts(r), "model": "m"}, 200)),
        (10, lambda r: ("POST", "/v1/embeddings", {**openai(r), "encoding_format": "base64"}, 200)),
        (10, lambda r: ("POST", "/embed", {"inputs": texts(r), "truncate": True}, 200)),
        (5, lambda r: ("POST", "/api/v1/embed", {"inputs": text(r), "normalize": True}, 200)),
        (5, lambda r: ("POST", "/", {"texts": texts(r), "output_dtype": "int8"}, 200)),
        (3, lambda r: ("POST", "/tokenize", {"inputs": texts(r)}, 200)),
        (2, lambda r: ("POST", "/similarity", {"inputs": similarity(r)}, 200)),
        (2, lambda _: ("GET", "/health", None, 200)),
        (1, lambda _: ("GET", "/info", None, 200)),
        (1, lambda _: ("GET", "/openapi.json", None, 200)),
        (2, lambda r: ("POST", "/", {"text": text(r), "size": 7}, 400)),
        (2, lambda r: ("POST", "/embed", {"inputs": "word " * r.randint(3000, 5000)}, 422)),
        (2, lambda r: ("POST", "/v1/embeddings", {"input": [text(r), ""]}, 400)),
        (2, lambda r: ("POST", "/", f'{{"text": "{r.random()}', 400)),
        (1, lambda r: ("GET", f"/{r.random()}", None, 404)),
        (1, lambda _: ("DELETE", "/", None, 405)),
        (1, lambda r: ("POST", "/", {"texts": [text(r) for _ in range(64)]}, 200)),
    ]
    weights = [weight for weight, _ in kinds]
    for _ in range(FILLING):
        yield from filling(rng)
    for _ in range(count - 2 * FILLING):
        (_, make), *_ = rng.choices(kinds, weights)
        yield make(rng)


def filling(rng: random.Random) -> Iterator[Case]:
    """Fill the caches of words and of chunks in step, so that both are full at once."""
    words = new_words(rng, FILLING_WORDS)
    # One chunk, too long to be remembered itself.
    yield "POST", "/tokenize", {"inputs": words.replace(" ", ".")}, 200
    # Tokenized and refused as too long, but not embedded, so that the filling takes little time.
    yield "POST", "/embed", {"inputs": words}, 422


def text(rng: random.Random) -> str:
    """Return a text of some words, sometimes a long one; about every other text has new words."""
    count = rng.randint(35, 40) if rng.random() < 0.01 else rng.randint(1, 9)
    words = rng.choices(WORDS, k=count)
    return " ".join([*words, new_words(rng)] if rng.random() < 0.5 else words)


def new_words(rng: random.Random, count: int = 4) -> str:
    """Return words that rarely occur twice."""
    return " ".join(f"{rng.getrandbits(40):x}" for _ in range(count))


def texts(rng: random.Random) -> list[str]:
    """Return a few texts."""
    return [text(rng) for _ in range(rng.randint(1, 4))]


def openai(rng: random.Random) -> dict[str, Any]:
    """Return an input of token ids."""
    ids = [rng.randint(1000, 20_000) for _ in range(rng.randint(1, 9))]
    return {"input": ids, "model": "m", "add_special_tokens": True}


def similarity(rng: random.Random) -> dict[str, Any]:
    """Return sentences to compare."""
    return {"source_sentence": text(rng), "sentences": texts(rng)}


def event(method: str, path: str, body: Any) -> bytes:
    """Return a Function URL event."""
    return json.dumps(
        {
            "version": "2.0",
            "rawPath": path,
            "rawQueryString": "",
            "headers": {"content-type": "application/json"},
            "requestContext": {"http": {"method": method}, "requestId": "soak"},
            "isBase64Encoded": False,
            **(
                {}
                if body is None
                else {"body": body if isinstance(body, str) else json.dumps(body)}
            ),
        }
    ).encode()


def runtime_process() -> int:
    """Find the process of awslambdaric that descends from this one."""
    parents = {}
    candidates = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            parents[int(entry.name)] = int(stat[1])
            if words[1:3] == [b"-m", b"awslambdaric"]:
                candidates.append(int(entry.name))
    own = int(Path("/proc/self").readlink().name)
    for candidate in candidates:
        ancestor = candidate
        while ancestor in parents and ancestor != own:
            ancestor = parents[ancestor]
        if ancestor == own:
            return candidate
    sys.exit("error: the runtime's process was not found")


def resident(pid: int) -> int:
    """Return a process's resident memory, in kB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


if __name__ == "__main__":
    main()
