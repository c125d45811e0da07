"""The fast tokenizers next to `tokenizers`: loading, first texts, warm texts, hard texts.

By default MiniLM's WordPiece and full-size replicas of Gemma's BPE, of ModernBERT's and Qwen's
byte-level BPE and of XLM-RoBERTa's Unigram. Loading is measured in fresh processes that have
imported numpy and ONNX Runtime. "New words" are those of a text without a word in the memory.
"""

import argparse
import base64
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import tokenizers

from embedder.core.fast_tokenizers import Tokenizer, load
from embedder.core.fast_tokenizers.memo import WordMemo
from model_compiler.source.find import find_source
from model_compiler.tokenizer.tables import build
from tests.fixtures.byte_level_tokenizer import FULL_SIZES, byte_level_tokenizer
from tests.fixtures.gemma_tokenizer import gemma_tokenizer
from tests.fixtures.unigram_tokenizer import unigram_tokenizer
from tools.bench.run import KIT, Row, Run, least, middle, turns

_LIBRARY, _NEW = "tokenizers", "new words"
_ENGLISH = (
    "the quick brown fox jumps over the lazy dog and runs through the forest at night while "
    "embedding models serve requests quickly"
)
_CHINESE = "人工智能是计算机科学的一个分支，它企图了解智能的实质，并生产出一种新的智能机器。"
#: Runs in a separate process; takes a tokenizer's kind and file, and a text.
_LOAD = """
import sys, time
import numpy, onnxruntime, orjson, embedder.core.artifact
from pathlib import Path

def memory():
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["RssAnon"].split()[0]) / 1024

before, started = memory(), time.process_time()
from embedder.core.fast_tokenizers import Tokenizer, load
tokenizer = load(sys.argv[1], sys.argv[2])
loaded, after = time.process_time(), memory()
tokenizer.encode(sys.argv[3])
print(1e3 * (loaded - started), after - before, 1e3 * (time.process_time() - loaded))
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the subject's options."""
    parser.add_argument("tokenizer", nargs="*", type=Path, help="tokenizer.json files")


def measure(options: argparse.Namespace) -> Run:
    """Measure the files, or the default tokenizers."""
    rows: list[Row] = []
    for name, data in islice(_tokenizers(options.tokenizer), 1 if options.quick else None):
        with tempfile.TemporaryDirectory() as folder:
            tables = build(data)
            own, file = Path(folder) / tables.file, Path(folder) / "tokenizer.json"
            own.write_bytes(tables.data)
            file.write_bytes(data)
            work = {KIT: partial(_load, tables.kind, own), _LIBRARY: partial(_load, _LIBRARY, file)}
            loads = turns(work, rounds=options.rounds)
            for place, what in enumerate(("load, ms", "memory, MB", "first text, ms")):
                values = {kind: [run[place] for run in runs] for kind, runs in loads.items()}
                title, unit = what.split(", ")
                rows.append(Row(f"{name}: {title}", unit, middle(values)))
            fast, library = load(tables.kind, own), tokenizers.Tokenizer.from_file(str(file))
        library.no_truncation()
        library.no_padding()
        for title, text in _texts():
            found = turns(_speeds(fast, library, text), rounds=2 * options.rounds)
            rows.append(Row(f"{name}: {title}", "µs of CPU time", least(found)))
    labels = {KIT: "Embedding Kit", _NEW: "Embedding Kit, new words", _LIBRARY: "tokenizers"}
    return Run("The tokenizers", labels, rows, base=_LIBRARY)


def _tokenizers(files: list[Path]) -> Iterator[tuple[str, bytes]]:
    for path in files:
        yield path.stem, path.read_bytes()
    if files:
        return
    folder = find_source("all-MiniLM-L6-v2").folder
    yield "MiniLM's WordPiece", (folder / "tokenizer.json").read_bytes()
    yield "Gemma's BPE", gemma_tokenizer()
    for name in ("ModernBERT", "Qwen"):
        yield f"{name}'s BPE", byte_level_tokenizer(name, tokens=FULL_SIZES[name])
    yield "XLM-RoBERTa's Unigram", unigram_tokenizer()


def _load(kind: str, file: Path) -> list[float]:
    # The first run, which is not counted, may write byte code.
    environment = {**os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(  # noqa: S603 -- this Python and a program of ours
        [sys.executable, "-c", _LOAD, kind, str(file), _ENGLISH],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    return [float(value) for value in done.stdout.split()]


def _texts() -> Iterator[tuple[str, str]]:
    generator = random.Random(0)  # noqa: S311 -- not a secret
    yield "8 words", " ".join(_ENGLISH.split()[:8])
    yield "English", _ENGLISH
    yield "English ×16", ". ".join([_ENGLISH] * 16)
    yield "code", Path(json.__file__).read_text(encoding="utf-8")[:8000]
    yield "Chinese", _CHINESE
    yield "accents and emoji", "Ünïcödé naïve café — “quotes” 東京 😀 Москва. " * 4
    yield "base64, no space", base64.b64encode(generator.randbytes(15_000)).decode()
    yield "one letter", "a" * 20_000
    yield "spaces", " " * 20_000
    yield "angle brackets", "<" * 20_000


def _speeds(
    fast: Tokenizer, library: tokenizers.Tokenizer, text: str
) -> dict[str, Callable[[], float]]:
    """Return functions that measure the microseconds of a text."""
    times = max(1, 20_000 // len(text))
    memos = [memo for memo in vars(fast).values() if isinstance(memo, WordMemo)]

    def measured(encode: Callable[[], object], times: int) -> float:
        return 1e6 * timeit.timeit(encode, timer=time.process_time, number=times) / times

    def new_words() -> float:
        for memo in memos:
            memo.clear()
        return measured(lambda: fast.encode(text), 1)

    return {
        _NEW: new_words,
        KIT: lambda: measured(lambda: fast.encode(text), times),
        _LIBRARY: lambda: measured(
            lambda: library.encode(text, add_special_tokens=False).ids, times
        ),
    }
