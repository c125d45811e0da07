"""A model: starts, memory and requests, compared with other ways to serve it.

The replica of a published model has its real shapes and tokenizer, and random weights. Without
--family it is EmbeddingGemma's, next to a quantized export of torch (the baseline), the plain
export, sentence-transformers and fastembed. Another family is next to its usual deployment: the
plain export; model2vec for a static model; for a classifier, `quantize_dynamic` with transformers'
tokenizer and without torch, and an embedding model of the same sizes; for a reranker,
sentence-transformers and ONNX Runtime, with a query and its passages in a request. all-MiniLM-L6-v2
has its real weights.

--peers installs torch, which makes replicas and exports, and the other libraries in .cache; without
it, the graph that this project writes in full precision replaces an export, and there are no
targets. It adds this project's graph without its own operator, where that runs; OpenVINO to models
with a graph, and LiteRT to BERT's; --llama-cpp adds llama.cpp. Cosines are to full precision: of
texts of the compiler's comparison, each alone.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from embedder.core.session import has_kernel
from model_compiler.fidelity import measure as fidelity
from tools.bench import replicas
from tools.bench.contenders import (
    DROP_CACHES,
    Contender,
    Worker,
    latency,
    latency_after_idling,
    python_of,
    starts,
    workers,
)
from tools.bench.replicas import SHAPES, baseline_of, form_of, without_operator
from tools.bench.report import BASE, CPU, KIT, PLAIN, Comparison, ReportRow
from tools.bench.worker import KINDS

GEMMA, MINILM = "embeddinggemma-300m", "all-MiniLM-L6-v2"
_GEMMA_2 = "embeddinggemma-2"
_EXPORT, _STATIC, _ENDPOINT, _LLAMA = "export", "model2vec", "endpoint", "llama-cpp"
#: Contenders of a reranker: sentence-transformers, and the plain export.
_CROSS_ENCODER, _PAIRS = "cross-encoder", "pairs"
#: Contenders of a classifier: its usual deployment, and an embedding model of the same sizes.
_TRANSFORMERS, _EMBEDDER = "transformers", "embedder"
_QUERY, _PASSAGE_TOKENS = "how many strings has a violin", 128


@dataclass(frozen=True, slots=True)
class FamilyPlan:
    """The measurements of a model, as `families.toml` describes them.

    Attributes:
        labels: Of a classifier or a reranker; 0 for other models.
        passages: Of a request to a reranker; 0 for other models.
        targets: Contender → row → the highest accepted ratio to it.
    """

    shape: str
    lengths: Sequence[int] = ()
    labels: int = 0
    passages: int = 0
    targets: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


FAMILIES = replicas.described("families.toml", FamilyPlan)
_WORDS = Path(fidelity.__file__).with_name("documents.txt")
#: The texts of which a cosine is computed; others set OpenVINO's static scales.
_COSINES = 40
#: The longest text, in tokens, that is also embedded after idling: a longer one takes so much time
#: that idling adds little.
_AFTER_IDLING = 512
_HOW = (
    "requests back to back, the least time of several turns; after a second of idling, the median"
)
_PEAK = Path(__file__).with_name("int8_peak.c")


class SizedTexts:
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


OPTIONS: Mapping[str, Any] = {
    "--family": {"choices": sorted(FAMILIES), "help": "needs --peers, except all-MiniLM-L6-v2"},
    "--llama-cpp": {"type": Path, "metavar": "FOLDER", "help": "its source; compiles its package"},
}


def measure(options: argparse.Namespace) -> Comparison:
    """Measure a family's contenders."""
    name, quick = options.family or GEMMA, options.quick
    family = FAMILIES[name]
    reranks = bool(family.passages)
    shape = SHAPES[family.shape]
    if name == MINILM:
        source, title = replicas.real(options.cache, name), f"{name}, real weights"
    else:
        cache, title = options.cache, f"replica of {name}" + (" (small)" if quick else "")
        replica_options = {"small": quick, "labels": family.labels}
        source = replicas.replica(cache, family.shape, options.peers, **replica_options)
    contenders, notes = _contenders(source, name, options)
    full = _PAIRS if reranks else _EXPORT if shape.config else _STATIC
    if full not in contenders:
        raise SystemExit(f"error: {name} needs --peers: {full}")
    bases = (KIT,) if name == MINILM else (BASE, _CROSS_ENCODER, _TRANSFORMERS, full)
    base = next(kind for kind in bases if kind in contenders)
    # Targets were set for torch's exports, and for the full size.
    targets = family.targets if options.peers and not quick else {}
    rows: list[ReportRow] = []

    def add(row: str, unit: str, values: Mapping[str, float]) -> None:
        own = {kind: ratios[row] for kind, ratios in targets.items() if row in ratios}
        rows.append(ReportRow(row, unit, values, own))
        sys.stderr.write(f"{row}: measured\n")

    texts = SizedTexts(source / "tokenizer.json")
    requests = requests_of(name, texts, 512 if quick else shape.max_tokens)
    text_or_pair = (_QUERY, "four") if reranks else (texts.text(min(512, shape.max_tokens)),)
    memory = dict.fromkeys(contenders, text_or_pair)
    warm = starts(contenders, memory, rounds=options.rounds)
    add("init", CPU, warm["cpu"])
    add("peak memory", "MB", warm["peak"])
    if not quick and os.access(DROP_CACHES, os.W_OK):
        cold = starts(contenders, memory, rounds=max(1, options.rounds // 2), cold=True)
        add("init, page cache dropped", "ms", cold["wall"])
    with workers(contenders) as running:
        if not family.labels:
            rows.insert(0, _cosines(running, full))
        for row, request in requests.items():
            for measured, times in _times(running, row, request, quick=quick):
                add(measured, CPU, times)
    notes.append(_HOW)
    notes.append("exported by torch" if options.peers else "not exported: our own graph in fp32")
    if not family.labels:
        notes.append(_besides_the_run(contenders[KIT].folder, texts.text(32)))
    if name == GEMMA:
        (cpu,) = (row.values[KIT] / 1000 for row in rows if row.name == "128 tokens")
        notes.append(_rate(source, cpu))
    labels = {kind: KINDS[kind].label for kind in contenders}
    if full == _EXPORT and not options.peers:
        labels[_EXPORT] = "our graph in fp32"
    return Comparison(title, labels, rows, base=base, notes=notes)


def _times(
    running: Mapping[str, Worker], row: str, request: Sequence[str], *, quick: bool
) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Yield a row's name and its times: of a request back to back, and of one text after idling."""
    requests = dict.fromkeys(running, request)
    times = latency(running, requests, seconds=0.4 if quick else 12.0)
    count = len(request) if row.endswith(", each") else 1
    yield row, {kind: time / count for kind, time in times.items()}
    if len(request) == 1 and int(row.split(maxsplit=1)[0]) <= _AFTER_IDLING:
        idle = latency_after_idling(running, requests, rounds=1 if quick else 5)
        yield f"{row}, after a second of idling", idle


def _besides_the_run(artifact: Path, text: str) -> str:
    """Return what the handler takes for a text without its ONNX run."""
    with workers({_ENDPOINT: Contender(_ENDPOINT, artifact)}) as running:
        spent = latency(running, {_ENDPOINT: [text]}, seconds=1.0)[_ENDPOINT]
    return f"32 tokens take {spent:.2f} ms besides the ONNX run (target: 2 ms)"


def _contenders(
    source: Path, name: str, options: argparse.Namespace
) -> tuple[dict[str, Contender], list[str]]:
    """Make the forms of a model; return the contenders by kind, and why others are absent."""
    cache, peers, family = options.cache, options.peers, FAMILIES[name]
    forms: dict[str, Callable[[], Path]] = {KIT: lambda: replicas.artifact_of(source, cache)}
    if SHAPES[family.shape].config:
        export = replicas.export_of(source, cache, peers)
        forms[_PAIRS if family.passages else _EXPORT] = lambda: export
    if family.passages:
        forms |= {_CROSS_ENCODER: lambda: source, "pairs-int8": lambda: baseline_of(export)}
    elif family.labels:
        encoder = replicas.replica(cache, family.shape, peers)
        forms |= {_TRANSFORMERS: lambda: baseline_of(export), "int8": lambda: baseline_of(export)}
        forms[_EMBEDDER] = lambda: replicas.artifact_of(encoder, cache)
    elif not SHAPES[family.shape].config:
        forms[_STATIC] = lambda: source
    else:
        if name in (GEMMA, _GEMMA_2):
            forms = {BASE: lambda: baseline_of(export), **forms}
        if name == MINILM:
            forms["int8"] = lambda: baseline_of(export)
        if name == GEMMA:
            forms |= {"sentence-transformers": lambda: source, "fastembed": lambda: export}
        if peers:
            bert = SHAPES[family.shape].config["model_type"] == "bert"
            forms |= _other_engines(source, export, options, bert=bert)
    contenders, absent = {}, []
    for kind, make in forms.items():
        if KINDS[kind].environment and not peers:
            absent.append(f"{KINDS[kind].label}: absent without --peers")
        else:
            contenders[kind] = Contender(kind, make(), python_of(KINDS[kind].environment))
    return contenders | _without_operator(contenders[KIT].folder, peers=peers), absent


def _without_operator(artifact: Path, *, peers: bool) -> dict[str, Contender]:
    """Return this project's graph without its own operator, where that runs."""
    plain = without_operator(artifact) if peers and has_kernel() else None
    return {PLAIN: Contender(PLAIN, plain)} if plain else {}


def _other_engines(
    source: Path, export: Path, options: argparse.Namespace, *, bert: bool
) -> dict[str, Callable[[], Path]]:
    """Return what makes the forms of other engines, by the kind of the contender."""
    texts = options.cache / "calibration.txt"
    texts.write_text("\n".join(real_texts()[1]), encoding="utf-8")
    extra = {"openvino-static": (export, texts), "openvino-weights": (export,)}
    if bert:
        extra |= {"litert": (source,), "litert-outliers": (source,)}
    if options.llama_cpp:
        extra[_LLAMA] = (source, options.llama_cpp)
    return {
        kind: partial(form_of, folder, kind, *paths) for kind, (folder, *paths) in extra.items()
    }


def real_texts() -> tuple[list[str], list[str]]:
    """Return texts of one to nine sentences for cosines, and others for calibration."""
    lines = [line for line in _WORDS.read_text("utf-8").splitlines() if not line.startswith("#")]
    chosen, calibration = lines[: 2 * _COSINES], lines[2 * _COSINES :]
    return tuple(  # type: ignore[return-value]
        [
            " ".join(sentences[start : start + 1 + start % 9])
            for start in range(0, len(sentences), 2)
        ]
        for sentences in (chosen, calibration)
    )


def _cosines(running: Mapping[str, Worker], full: str) -> ReportRow:
    """Return each contender's lowest cosine to the contender in full precision."""
    texts, _ = real_texts()
    vectors = {name: np.array(worker.ask({"vectors": texts})) for name, worker in running.items()}
    vectors = {name: v / np.linalg.norm(v, axis=1, keepdims=True) for name, v in vectors.items()}
    lowest = {name: float((rows * vectors[full]).sum(1).min()) for name, rows in vectors.items()}
    return ReportRow("lowest cosine to full precision", "", lowest)


def requests_of(name: str, texts: SizedTexts, most: int) -> dict[str, list[str]]:
    """Return the texts of requests by their names; a text has up to `most` tokens."""
    family = FAMILIES[name]
    if family.passages:
        # `SizedTexts` counts two special tokens itself.
        length = _PASSAGE_TOKENS - texts.count(_QUERY, "") + 2
        row = f"{family.passages} passages of {_PASSAGE_TOKENS} tokens"
        return {row: [_QUERY, *texts.batch([length] * family.passages)]}
    requests = {
        f"{length} tokens": [texts.text(length)] for length in family.lengths if length <= most
    }
    requests["64 texts of 8 tokens, each"] = texts.batch([8] * 64)
    if name in (GEMMA, _GEMMA_2):
        source = random.Random(3)  # noqa: S311 - not a secret
        mixed = [min(400, max(4, round(2.718 ** source.gauss(3.7, 0.8)))) for _ in range(24)]
        return {**requests, "24 texts of 4 to 400 tokens, each": texts.batch(mixed)}
    # Queries and titles differ in length: 4 to 24 tokens.
    return {
        **requests,
        "64 short texts": texts.batch([4 + 37 * number % 21 for number in range(64)]),
    }


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
    share_of_peak = "no peak: no C compiler, or no int8 dot products"
    if not done.returncode:
        share_of_peak = (
            f"{rate / float(done.stdout.split()[0]):.2f} of the core's peak (target: 0.50)"
        )
    return f"int8 multiply-adds at 128 tokens: {rate / 1e9:.0f} G/s, {share_of_peak}"
