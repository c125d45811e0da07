"""Measures how far an artifact's vectors are from the model's own; `scores` does it for scores.

The embedder runs the artifact on a fixed set of texts of many lengths and scripts (`texts.json`),
alone and in batches, and on short documents for the comparison of nearest neighbors
(`documents.txt`). The vectors are compared with those of the same model in full precision, which is
itself compared with the catalog's golden values. Both files are part of the package, so that the
report depends on the model alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from tqdm import tqdm

from embedder.core.engine import Engine
from embedder.core.fast_tokenizers import Tokenizer
from model_compiler.source.catalog import CatalogGolden

Vectors = npt.NDArray[np.float32]

#: Number of results per search, as in MTEB and most applications.
NEIGHBORS = 10
#: Maximum number of documents; every QUERY_STEP-th document is also a query.
DOCUMENTS = 250
QUERY_STEP = 2
#: Multiply-adds that the documents may cost in full precision. A large model gets fewer documents.
NEIGHBOR_BUDGET = 5e11
#: The texts of golden values.
GOLDEN_TEXTS = ("hello world", "How do I parse a date out of a string?")
#: Components of a golden vector in the manifest.
HEAD = 8
#: Decimals of the numbers in the manifest.
DIGITS = 6


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The values that an artifact must reach."""

    cosine_min: float = 0.98
    cosine_mean: float = 0.99
    #: A text's vector must not depend on the rest of the batch.
    batch_cosine_min: float = 0.99999
    neighbor_overlap: float = 0.8
    #: Agreement of a reranker's orders of passages, and of its best ones.
    kendall_tau: float = 0.98
    top_overlap: float = 0.8
    #: Agreement of a classifier's labels.
    label_agreement: float = 0.98


@dataclass(frozen=True, slots=True)
class Fidelity:
    """The measured values. Each cosine compares two vectors of one text."""

    texts: int
    #: Cosines to full precision; 1 in full precision itself.
    cosine_min: float
    cosine_mean: float
    #: The text of `cosine_min`, by its name.
    worst_text: str
    #: Lowest cosine of a text alone to the same text in a batch.
    batch_cosine_min: float
    documents: int
    #: Mean share of a query's nearest documents that full precision also finds.
    neighbor_overlap: float
    #: Largest difference of a component in full precision from its golden value, by prompt.
    golden_differences: Mapping[str, float]


def measure(
    artifact: Engine,
    reference: Engine,
    *,
    golden: Sequence[CatalogGolden] = (),
    multiply_adds: int,
    documents: int = DOCUMENTS,
    progress: bool = False,
) -> Fidelity:
    """Compare an artifact with the same model in full precision.

    Both must truncate long texts, and the artifact's has no cache; they are one engine if the
    artifact is in full precision. `multiply_adds` are per token.
    """
    named = texts()
    same = reference is artifact
    with tqdm(desc="fidelity", unit=" texts", disable=not progress) as bar:
        searched = affordable_documents(multiply_adds, documents)
        bar.reset(len(named) * (2 if same else 3) + len(searched) * (1 if same else 2))
        alone = _alone(artifact, list(named.values()), bar)
        together = _together(artifact, list(named.values()), bar)
        document_vectors = _together(artifact, searched, bar)
        own = alone if same else _alone(reference, list(named.values()), bar)
        exact_vectors = document_vectors if same else _together(reference, searched, bar)
    cosines = _cosines(alone, own)
    return Fidelity(
        texts=len(named),
        cosine_min=float(cosines.min()),
        cosine_mean=float(cosines.mean()),
        worst_text=list(named)[int(cosines.argmin())],
        batch_cosine_min=float(_cosines(alone, together).min()),
        documents=len(searched),
        neighbor_overlap=_overlap(document_vectors, exact_vectors),
        golden_differences={
            f"{entry.prompt or 'none'}": _golden_difference(reference, entry) for entry in golden
        },
    )


def rounded(value: Any) -> Any:
    """Return a measured value as the manifest's report has it; of an object, all its values."""
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, int | str):
        return value
    values = value if isinstance(value, Mapping) else asdict(value)
    return {name: rounded(each) for name, each in values.items()}


