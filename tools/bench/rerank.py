"""Rerankers next to sentence-transformers and to ONNX Runtime, with one thread and random weights.

--peers is an interpreter with sentence-transformers, onnx and onnxscript. A request has one query
and 100 passages; each pair has 128 tokens.
"""

import argparse
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from tools.bench.contenders import Contender, latency, starts, workers
from tools.bench.model import Texts
from tools.bench.replicas import artifact_of, baseline_of, export_of, replica
from tools.bench.report import CPU, KIT, Row, Run
from tools.bench.worker import KINDS

_QUERY = "how many strings has a violin"
_PASSAGES, _TOKENS = 100, 128
_TORCH, _INT8, _EXPORT = "cross-encoder", "pairs-int8", "pairs"
#: By the model, its shape, and the highest accepted ratios of its start.
_MODELS: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "MiniLM-L6": ("bert-6x384", {}),
    "bge-reranker-v2-m3": ("xlm-roberta-24x1024", {_EXPORT: 0.25}),
}


def measure(options: argparse.Namespace) -> Run:
    """Measure the starts of both models, and a request of the smaller one."""
    if not options.peers:
        raise SystemExit("error: rerank needs --peers: an interpreter with sentence-transformers")
    rows: list[Row] = []
    for model, (shape, targets) in islice(_MODELS.items(), 1 if options.quick else None):
        source = replica(options.cache, shape, options.peers, scores=True)
        export = export_of(source, options.cache, options.peers)
        started = {
            KIT: Contender(KIT, artifact_of(source, options.cache)),
            _EXPORT: Contender(_EXPORT, export),
        }
        if not rows:
            rows.append(_request(model, source, export, started, options))
        pair = dict.fromkeys(started, (_QUERY, "a violin has four strings"))
        taken = starts(started, pair, rounds=options.rounds)["cpu"]
        rows.append(Row(f"{model}: init", CPU, taken, targets))
    labels = {kind: KINDS[kind].label for kind in (KIT, _TORCH, _EXPORT, _INT8)}
    return Run("rerankers", labels, rows, base=_TORCH)


def _request(
    model: str,
    source: Path,
    export: Path,
    started: Mapping[str, Contender],
    options: argparse.Namespace,
) -> Row:
    """Measure a query with passages that make pairs of `_TOKENS` tokens."""
    peers = {
        _TORCH: Contender(_TORCH, source, options.peers),
        _INT8: Contender(_INT8, baseline_of(export)),
    }
    texts = Texts(source / "tokenizer.json")
    around = texts.count(_QUERY, "") - 2  # Texts counts two special tokens itself.
    asked = (_QUERY, *texts.batch([_TOKENS - around] * _PASSAGES))
    with workers({**started, **peers}) as running:
        request = dict.fromkeys(running, asked)
        taken = latency(running, request, seconds=1 if options.quick else 30)
    name = f"{model}: {_PASSAGES} passages of {_TOKENS} tokens"
    return Row(name, CPU, taken, {_TORCH: 0.5, _INT8: 0.75})
