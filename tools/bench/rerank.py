"""Rerankers next to sentence-transformers and to ONNX Runtime, with one thread and random weights.

--peers is an interpreter with sentence-transformers, onnx and onnxscript. A request has one query
and 100 passages; each pair has 128 tokens.
"""

import argparse
from pathlib import Path

from tokenizers import Tokenizer

from tools.bench.contenders import LABELS, Contender, latency, starts, workers
from tools.bench.model import Texts
from tools.bench.replicas import artifact_of, baseline_of, classifier, export_of
from tools.bench.run import CPU, KIT, Row, Run

#: The shapes of ms-marco-MiniLM-L6-v2 and of bge-reranker-v2-m3.
SMALL, LARGE = "bert-6x384", "xlm-roberta-24x1024"
QUERY = "how many strings has a violin"
PASSAGES, TOKENS, MAX_TOKENS, SECONDS = 100, 128, 512, 30
_TORCH, _INT8, _EXPORT = "cross-encoder", "pairs-int8", "pairs"


def measure(options: argparse.Namespace) -> Run:
    """Measure a request of MiniLM-L6's shape, and the starts of both shapes."""
    if not options.peers:
        raise SystemExit("error: rerank needs --peers: an interpreter with sentence-transformers")
    small = _contenders(SMALL, options)
    source, export = small[_TORCH].folder, small[_EXPORT].folder
    small[_INT8] = Contender(_INT8, baseline_of(export))
    with workers(small) as running:
        request = dict.fromkeys(small, _request(source / "tokenizer.json"))
        taken = latency(running, request, seconds=1 if options.quick else SECONDS)
    rows = [
        Row(
            f"MiniLM-L6: {PASSAGES} passages of {TOKENS} tokens",
            CPU,
            taken,
            {_TORCH: 0.5, _INT8: 0.75},
        ),
        _start("MiniLM-L6", small, options, {}),
    ]
    if not options.quick:
        large = _contenders(LARGE, options)
        rows.append(_start("bge-reranker-v2-m3", large, options, {_EXPORT: 0.25}))
    return Run("rerankers", {kind: LABELS[kind] for kind in small}, rows, base=_TORCH)


def _start(
    name: str, found: dict[str, Contender], options: argparse.Namespace, targets: dict[str, float]
) -> Row:
    started = {kind: found[kind] for kind in (KIT, _EXPORT)}
    pair = dict.fromkeys(started, (QUERY, "a violin has four strings"))
    taken = starts(started, pair, rounds=options.rounds)["cpu"]
    return Row(f"{name}: init", CPU, taken, targets)


def _contenders(shape: str, options: argparse.Namespace) -> dict[str, Contender]:
    source = classifier(options.cache, shape, options.peers, max_tokens=MAX_TOKENS)
    return {
        KIT: Contender(KIT, artifact_of(source, options.cache)),
        _TORCH: Contender(_TORCH, source, options.peers),
        _EXPORT: Contender(_EXPORT, export_of(source, options.cache, options.peers)),
    }


def _request(path: Path) -> list[str]:
    """Return the query and the passages that make pairs of `TOKENS` tokens."""
    tokenizer, texts = Tokenizer.from_file(str(path)), Texts(path)
    around = len(tokenizer.encode(QUERY, "").ids) - 2  # Texts counts two special tokens itself
    return [QUERY, *(texts.text(TOKENS - around, seed) for seed in range(PASSAGES))]
