"""A model: starts, memory and requests, compared with other ways to serve it.

The replica of a published model has its real shapes and tokenizer, and random weights. Without
--family it is EmbeddingGemma's, next to a quantized export of torch (the baseline), the plain
export, sentence-transformers and fastembed. Another family is next to its usual deployment: the
plain export, or model2vec for a static model. all-MiniLM-L6-v2 has its real weights.

--peers is an interpreter with torch, which makes replicas and exports; without it, the graph that
this project writes in full precision replaces an export, and there are no targets. It adds OpenVINO
and llama.cpp to models with a graph, if it has them. Cosines are to full precision: of texts of the
compiler's comparison, each alone.
"""

import argparse
import json
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from model_compiler.fidelity import measure as fidelity
from tools.bench.contenders import (
    DROP_CACHES,
    Contender,
    Worker,
    latency,
    missing,
    starts,
    workers,
)
from tools.bench.replicas import (
    SHAPES,
    artifact_of,
    baseline_of,
    export_of,
    form_of,
    real,
    replica,
)
from tools.bench.report import BASE, CPU, KIT, Row, Run
from tools.bench.worker import KINDS

_GEMMA, _GEMMA_2, _MINILM = "embeddinggemma-300m", "embeddinggemma-2", "all-MiniLM-L6-v2"
#: Models of the catalog, one of each kind, and their shapes.
FAMILIES = {
    _GEMMA: "gemma3-24x768",
    _GEMMA_2: "embedding-gemma2-24x512",
    _MINILM: "bert-6x384",
    "multilingual-e5-small": "bert-12x384-multilingual",
    "all-mpnet-base-v2": "mpnet-12x768",
    "gte-modernbert-base": "modernbert-22x768",
    "bge-m3": "xlm-roberta-24x1024",
    "potion-base-8M": "static-29528x256",
    "Qwen3-Embedding-0.6B": "qwen3-28x1024",
}
_EXPORT, _STATIC, _ENDPOINT = "export", "model2vec", "endpoint"
_LLAMA = "llama-cpp"
#: The highest accepted ratios to the baseline of the full-size replica of EmbeddingGemma.
_GEMMA_TARGETS = {
    "init": 1 / 9,
    "init, page cache dropped": 1 / 5,
    "peak memory": 0.75,
    "8 tokens": 0.88,
    "32 tokens": 0.90,
    "128 tokens": 0.96,
    "512 tokens": 0.94,
    "2048 tokens": 0.60,
    "64 texts of 8 tokens, each": 0.40,
}
#: Those of EmbeddingGemma 2: of the start and of memory to the plain export, else to the baseline.
_GEMMA_2_TARGETS = {
    "init": 1 / 9,
    "peak memory": 0.5,
    **{f"{tokens} tokens": 0.75 for tokens in (8, 32, 128, 512, 2048, 8192)},
}
#: The highest accepted ratios to the usual deployment of another family.
_TARGETS = {
    "init": 1 / 5,
    "peak memory": 0.5,
    "32 tokens": 0.45,
    "256 tokens": 0.5,
    "2048 tokens": 0.5,
    "64 short texts": 0.25,
}
#: The target of the start with a vocabulary from 250,000 tokens on, which most of it loads.
_LARGE_VOCABULARY, _LARGE_INIT = 250_000, 1 / 8
#: The length in tokens of the request after which memory is read.
_MEMORY_TOKENS = 512
_WORDS = Path(fidelity.__file__).with_name("documents.txt")
#: The texts of which a cosine is computed; others set OpenVINO's static scales.
_COSINES = 40
_PEAK = Path(__file__).with_name("int8_peak.c")


class Texts:
    """Texts of English words with a given number of tokens."""

    def __init__(self, tokenizer: Path) -> None:
        self._library = Tokenizer.from_file(str(tokenizer))
        self._library.no_truncation()
        self._library.no_padding()
        #: The tokens of a text with one word.
        self._one = self.count("a")
        words = sorted(set(re.findall("[a-z]{2,10}", _WORDS.read_text(encoding="utf-8"))))
        # In a small vocabulary, many words have several tokens.
        self._words = [word for word in words if self.count(f"a {word}") == self._one + 1]

    def count(self, text: str, other: str | None = None) -> int:
        """Return the tokens of a text, or of a pair."""
        return len(self._library.encode(text, other).ids)

    def text(self, tokens: int, seed: int = 0) -> str:
        """Return a text with this number of tokens, special tokens included."""
        source = random.Random(f"{tokens} {seed}")  # noqa: S311 - not a secret
        return " ".join(["a", *source.choices(self._words, k=tokens - self._one)])

    def batch(self, lengths: Sequence[int]) -> list[str]:
        """Return a text of each length."""
        return [self.text(length, seed) for seed, length in enumerate(lengths)]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the subject's options."""
    parser.add_argument("--family", choices=sorted(FAMILIES), help="needs --peers, but for MiniLM")
    parser.add_argument(
        "--llama-cpp", type=Path, metavar="FOLDER", help="llama.cpp's source, for its converter"
    )


