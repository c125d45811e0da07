"""Measure what int8 costs a search: nDCG@10 and recall@10 of a model in three precisions.

The corpus is Python's own documentation: a document is a docstring of the standard library. A
query is one of its sentences, which the document then lacks, or the name of its function or class
in words. Only that document is relevant. With --pairs, queries and documents are yours: JSON Lines
with the texts `query` and `document`; a query on several lines has several relevant documents.

The contenders are the model in full precision, this project's int8, and ONNX Runtime's usual int8:
`quantize_dynamic` of the same graph with its default of one scale per tensor, a text at a time. All
search exactly, by cosine. Intervals hold 95% of the differences to full precision in 10,000 samples
of the queries with replacement (the paired bootstrap).
"""

import argparse
import ast
import random
import re
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from pydantic import BaseModel, Field, ValidationError
from tqdm import tqdm

from embedder.core.artifact import Artifact, load_artifact
from embedder.core.engine import Engine
from embedder.core.session import session_options
from model_compiler.graph.builder import Precision
from tools.bench.replicas import artifact_of, quantize
from tools.bench.report import KIT, Comparison, ReportRow

Vectors = npt.NDArray[np.float32]

_FULL, _USUAL = "fp32", "usual"
_LABELS = {
    _FULL: "full precision",
    KIT: "Embedding Kit's int8",
    _USUAL: "ONNX Runtime's usual int8",
}
#: The cutoff of both measures, as in MTEB's retrieval tasks.
_RESULTS = 10
_SAMPLES, _QUERIES, _SEED = 10_000, 2000, 0
#: Texts of one call of the engine.
_TEXTS = 64
#: Characters of a document. Shorter ones say too little, longer ones are mostly tables.
_SHORTEST, _LONGEST = 120, 1500
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True, slots=True)
class SearchTask:
    """Queries, documents, and the places of the documents that each query should find."""

    queries: Sequence[str]
    documents: Sequence[str]
    relevant: Sequence[frozenset[int]]


OPTIONS: Mapping[str, Any] = {
    "--model": {"default": "all-MiniLM-L6-v2", "help": "a name or a folder (default: %(default)s)"},
    "--pairs": {"type": Path, "metavar": "FILE", "help": "JSON Lines of query, document"},
}


def measure(options: argparse.Namespace) -> Comparison:
    """Search with each precision, and compare with full precision query by query."""
    library = Path(sysconfig.get_paths()["stdlib"], "email" if options.quick else "")
    search = read_pairs(options.pairs) if options.pairs else corpus(library, _QUERIES)
    artifacts = {
        name: load_artifact(artifact_of(options.model, options.cache, item, f"quality-{item}"))
        for name, item in ((_FULL, Precision.FP32), (KIT, Precision.INT8))
    }
    engines = {name: Engine.load(item, truncate="right") for name, item in artifacts.items()}
    engines[_USUAL] = _usual(artifacts[_FULL])
    results = {name: scores(*_vectors(engine, search), search) for name, engine in engines.items()}
    rows, notes = [], [f"{len(search.queries)} queries, {len(search.documents)} documents"]
    for measure_index, row in enumerate((f"nDCG@{_RESULTS}", f"recall@{_RESULTS}")):
        rows.append(
            ReportRow(
                row, "mean", {name: float(m[measure_index].mean()) for name, m in results.items()}
            )
        )
        for name in (KIT, _USUAL):
            lost = results[name][measure_index] - results[_FULL][measure_index]
            low, high = interval(lost)
            notes.append(
                f"{row} of {_LABELS[name]}: {lost.mean():+.4f} to full precision, 95% interval "
                f"{low:+.4f} to {high:+.4f}"
            )
    return Comparison(f"search with {options.model}", _LABELS, rows, base=_FULL, notes=notes)


def corpus(folder: Path, queries: int) -> SearchTask:
    """Return a search in the docstrings of a folder, with up to `queries` queries.

    They are a random sample that a seed fixes; the other documents are searched, too.
    """
    docstrings = sorted(set(_docstrings(folder)))
    chosen = random.Random(_SEED)  # noqa: S311 - not a secret
    chosen.shuffle(docstrings)
    documents: dict[str, int] = {}  # A text that occurs twice would make a right answer wrong.
    answers: dict[str, int] = {}
    for number, (name, text) in enumerate(docstrings):
        sentences = _SENTENCE.split(text)
        query = " ".join(_WORD.findall(name)).lower()
        if number % 2 == 0 and len(answers) < queries:
            query = sentences.pop(chosen.randrange(len(sentences)))
        document = " ".join(sentences)
        if document not in documents:
            documents[document] = len(documents)
            if query.count(" ") > 1 and query not in answers and len(answers) < queries:
                answers[query] = documents[document]
    return SearchTask(
        list(answers), list(documents), [frozenset([answer]) for answer in answers.values()]
    )


