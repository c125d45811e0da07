"""The fast tokenizers against `tokenizers`: loading, first texts, warm texts, hard texts.

`python -m tools.bench.tokenizer_speed` measures MiniLM's WordPiece and full-size replicas of
Gemma's BPE, of ModernBERT's and Qwen's byte-level BPE and of XLM-RoBERTa's Unigram, or the
`tokenizer.json` files that it gets. Times are CPU times, the minimum of several rounds in which
both take turns. Loading is measured in fresh processes that have already imported numpy and ONNX
Runtime.
"""

import argparse
import base64
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import tokenizers

from embedder.core.fast_tokenizers import Tokenizer, load
from embedder.core.fast_tokenizers.memo import WordMemo
from model_compiler.source.find import find_source
from model_compiler.tokenizer.tables import build
from tests.fixtures.byte_level_tokenizer import FULL_SIZES, byte_level_tokenizer
from tests.fixtures.gemma_tokenizer import gemma_tokenizer
from tests.fixtures.unigram_tokenizer import unigram_tokenizer

__all__ = ["main"]

ROUNDS = 7
ENGLISH = (
    "the quick brown fox jumps over the lazy dog and runs through the forest at night while "
    "embedding models serve requests quickly"
)
CHINESE = "人工智能是计算机科学的一个分支，它企图了解智能的实质，并生产出一种新的智能机器。"
#: Runs in a separate process; takes a tokenizer's kind and file, and a text.
LOAD = """
import sys, time
import numpy, onnxruntime, orjson, embedder.core.artifact
from pathlib import Path

def memory():
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return [int(lines[name].split()[0]) / 1024 for name in ("RssAnon", "RssFile")]

before, started = memory(), time.process_time()
from embedder.core.fast_tokenizers import load
tokenizer = load(sys.argv[1], sys.argv[2])
loaded, after = time.process_time(), memory()
tokenizer.encode(sys.argv[3])
encoded, last = time.process_time(), memory()
print(1e3 * (loaded - started), after[0] - before[0], 1e3 * (encoded - loaded), last[1] - before[1])
"""


class Speed(NamedTuple):
    """CPU time of one text in microseconds."""

    text: str
    characters: int
    tokens: int
    #: All words are known from earlier texts.
    warm: float
    #: All words are new, after other texts.
    cold: float
    library: float


def main() -> None:
    """Measure, print the result, and write JSON on request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokenizer", nargs="*", type=Path, help="tokenizer.json files")
    parser.add_argument("--json", type=Path, help="a file to write the numbers to")
    arguments = parser.parse_args()
    results = {}
    for name, data in _tokenizers(arguments.tokenizer):
        with tempfile.TemporaryDirectory() as folder:
            tables = build(data)
            path = Path(folder) / tables.file
            path.write_bytes(tables.data)
            path.with_name("tokenizer.json").write_bytes(data)
            print(f"\n{name}: {tables.kind}, {len(tables.data) / 1e6:.1f} MB")
            loads = {kind: _load(kind, folder) for kind in (tables.kind, "tokenizers")}
            speeds = list(_speeds(load(tables.kind, path), path.with_name("tokenizer.json")))
        for kind, numbers in loads.items():
            print(
                f"  {kind:<11} load {numbers[0]:8.1f} ms, {numbers[1]:6.1f} MB, "
                f"first text {numbers[2]:5.1f} ms, {numbers[3]:5.1f} MB of the file mapped"
            )
        print(
            f"  {'text':<18}{'characters':>10}{'tokens':>8}{'warm µs':>11}{'cold µs':>11}", end=""
        )
        print(f"{'library µs':>12}{'warm':>8}{'cold':>8}")
        for speed in speeds:
            print(
                f"  {speed.text:<18}{speed.characters:>10}{speed.tokens:>8}{speed.warm:>11.1f}"
                f"{speed.cold:>11.1f}{speed.library:>12.1f}{speed.warm / speed.library:>7.2f}×"
                f"{speed.cold / speed.library:>7.2f}×"
            )
        results[name] = {"load": loads, "speed": [speed._asdict() for speed in speeds]}
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


def _tokenizers(files: list[Path]) -> Iterator[tuple[str, bytes]]:
    for path in files:
        yield path.stem, path.read_bytes()
    if files:
        return
    folder = find_source("all-MiniLM-L6-v2").folder
    yield "all-MiniLM-L6-v2", (folder / "tokenizer.json").read_bytes()
    yield "Gemma's kind, 262,144 tokens", gemma_tokenizer()
    for name in ("ModernBERT", "Qwen"):
        yield f"{name}'s kind", byte_level_tokenizer(name, tokens=FULL_SIZES[name])
    yield "XLM-RoBERTa's kind, 250,002 tokens", unigram_tokenizer()


def _load(kind: str, folder: str) -> list[float]:
    file = "tokenizer.json" if kind == "tokenizers" else "tokenizer.bin"
    # The first run may write byte code; the median is that of the others.
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    runs = [
        subprocess.run(  # noqa: S603 -- this Python and a program of ours
            [sys.executable, "-c", LOAD, kind, f"{folder}/{file}", ENGLISH],
            check=True,
            capture_output=True,
            text=True,
            env=environment,
        ).stdout
        for _ in range(5)
    ]
    columns = zip(*(map(float, run.split()) for run in runs), strict=True)
    return [statistics.median(column) for column in columns]


def _texts() -> Iterator[tuple[str, str]]:
    generator = random.Random(0)  # noqa: S311 -- not a secret
    code = Path(json.__file__).read_text(encoding="utf-8")
    yield "8 words", " ".join(ENGLISH.split()[:8])
    yield "English", ENGLISH
    yield "English ×16", ". ".join([ENGLISH] * 16)
    yield "code", code[:8000]
    yield "Chinese", CHINESE
    yield "accents and emoji", "Ünïcödé naïve café — “quotes” 東京 😀 Москва. " * 4
    yield "base64, no space", base64.b64encode(generator.randbytes(15_000)).decode()
    yield "one letter", "a" * 20_000
    yield "spaces", " " * 20_000
    yield "angle brackets", "<" * 20_000


def _speeds(fast: Tokenizer, file: Path) -> Iterator[Speed]:
    library = tokenizers.Tokenizer.from_file(str(file))
    library.no_truncation()
    library.no_padding()
    words = [memo for memo in vars(fast).values() if isinstance(memo, WordMemo)]
    for name, text in _texts():
        tokens = len(fast.encode(text))
        warm, cold, slow = [], [], []
        for _ in range(ROUNDS):
            warm.append(_microseconds(lambda: fast.encode(text), len(text)))  # noqa: B023
            slow.append(
                _microseconds(
                    lambda: library.encode(text, add_special_tokens=False).ids,  # noqa: B023
                    len(text),
                )
            )
            for memo in words:
                memo.clear()
            cold.append(_microseconds(lambda: fast.encode(text), len(text), times=1))  # noqa: B023
        yield Speed(name, len(text), tokens, min(warm), min(cold), min(slow))


def _microseconds(call: Callable[[], object], size: int, *, times: int | None = None) -> float:
    times = times or max(1, 20_000 // size)
    started = time.process_time_ns()
    for _ in range(times):
        call()
    return (time.process_time_ns() - started) / times / 1e3


if __name__ == "__main__":
    main()
