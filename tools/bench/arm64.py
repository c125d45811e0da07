"""Instructions of a model on ARM64, counted under emulation: about the same on any machine.

A count is no time: it knows neither caches nor memory, and instructions differ in what they take.
It shows what a graph costs Lambda's processors where none is at hand: N1 is Graviton2; i8mm has the
int8 matrix products of Graviton3, without SVE. A warm run repeats within 0.1 %, a start within 1 %.

all-MiniLM-L6-v2 has its real weights, and ms-marco-MiniLM-L6-v2 the same ones below a new head;
others are replicas. --peers makes them, as in `scripts/bench`, and adds LiteRT. OpenVINO is absent:
it ends with a segmentation fault where Linux shows one processor.

--check compares the starts and the requests of 32 tokens of both MiniLMs with arm64_counts.json,
and fails 2 % above; --update writes that file. Without root on Debian, --check is skipped, or fails
if CI is set. Packages of Debian and PyPI are downloaded once.

--record is for the pages, with --peers: on an idle core about 10 minutes for MiniLM, with --nodes
1x128, and half an hour for EmbeddingGemma.
"""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from tests.model_compiler.goldens.files import edit_json
from tools.bench import replicas
from tools.bench.arm64_emulator import PROCESSORS, Emulator
from tools.bench.model import FAMILIES, MINILM, SizedTexts
from tools.bench.replicas import SHAPES
from tools.bench.report import BASE, KIT, PLAIN, Comparison, ReportRow
from tools.bench.worker import KINDS
from tools.debian import DebianError

_RERANKER = "ms-marco-MiniLM-L6-v2"
_COUNTS = Path(__file__).with_name("arm64_counts.json")
#: The highest accepted ratio of a count to the recorded one.
_ALLOWED = 1.02
_UNIT = "million instructions"
_REQUEST = "request of 32 tokens"
_SHAPES = ("1x8", "1x32", "1x128", "1x512", "64x8")
_RECORDED = "recorded"
#: Contender → its label, and its engine in arm64_worker.py.
_CONTENDERS: Mapping[str, tuple[str, str]] = {
    KIT: ("Embedding Kit", "kit"),
    PLAIN: (KINDS[PLAIN].label, "kit"),
    BASE: ("ONNX int8, all optimizations", "onnx-all"),
    "baseline-basic": ("ONNX int8, basic optimizations", "onnx-basic"),
    "litert": (KINDS["litert"].label, "litert"),
    "litert-outliers": (KINDS["litert-outliers"].label, "litert"),
}

OPTIONS: Mapping[str, Any] = {
    "--family": {"choices": sorted(FAMILIES), "default": MINILM, "help": "default: %(default)s"},
    "--processors": {"nargs": "+", "choices": list(PROCESSORS), "default": list(PROCESSORS)},
    "--shapes": {
        "nargs": "*",
        "metavar": "TEXTSxTOKENS",
        "default": _SHAPES,
        "help": f"runs of the graph; default: {' '.join(_SHAPES)}",
    },
    "--nodes": {"metavar": "TEXTSxTOKENS", "help": "a run that is counted by operator"},
    "--check": {"action": "store_true", "help": "compare with the recorded counts"},
    "--update": {"action": "store_true", "help": "record the counts"},
}


def measure(options: argparse.Namespace) -> Comparison:
    """Count the instructions of a model's contenders, or compare those of `--check`."""
    if options.record and (options.check or options.update):
        raise SystemExit("error: --record is of a model; found: --check or --update")
    try:
        emulator = Emulator(options.cache / "arm64")
    except DebianError as error:
        if options.check and not os.environ.get("CI"):
            sys.stdout.write(f"skipped: {error}\n")
            raise SystemExit(0) from error
        raise SystemExit(f"error: {error}") from error
    if options.check or options.update:
        return _checked(options, emulator)
    name = options.family
    source = _source(name, options)
    artifact = replicas.artifact_of(source, options.cache)
    export = replicas.export_of(source, options.cache, options.peers)
    baseline = replicas.baseline_of(export)
    plain = replicas.without_operator(artifact)
    folders = {KIT: artifact} | ({PLAIN: plain} if plain else {})
    folders |= {BASE: baseline, "baseline-basic": baseline}
    is_bert = SHAPES[FAMILIES[name].shape].config.get("model_type") == "bert"
    if options.peers and is_bert and not FAMILIES[name].passages:
        folders |= {
            contender: replicas.form_of(source, contender)
            for contender in ("litert", "litert-outliers")
        }
    nodes = _shape(options.nodes) if options.nodes else None
    rows: list[ReportRow] = []
    for processor in options.processors:
        counts = {
            contender: _counts(
                emulator, processor, contender, folder, _plan(source, name, options, nodes)
            )
            for contender, folder in folders.items()
        }
        rows += _rows(counts, processor)
    labels = {contender: _CONTENDERS[contender][0] for contender in folders}
    exporter = "exported by torch" if options.peers else "not exported: our own graph in fp32"
    return Comparison(f"{name}, ARM64, counted", labels, rows, notes=[exporter, _said(emulator)])