def problems(fidelity: Fidelity, thresholds: Thresholds) -> list[str]:
    """Return a message for each threshold that the artifact misses."""
    return [
        *below("the lowest cosine to full precision", fidelity.cosine_min, thresholds.cosine_min),
        *below("the mean cosine to full precision", fidelity.cosine_mean, thresholds.cosine_mean),
        *batch_problems(fidelity.batch_cosine_min, thresholds),
        *below(
            f"the overlap of the {NEIGHBORS} nearest neighbors",
            fidelity.neighbor_overlap,
            thresholds.neighbor_overlap,
        ),
    ]


def golden_problems(fidelity: Fidelity, golden: Sequence[CatalogGolden]) -> list[str]:
    """Return a message for each golden value that full precision misses."""
    misses = []
    for entry in golden:
        difference = fidelity.golden_differences[entry.prompt or "none"]
        if not difference <= entry.tolerance:
            misses.append(
                f"in full precision, with the prompt {entry.prompt!r}, a component is "
                f"{difference:.6f} from its golden value; it may be at most {entry.tolerance}"
            )
    return misses


def batch_problems(cosine: float, thresholds: Thresholds) -> list[str]:
    """Return a message if a text's vector depends too much on its batch."""
    name = "the lowest cosine of a text alone to the same text in a batch"
    return below(name, cosine, thresholds.batch_cosine_min)


def below(name: str, value: float, limit: float) -> list[str]:
    """Return a message if a value is below its limit."""
    # Written so that NaN misses every limit.
    return [] if value >= limit else [f"{name} is {value:.6f}; it must be at least {limit}"]


def table(fidelity: Fidelity) -> str:
    """Return the report as a table."""
    rows = [
        ("cosine to full precision, lowest", f"{fidelity.cosine_min:.5f}", fidelity.worst_text),
        (
            "cosine to full precision, mean",
            f"{fidelity.cosine_mean:.5f}",
            f"{fidelity.texts} texts",
        ),
        ("cosine alone to batched, lowest", f"{fidelity.batch_cosine_min:.7f}", ""),
        (
            f"nearest {NEIGHBORS} in common",
            f"{fidelity.neighbor_overlap:.1%}",
            f"{fidelity.documents} documents",
        ),
        *(
            (f"golden, prompt {prompt}", f"{value:.6f}", "largest difference")
            for prompt, value in fidelity.golden_differences.items()
        ),
    ]
    return aligned(rows)


def unknown_tokens(tokenizer: Tokenizer) -> str:
    """Return a line with the share of unknown tokens in the texts, and those with the most.

    It is empty for a tokenizer that has a token for every text.
    """
    unknown = tokenizer.unknown
    if unknown is None:
        return ""
    encoded = {name: tokenizer.encode(text) for name, text in texts().items()}
    counts = {name: ids.count(unknown) for name, ids in encoded.items()}
    share = sum(counts.values()) / max(1, sum(map(len, encoded.values())))
    worst = sorted(encoded, key=lambda name: -counts[name] / max(1, len(encoded[name])))[:3]
    shares = "; ".join(
        f"{name}: {counts[name] / len(encoded[name]):.0%}" for name in worst if counts[name]
    )
    return f"  tokens unknown to the model  {share:.1%}" + (f"  ({shares})" if shares else "")


def aligned(rows: Sequence[tuple[str, str, str]]) -> str:
    """Return names, values and notes as lines, the columns below each other."""
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return "\n".join(
        f"  {name:<{widths[0]}}  {value:>{widths[1]}}  {note}".rstrip()
        for name, value, note in rows
    )


def batch_invariance(artifact: Engine, *, progress: bool = False) -> float:
    """Return the lowest cosine of a text's vector alone to its vector in a batch."""
    inputs = list(texts().values())
    with tqdm(total=2 * len(inputs), desc="fidelity", unit=" texts", disable=not progress) as bar:
        return float(
            _cosines(_alone(artifact, inputs, bar), _together(artifact, inputs, bar)).min()
        )


class DenseRows(Engine):
    """A sparse encoder's rows as they come from its session, which are compared as any vectors."""

    task = "sparse"


