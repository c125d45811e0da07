"""Measures how far the scores of a reranker or a classifier are from the model's own.

For each of some queries, a reranker scores and ranks passages of `documents.txt`; a classifier
labels the texts of `texts.json` and the documents. See `measure` for both files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from embedder.core.scorer import Scorer
from model_compiler.fidelity.measure import (
    DOCUMENTS,
    GOLDEN_TEXTS,
    Thresholds,
    Vectors,
    affordable_documents,
    aligned,
    below,
    best,
    rounded_list,
    shipped_documents,
    texts,
)

#: Passages of a reranker's query, and its best ones that are compared.
PASSAGES, TOP = 100, 10
#: Queries, of which a large model gets fewer, but never less than two.
QUERIES, FEWEST = 10, 2
#: Multiply-adds that the queries may cost in full precision, of pairs of some 40 tokens.
PAIR_BUDGET, PAIR_TOKENS = 5e11, 40
#: The golden pairs of a reranker.
GOLDEN_PAIRS = tuple(
    {"query": GOLDEN_TEXTS[1], "passage": passage}
    for passage in ("Parse a string into a date and a time.", "hello world")
)


@dataclass(frozen=True, slots=True)
class RankFidelity:
    """The measured values of a reranker, between the artifact and full precision."""

    queries: int
    passages: int
    #: Differences of a pair's score from the one in full precision.
    difference_max: float
    difference_mean: float
    #: Kendall's tau of the orders of a query's passages: mean and lowest, over queries and labels.
    kendall_tau: float
    kendall_tau_min: float
    #: Mean share of a query's best passages that full precision also finds.
    top_overlap: float
    #: The largest difference of a passage's logit alone from the same one beside others.
    batch_difference_max: float

    def misses(self, thresholds: Thresholds) -> list[str]:
        """Return a message for each threshold of its own that the artifact misses."""
        return [
            *below("Kendall's tau to full precision", self.kendall_tau, thresholds.kendall_tau),
            *below(f"the overlap of the {TOP} best", self.top_overlap, thresholds.top_overlap),
        ]

    def rows(self) -> list[tuple[str, str, str]]:
        """Return its own lines of the report."""
        return [
            ("Kendall's tau, mean", f"{self.kendall_tau:.4f}", ""),
            ("Kendall's tau, lowest", f"{self.kendall_tau_min:.4f}", ""),
            (f"best {TOP} of {self.passages} in common", f"{self.top_overlap:.1%}", ""),
        ]


@dataclass(frozen=True, slots=True)
class LabelFidelity:
    """The measured values of a classifier, between the artifact and full precision."""

    texts: int
    #: Differences of a label's score, a probability but of a regression.
    difference_max: float
    difference_mean: float
    #: Texts with another label, or of several labels at once another set of them.
    changed: int
    #: Share of texts with the same; of a regression Kendall's tau of their order.
    agreement: float
    #: The largest difference of a logit alone from the same one beside others.
    batch_difference_max: float

    def misses(self, thresholds: Thresholds) -> list[str]:
        """Return a message if the artifact misses the threshold of labels."""
        name = "the agreement of labels with full precision"
        return below(name, self.agreement, thresholds.label_agreement)

    def rows(self) -> list[tuple[str, str, str]]:
        """Return its own lines of the report."""
        return [
            ("labels that change", f"{self.changed}", f"{self.texts} texts"),
            ("agreement with full precision", f"{self.agreement:.2%}", ""),
        ]


def measure_scores(
    artifact: Scorer, reference: Scorer, *, multiply_adds: int, progress: bool = False
) -> RankFidelity | LabelFidelity:
    """Compare a model that gives scores with the same in full precision; see `measure`."""
    ranks = artifact.task == "rerank"
    groups = (
        _queries(multiply_adds)
        if ranks
        else [[*texts().values()], affordable_documents(multiply_adds, DOCUMENTS)]
    )
    logits, exact_logits = [], []
    with tqdm(total=len(groups), desc="fidelity", unit=" groups", disable=not progress) as bar:
        for group in groups:
            logits.append(_logits(artifact, group))
            exact_logits.append(logits[-1] if reference is artifact else _logits(reference, group))
            bar.update()
    scores, own = (
        artifact.activated(np.concatenate(rows)).astype(np.float64)
        for rows in (logits, exact_logits)
    )
    differences = {
        "difference_max": float(np.abs(scores - own).max()),
        "difference_mean": float(np.abs(scores - own).mean()),
        "batch_difference_max": batch_difference(artifact),
    }
    if ranks:
        return _of_orders(logits, exact_logits, differences)
    return _of_labels(artifact, np.concatenate(logits), np.concatenate(exact_logits), differences)


def _of_orders(
    logits: Sequence[Vectors], exact_logits: Sequence[Vectors], differences: Mapping[str, float]
) -> RankFidelity:
    # Of many labels, each orders the passages.
    orders = [
        (row[:, label], exact_row[:, label])
        for row, exact_row in zip(logits, exact_logits, strict=True)
        for label in range(row.shape[1])
    ]
    taus = [kendall_tau(order, exact_order) for order, exact_order in orders]
    return RankFidelity(
        queries=len(logits),
        passages=PASSAGES,
        kendall_tau=float(np.mean(taus)),
        kendall_tau_min=min(taus),
        top_overlap=float(np.mean([len(best(a, TOP) & best(b, TOP)) / TOP for a, b in orders])),
        **differences,
    )


def _of_labels(
    artifact: Scorer, logits: Vectors, exact_logits: Vectors, differences: Mapping[str, float]
) -> LabelFidelity:
    activation = artifact.scoring.activation
    same, exact = (_labels(activation, rows) for rows in (logits, exact_logits))
    changed = int((same != exact).any(axis=1).sum())
    agreement = 1 - changed / len(logits)
    if activation == "identity":
        agreement = kendall_tau(logits[:, 0], exact_logits[:, 0])
    return LabelFidelity(texts=len(logits), changed=changed, agreement=agreement, **differences)


def _labels(activation: str, logits: Vectors) -> npt.NDArray[np.bool_]:
    """Return which labels each text has; a regression's texts have none."""
    if activation == "softmax":
        limit: Vectors | float = logits.max(axis=1, keepdims=True)
    else:
        limit = 0.0 if activation == "sigmoid" else np.inf
    labels: npt.NDArray[np.bool_] = logits >= limit
    return labels