def _checked(options: argparse.Namespace, emulator: Emulator) -> Comparison:
    """Count starts and requests, and compare them with the recorded ones, or record them."""
    counts: dict[str, float] = {}
    for name in (MINILM, _RERANKER):
        source = _source(name, options)
        artifact = replicas.artifact_of(source, options.cache)
        plan = _plan(source, name, argparse.Namespace(shapes=[]), None)
        for processor in PROCESSORS:
            of_kit = _counts(emulator, processor, KIT, artifact, plan)
            counts |= {f"{name}, {row}, {processor}": count for row, count in of_kit.items()}
    if options.update:
        rounded = {name: round(count, 3) for name, count in counts.items()}
        value = {"versions": emulator.versions, "counts": rounded}
        _COUNTS.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    recorded = json.loads(_COUNTS.read_text("utf-8"))
    rows = compared(counts, recorded["counts"])
    notes = [
        _said(emulator),
        f"recorded with {recorded['versions']}",
        "`scripts/bench arm64 --update` records an intended change",
    ]
    labels = {_RECORDED: _RECORDED, KIT: _CONTENDERS[KIT][0]}
    return Comparison("ARM64, counted", labels, rows, base=_RECORDED, notes=notes)


def compared(counts: Mapping[str, float], recorded: Mapping[str, float]) -> list[ReportRow]:
    """Return the counts next to the recorded ones, which are their targets.

    Raises:
        SystemExit: If other things were recorded than were counted.
    """
    if counts.keys() != recorded.keys():
        names = ", ".join(sorted(counts.keys() ^ recorded.keys()))
        raise SystemExit(f"error: {_COUNTS.name} must have what is counted; it differs in {names}")
    return [
        ReportRow(name, _UNIT, {_RECORDED: recorded[name], KIT: count}, {_RECORDED: _ALLOWED})
        for name, count in counts.items()
    ]


def _source(name: str, options: argparse.Namespace) -> Path:
    if name == MINILM:
        return replicas.real(options.cache, MINILM)
    if name == _RERANKER:
        return _reranker(options.cache)
    family = FAMILIES[name]
    return replicas.replica(options.cache, family.shape, options.peers, labels=family.labels)


def _reranker(cache: Path) -> Path:
    """Return a classifier of MiniLM's sizes: its encoder, and a head of random weights."""
    encoder, folder = replicas.real(cache, MINILM), cache / "minilm-classifier"
    folder.mkdir(exist_ok=True)
    for file in (encoder / "config.json", *encoder.glob("tokenizer*.json")):
        shutil.copy(file, folder)
    names = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}
    width = edit_json(folder / "config.json", **names)["hidden_size"]
    head = np.random.RandomState(0).standard_normal((1, width)).astype(np.float32)
    tensors = load_file(encoder / "model.safetensors")
    tensors = {f"bert.{name}": tensor for name, tensor in tensors.items()}
    tensors |= {"classifier.weight": head, "classifier.bias": np.zeros(1, np.float32)}
    save_file(tensors, folder / "model.safetensors")
    return folder


def _plan(
    source: Path, name: str, options: argparse.Namespace, nodes: tuple[int, int] | None
) -> dict[str, Any]:
    """Return the plan of arm64_worker.py."""
    texts = SizedTexts(source / "tokenizer.json")
    path, body = "/v1/embeddings", {"input": [texts.text(32)], "model": "m"}
    if FAMILIES[name].passages:
        # Each has two special tokens alone; the pair has three.
        path, body = "/rerank", {"query": texts.text(10), "texts": [texts.text(23, seed=1)]}
    shapes = [_shape(shape) for shape in options.shapes]
    return {"requests": {_REQUEST: (path, body)}, "shapes": shapes, "nodes": nodes}


def _shape(name: str) -> tuple[int, int]:
    texts, _, tokens = name.partition("x")
    return int(texts), int(tokens)


def _counts(
    emulator: Emulator, processor: str, contender: str, folder: Path, plan: Mapping[str, Any]
) -> dict[str, float]:
    sys.stderr.write(f"counting {_CONTENDERS[contender][0]}, {processor} ...\n")
    worker = [emulator.worker, _CONTENDERS[contender][1], str(folder.resolve())]
    nothing: Mapping[str, Any] = {"requests": {}, "shapes": [], "nodes": None}
    # The first start writes byte code, which the image has.
    emulator.python(processor, *worker, json.dumps(nothing), counted=False)
    counts: dict[str, float] = json.loads(emulator.python(processor, *worker, json.dumps(plan)))
    return counts


def _rows(counts: Mapping[str, Mapping[str, float]], processor: str) -> list[ReportRow]:
    names = dict.fromkeys(name for count in counts.values() for name in count)
    return [
        ReportRow(
            f"{name}, {processor}",
            _UNIT,
            {contender: count[name] for contender, count in counts.items() if name in count},
        )
        for name in names
    ]


def _said(emulator: Emulator) -> str:
    return f"counted with {emulator.versions}"