def _docstrings(folder: Path) -> Iterator[tuple[str, str]]:
    """Return names and docstrings of public functions and classes."""
    for path in sorted(folder.rglob("*.py")):
        if {"test", "tests", "idlelib", "site-packages"} & set(path.relative_to(folder).parts):
            continue
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):  # Files that test Python's own parser.
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                text = " ".join((ast.get_docstring(node) or "").split())
                if _SHORTEST <= len(text) <= _LONGEST and len(_SENTENCE.split(text)) > 1:
                    yield f"{path.stem}.{node.name}", text


class _Pair(BaseModel):
    query: str = Field(pattern=r"\S")
    document: str = Field(pattern=r"\S")


def read_pairs(path: Path) -> SearchTask:
    """Read queries and their documents."""
    documents: dict[str, int] = {}
    relevant: dict[str, set[int]] = {}
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                pair = _Pair.model_validate_json(line)
            except ValidationError as error:
                raise SystemExit(
                    f"error: {path}:{number} must be an object with the texts query and document, "
                    f"neither empty; found: {line.strip()[:80]}"
                ) from error
            index = documents.setdefault(pair.document, len(documents))
            relevant.setdefault(pair.query, set()).add(index)
    if not relevant:
        raise SystemExit(f"error: {path} must have at least one line; found: none")
    return SearchTask(
        list(relevant),
        list(documents),
        [frozenset(documents_of_query) for documents_of_query in relevant.values()],
    )


def scores(
    queries: Vectors, documents: Vectors, search: SearchTask
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return nDCG@10 with binary relevance, and recall@10, of each query.

    A relevant document at rank r gains 1 / log2(r + 1)
    (https://en.wikipedia.org/wiki/Discounted_cumulative_gain). Vectors are rows of length 1.
    """
    gains = 1 / np.log2(np.arange(2, _RESULTS + 2))
    ndcg, recall = np.zeros(len(queries)), np.zeros(len(queries))
    for number, relevant in enumerate(search.relevant):
        nearest = np.argsort(-(documents @ queries[number]), kind="stable")[:_RESULTS]
        hits = np.array([document in relevant for document in nearest.tolist()])
        best_hits = min(_RESULTS, len(relevant))
        ndcg[number] = gains[: len(hits)][hits].sum() / gains[:best_hits].sum()
        recall[number] = hits.sum() / best_hits
    return ndcg, recall


def interval(differences: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the bootstrap's 95% interval of the mean of paired differences."""
    generator = np.random.default_rng(_SEED)
    means = [generator.choice(differences, len(differences)).mean() for _ in range(_SAMPLES)]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def _vectors(engine: Engine, search: SearchTask) -> tuple[Vectors, Vectors]:
    """Embed queries and documents, with the model's prompts of these names if it has them."""

    def embed(texts: Sequence[str], name: str) -> Vectors:
        prompt = name if name in engine.limits.prompts else None
        starts = tqdm(range(0, len(texts), _TEXTS), desc=name, leave=False)
        vectors = [engine.embed(texts[at : at + _TEXTS], prompt=prompt).vectors for at in starts]
        return np.concatenate(vectors)

    return embed(search.queries, "query"), embed(search.documents, "document")


def _usual(artifact: Artifact) -> Engine:
    """Return the engine of full precision with a graph that `quantize_dynamic` has converted.

    It runs each text alone: its scales are those of the whole tensor.
    """
    quantized = Path(artifact.folder) / "usual.onnx"
    quantize(Path(artifact.graph_path), quantized)
    session = onnxruntime.InferenceSession(str(quantized), session_options("extended", threads=1))
    output = artifact.manifest.graph.output

    def run(input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]) -> Vectors:
        texts = [ids[None, mask == 1] for ids, mask in zip(input_ids, attention_mask, strict=True)]
        feeds = ({"input_ids": ids, "attention_mask": np.ones_like(ids)} for ids in texts)
        return np.concatenate([session.run([output], feed)[0] for feed in feeds])

    alone: Any = SimpleNamespace(run=run)
    return Engine.load(artifact, truncate="right", wrap=lambda _: alone)