def batch_difference(artifact: Scorer) -> float:
    """Return the largest difference between a logit computed alone and in a batch."""
    inputs: list[Any] = [*texts().values()]
    if artifact.task == "rerank":
        inputs = [("How is a date parsed?", text) for text in inputs]
    alone = np.concatenate([_logits(artifact, [scored]) for scored in inputs])
    return float(np.abs(_logits(artifact, inputs) - alone).max())


def kendall_tau(one: Vectors, other: Vectors) -> float:
    """Return Kendall's tau-b of two lists of scores: 1 for one order, -1 for the reverse.

    Kendall, 1945, "The treatment of ties in ranking problems".
    """
    signs, exact_signs = (np.sign(values[:, None] - values[None]) for values in (one, other))
    pairs = np.sqrt(np.square(signs).sum() * np.square(exact_signs).sum())
    # Without two different scores there is no order, which only the same can agree with.
    return (
        float((signs * exact_signs).sum() / pairs)
        if pairs
        else float(not (signs - exact_signs).any())
    )


def problems(fidelity: RankFidelity | LabelFidelity, thresholds: Thresholds) -> list[str]:
    """Return a message for each threshold that the artifact misses."""
    return [*fidelity.misses(thresholds), *difference_problems(fidelity.batch_difference_max)]


def difference_problems(difference: float) -> list[str]:
    """Return a message if a score depends on the rest of its batch."""
    if difference == 0:
        return []
    return [f"a score differs by {difference:.3g} beside other inputs; it must be the same"]


def table(fidelity: RankFidelity | LabelFidelity) -> str:
    """Return the report as a table."""
    return aligned(
        [
            ("score to full precision, largest difference", f"{fidelity.difference_max:.5f}", ""),
            ("score to full precision, mean difference", f"{fidelity.difference_mean:.5f}", ""),
            *fidelity.rows(),
        ]
    )


def golden_scores(artifact: Scorer) -> list[dict[str, Any]]:
    """Return the artifact's logits of a few pairs or texts, to check a deployed artifact."""
    entries: Sequence[dict[str, str]] = GOLDEN_PAIRS
    if artifact.task != "rerank":
        entries = [{"text": text} for text in GOLDEN_TEXTS]
    inputs = [tuple(entry.values()) for entry in entries]
    return [
        {**entry, "logits": rounded_list(row)}
        for entry, row in zip(entries, _logits(artifact, inputs), strict=True)
    ]


def _queries(multiply_adds: int) -> list[list[tuple[str, str]]]:
    """Return the pairs of each query with all passages, of documents of which none is both."""
    affordable = int(PAIR_BUDGET / (multiply_adds * PAIR_TOKENS * PASSAGES))
    count = max(FEWEST, min(QUERIES, affordable))
    every = shipped_documents()
    passages = [every[number * len(every) // PASSAGES] for number in range(PASSAGES)]
    candidates = [document for document in every if document not in passages]
    queries = [candidates[number * len(candidates) // count] for number in range(count)]
    return [[(query, passage) for passage in passages] for query in queries]


def _logits(scorer: Scorer, inputs: Sequence[Any]) -> Vectors:
    return scorer.predict(inputs, truncate="right").work.vectors