def measure(options: argparse.Namespace) -> Run:
    """Measure a family's contenders."""
    family, quick = options.family or _GEMMA, options.quick
    shape = SHAPES[FAMILIES[family]]
    if family == _MINILM:
        source, title = real(options.cache, family), f"{family}, real weights"
    else:
        source = replica(options.cache, FAMILIES[family], options.peers, small=quick)
        title = f"replica of {family}" + (" (small)" if quick else "")
    contenders, absent = _contenders(source, family, options)
    full = _EXPORT if shape.config else _STATIC
    if full not in contenders:
        raise SystemExit(f"error: {family} needs --peers: an interpreter with {full}")
    base = BASE if BASE in contenders else full
    targets = _targets(family, base, options)
    rows: list[Row] = []

    def add(name: str, unit: str, values: Mapping[str, float]) -> None:
        rows.append(Row(name, unit, values, targets.get(name, {})))
        sys.stderr.write(f"{name}: measured\n")

    texts = Texts(source / "tokenizer.json")
    memory = dict.fromkeys(contenders, (texts.text(min(_MEMORY_TOKENS, shape.max_tokens)),))
    warm = starts(contenders, memory, rounds=options.rounds)
    add("init", CPU, warm["cpu"])
    add("peak memory", "MB", warm["peak"])
    if not quick and os.access(DROP_CACHES, os.W_OK):
        cold = starts(contenders, memory, rounds=max(1, options.rounds // 2), cold=True)
        add("init, page cache dropped", "ms", cold["wall"])
    with workers(contenders) as running:
        cosines = _cosines(running, full)
        for name, lengths in _requests(family, shape.max_tokens, quick=quick).items():
            request = dict.fromkeys(running, texts.batch(lengths))
            times = latency(running, request, seconds=1.0 if quick else 12.0)
            each = len(lengths) if name.endswith(", each") else 1
            add(name, CPU, {kind: time / each for kind, time in times.items()})
    with workers({_ENDPOINT: Contender(_ENDPOINT, contenders[KIT].folder)}) as running:
        spent = latency(running, {_ENDPOINT: [texts.text(32)]}, seconds=1.0)[_ENDPOINT]
    notes = [
        "exported by torch" if options.peers else "not exported: our own graph in fp32",
        f"a request of 32 tokens takes {spent:.2f} ms besides the ONNX run (target: 2 ms)",
    ]
    if family == _GEMMA:
        (cpu,) = (row.values[KIT] / 1000 for row in rows if row.name == "128 tokens")
        notes.append(_rate(source, cpu))
    labels = {kind: KINDS[kind].label for kind in contenders}
    if full == _EXPORT and not options.peers:
        labels[_EXPORT] = "our graph in fp32"
    return Run(title, labels, rows, base=base, notes=notes, absent=absent, cosines=cosines)


def _targets(family: str, base: str, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Return the highest accepted ratio to a contender for each row that has one."""
    if not options.peers or options.quick or family == _MINILM:
        return {}  # They were set for torch's exports, and the full size of the other models.
    ratios = {_GEMMA: _GEMMA_TARGETS, _GEMMA_2: _GEMMA_2_TARGETS}.get(family, _TARGETS)
    if ratios is _TARGETS and SHAPES[FAMILIES[family]].vocabulary >= _LARGE_VOCABULARY:
        ratios = {**_TARGETS, "init": _LARGE_INIT}
    to_export = ("init", "peak memory") if family == _GEMMA_2 else ()
    return {name: {_EXPORT if name in to_export else base: one} for name, one in ratios.items()}


def _contenders(
    source: Path, family: str, options: argparse.Namespace
) -> tuple[dict[str, Contender], dict[str, str]]:
    """Make the forms of a model; return the contenders by kind, and why others are absent."""
    cache, peers = options.cache, options.peers
    forms: dict[str, Callable[[], Path]] = {KIT: lambda: artifact_of(source, cache)}
    if SHAPES[FAMILIES[family]].config:
        export = export_of(source, cache, peers)
        forms[_EXPORT] = lambda: export
        if family in (_GEMMA, _GEMMA_2):
            forms = {BASE: lambda: baseline_of(export), **forms}
        if family == _GEMMA:
            forms |= {"sentence-transformers": lambda: source, "fastembed": lambda: export}
        if peers:
            texts = cache / "calibration.txt"
            texts.write_text("\n".join(real_texts()[1]), encoding="utf-8")
            forms |= {
                "openvino-static": lambda: form_of(export, "openvino-static", peers, texts),
                "openvino-weights": lambda: form_of(export, "openvino-weights", peers),
                _LLAMA: lambda: form_of(source, _LLAMA, peers, options.llama_cpp),
            }
    else:
        forms[_STATIC] = lambda: source
    found, absent = {}, {}
    for kind, make in forms.items():
        packages = KINDS[kind].packages
        python = peers if peers and packages else sys.executable
        reason = missing(python, packages)
        if kind == _LLAMA and options.llama_cpp is None:
            reason = "--llama-cpp is not given"
        if reason:
            absent[KINDS[kind].label] = reason
        else:
            found[kind] = Contender(kind, make(), python)
    return found, absent


def real_texts() -> tuple[list[str], list[str]]:
    """Return texts of one to nine sentences for cosines, and others for calibration."""
    lines = [one for one in _WORDS.read_text("utf-8").splitlines() if not one.startswith("#")]
    chosen, others = lines[: 2 * _COSINES], lines[2 * _COSINES :]
    return tuple(  # type: ignore[return-value]
        [" ".join(part[place : place + 1 + place % 9]) for place in range(0, len(part), 2)]
        for part in (chosen, others)
    )


def _cosines(running: Mapping[str, Worker], full: str) -> dict[str, float]:
    """Return each contender's lowest cosine to the contender in full precision."""
    texts, _ = real_texts()
    found = {name: np.array(worker.vectors(texts)) for name, worker in running.items()}
    found = {name: v / np.linalg.norm(v, axis=1, keepdims=True) for name, v in found.items()}
    return {name: float((vectors * found[full]).sum(1).min()) for name, vectors in found.items()}


def _requests(family: str, max_tokens: int, *, quick: bool) -> dict[str, Sequence[int]]:
    """Return requests by their names: the number of tokens of each text."""
    gemma = family in (_GEMMA, _GEMMA_2)
    lengths = (8, 32, 128, 512, 2048, 8192) if gemma else (8, 32, 128, 256, 2048)
    most = 512 if quick else max_tokens
    found: dict[str, Sequence[int]] = {f"{n} tokens": [n] for n in lengths if n <= most}
    found["64 texts of 8 tokens, each"] = [8] * 64
    if not gemma:
        # Queries and titles differ in length: 4 to 24 tokens.
        return {**found, "64 short texts": [4 + 37 * place % 21 for place in range(64)]}
    source = random.Random(3)  # noqa: S311 - not a secret
    mixed = [min(400, max(4, round(2.718 ** source.gauss(3.7, 0.8)))) for _ in range(24)]
    return {**found, "24 texts of 4 to 400 tokens, each": mixed}


def _rate(source: Path, seconds: float) -> str:
    """Return the rate of int8 multiply-adds at 128 tokens, with the core's peak if known."""
    config: Mapping[str, int] = json.loads((source / "config.json").read_text("utf-8"))
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    heads, size = config["num_attention_heads"], config["head_dim"]
    layer = hidden * size * (2 * heads + 2) + 3 * hidden * wide
    rate = 128 * layer * config["num_hidden_layers"] / seconds
    native = "-mcpu=native" if platform.machine() == "aarch64" else "-march=native"
    with tempfile.TemporaryDirectory() as folder:
        command = f"cc -O3 {native} '{_PEAK}' -o {folder}/peak && {folder}/peak"
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)  # noqa: S603
    part = "no peak: no C compiler, or no int8 dot products"
    if not done.returncode:
        part = f"{rate / float(done.stdout.split()[0]):.2f} of the core's peak (target: 0.50)"
    return f"int8 multiply-adds at 128 tokens: {rate / 1e9:.0f} G/s, {part}"
