"""The fast tokenizers next to `tokenizers`: loading, and a text of some 500 tokens.

MiniLM's WordPiece and full-size replicas of Gemma's BPE, of ModernBERT's and Qwen's byte-level BPE
and of XLM-RoBERTa's Unigram. Loading is measured in fresh processes that have imported numpy and
ONNX Runtime. "New words" are those of a text without a word in the memory.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

import tokenizers

from embedder.core.fast_tokenizers import Tokenizer, load
from embedder.core.fast_tokenizers.table_file import WordMemo
from model_compiler.tokenizer.tables import build
from tests.fixtures.tokenizer_files import tokenizer_json
from tools.bench.replicas import SHAPES
from tools.bench.report import CPU, KIT, Comparison, ReportRow, least, middle, turns

_LIBRARY, _NEW = "tokenizers", "new words"
_ENGLISH = (
    "the quick brown fox jumps over the lazy dog and runs through the forest at night while "
    "embedding models serve requests quickly"
)
_TEXT = ". ".join([_ENGLISH] * 16)
#: Runs in a separate process; takes a tokenizer's kind and file.
_LOAD = """
import sys, time
import numpy, onnxruntime, orjson, embedder.core.artifact
from pathlib import Path
started = time.process_time()
from embedder.core.fast_tokenizers import load
load(sys.argv[1], sys.argv[2])
print(1e3 * (time.process_time() - started))
"""
#: A shape with each tokenizer, by its name.
_MODELS = {
    "MiniLM's WordPiece": "bert-6x384",
    "Gemma's BPE": "gemma3-24x768",
    "ModernBERT's BPE": "modernbert-22x768",
    "Qwen's BPE": "qwen3-28x1024",
    "XLM-RoBERTa's Unigram": "xlm-roberta-12x768",
}


def measure(options: argparse.Namespace) -> Comparison:
    """Measure the tokenizers."""
    rows: list[ReportRow] = []
    for name, shape in islice(_MODELS.items(), 1 if options.quick else None):
        data = tokenizer_json(SHAPES[shape].tokenizer, SHAPES[shape].vocabulary)
        with tempfile.TemporaryDirectory() as folder:
            tables = build(data)
            own, file = Path(folder) / tables.file, Path(folder) / "tokenizer.json"
            own.write_bytes(tables.data)
            file.write_bytes(data)
            work = {KIT: partial(_load, tables.kind, own), _LIBRARY: partial(_load, _LIBRARY, file)}
            rows.append(ReportRow(f"{name}: load", CPU, middle(turns(work, rounds=options.rounds))))
            fast, library = load(tables.kind, own), tokenizers.Tokenizer.from_file(str(file))
        speeds = turns(_speeds(fast, library), rounds=2 * options.rounds)
        rows.append(ReportRow(f"{name}: text", "µs of CPU time", least(speeds)))
    labels = {KIT: "Embedding Kit", _NEW: "Embedding Kit, new words", _LIBRARY: "tokenizers"}
    return Comparison("The tokenizers", labels, rows, base=_LIBRARY)


def _load(kind: str, file: Path) -> float:
    # The first run, which is not counted, may write byte code.
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", _LOAD, kind, str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=variables)  # noqa: S603 - ours
    return float(done.stdout)


def _speeds(fast: Tokenizer, library: tokenizers.Tokenizer) -> dict[str, Callable[[], float]]:
    """Return functions that measure the microseconds of the text."""
    memos = [memo for memo in vars(fast).values() if isinstance(memo, WordMemo)]

    def measured(encode: Callable[[], object], times: int = 10) -> float:
        return 1e6 * timeit.timeit(encode, timer=time.process_time, number=times) / times

    def new_words() -> float:
        for memo in memos:
            memo.clear()
        return measured(lambda: fast.encode(_TEXT), 1)

    return {
        _NEW: new_words,
        KIT: lambda: measured(lambda: fast.encode(_TEXT)),
        _LIBRARY: lambda: measured(lambda: library.encode(_TEXT, add_special_tokens=False).ids),
    }