def golden_entries(artifact: Engine) -> list[dict[str, Any]]:
    """Return the artifact's vectors of a few texts, to check a deployed artifact."""
    return [
        {
            "text": text,
            "prompt": prompt,
            **_start_of(artifact.embed([text], prompt=prompt).vectors[0], artifact.task),
        }
        for prompt in [None, *(name for name in ("query",) if name in artifact.manifest.prompts)]
        for text in GOLDEN_TEXTS
    ]


def texts() -> dict[str, str]:
    """Return the fixed set of texts, by name."""
    file = resources.files("model_compiler.fidelity").joinpath("texts.json")
    loaded: dict[str, str] = orjson.loads(file.read_bytes())["texts"]
    return loaded


def shipped_documents() -> list[str]:
    """Return the documents that are searched, in the order of the file."""
    file = resources.files("model_compiler.fidelity").joinpath("documents.txt")
    return [line for line in file.read_text("utf-8").splitlines() if not line.startswith("#")]


def affordable_documents(multiply_adds: int, most: int) -> list[str]:
    """Return documents from the whole file, as many as the model's size allows."""
    every = shipped_documents()
    tokens_each = 32
    count = min(most, int(NEIGHBOR_BUDGET / (multiply_adds * tokens_each)), len(every))
    count = max(count, 2 * NEIGHBORS)
    return [every[position * len(every) // count] for position in range(count)]


def _alone(engine: Engine, asked: Sequence[str], bar: Any) -> Vectors:
    vectors = []
    for text in asked:
        vectors.append(engine.embed([text]).vectors)
        bar.update()
    return np.concatenate(vectors)


def _together(engine: Engine, asked: Sequence[str], bar: Any) -> Vectors:
    vectors = engine.embed(list(asked)).vectors
    bar.update(len(asked))
    return vectors


def _cosines(left: Vectors, right: Vectors) -> npt.NDArray[np.float64]:
    """Return the cosine of each row of one to the same row of the other, in double precision.

    It is 1 for two rows of zeros, which a static model returns for a text of tokens without a
    vector. A model that returns nothing else is broken, and has the cosine NaN.
    """
    doubles, reference = left.astype(np.float64), right.astype(np.float64)
    lengths = np.linalg.norm(doubles, axis=1) * np.linalg.norm(reference, axis=1)
    same = ~(doubles.any(axis=1) | reference.any(axis=1)) & doubles.any()
    cosines: npt.NDArray[np.float64] = ((doubles * reference).sum(axis=1) + same) / (lengths + same)
    return cosines


def _overlap(found: Vectors, wanted: Vectors) -> float:
    shares = [
        len(_nearest(found, query) & _nearest(wanted, query)) / NEIGHBORS
        for query in range(0, len(found), QUERY_STEP)
    ]
    return sum(shares) / len(shares)


def _nearest(vectors: Vectors, query: int) -> set[int]:
    scores = vectors @ vectors[query]
    scores[query] = -np.inf
    return best(scores, NEIGHBORS)


def best(scores: Vectors, count: int) -> set[int]:
    """Return the positions of the highest scores."""
    return set(np.argsort(-scores, kind="stable")[:count].tolist())


def _golden_difference(engine: Engine, golden: CatalogGolden) -> float:
    vector = engine.embed([golden.text], prompt=golden.prompt).vectors[0]
    return float(np.abs(vector[: len(golden.head)] - np.array(golden.head)).max())


def _start_of(vector: npt.NDArray[np.float32], task: str) -> dict[str, Any]:
    """Return the first components of a vector, or the largest weights of a sparse one."""
    if task != "sparse":
        return {"embedding_head": rounded_list(vector[:HEAD])}
    largest = np.argsort(-vector, kind="stable")[:HEAD]
    largest = largest[vector[largest] > 0]
    return {"indices": largest.tolist(), "values": rounded_list(vector[largest])}


def rounded_list(values: npt.NDArray[np.float32]) -> list[float]:
    """Return a vector with the manifest's decimals."""
    return [round(float(value), DIGITS) for value in values]
