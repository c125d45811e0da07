"""Measures how far a reranker's scores are from the model's own.

For each of some queries, passages of `documents.txt` are scored and ranked, by the artifact and by
the same model in full precision. The texts of `texts.json`, of many lengths and scripts, show that
a passage's score does not depend on the passages beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from embedder.core.reranker import Reranker
from model_compiler.fidelity.measure import (
    Thresholds,
    aligned,
    below,
    rounded_list,
    shipped_documents,
    texts,
)

Logits = npt.NDArray[np.float32]

#: Passages of a query, and its best ones that are compared.
PASSAGES, TOP = 100, 10
#: Queries, of which a large model gets fewer, but never less than two.
QUERIES, FEWEST = 10, 2
#: Multiply-adds that the queries may cost in full precision, of pairs of some 40 tokens.
PAIR_BUDGET, PAIR_TOKENS = 5e11, 40


@dataclass(frozen=True, slots=True)
class ScoreFidelity:
    """The measured values, between the artifact and full precision."""

    queries: int
    passages: int
    #: Of two scores of a pair.
    difference_max: float
    difference_mean: float
    #: Of the orders of a query's passages, the mean and the lowest over queries and labels.
    kendall_tau: float
    kendall_tau_min: float
    #: Mean share of a query's best passages that full precision also finds.
    top_overlap: float
    #: The largest difference of a passage's logit alone from the same one beside others.
    batch_difference_max: float


def measure_scores(
    artifact: Reranker, reference: Reranker, *, multiply_adds: int, progress: bool = False
) -> ScoreFidelity:
    """Compare a reranker with the same model in full precision; see `measure.measure`."""
    most = int(PAIR_BUDGET / (multiply_adds * PAIR_TOKENS * PASSAGES))
    asked, passages = _queries_and_passages(max(FEWEST, min(QUERIES, most)))
    found, wanted, scores, own = [], [], [], []
    with tqdm(total=len(asked), desc="fidelity", unit=" queries", disable=not progress) as bar:
        for query in asked:
            found.append(_logits(artifact, query, passages))
            same = reference is artifact
            wanted.append(found[-1] if same else _logits(reference, query, passages))
            scores.append(artifact.activated(found[-1]))
            own.append(artifact.activated(wanted[-1]))
            bar.update()
    differences = np.abs(np.array(scores, np.float64) - np.array(own, np.float64))
    # Of many labels, each orders the passages.
    orders = [
        (one[:, label], other[:, label])
        for one, other in zip(found, wanted, strict=True)
        for label in range(one.shape[1])
    ]
    taus = [kendall_tau(one, other) for one, other in orders]
    return ScoreFidelity(
        queries=len(asked),
        passages=len(passages),
        difference_max=float(differences.max()),
        difference_mean=float(differences.mean()),
        kendall_tau=float(np.mean(taus)),
        kendall_tau_min=min(taus),
        top_overlap=float(np.mean([len(_best(a) & _best(b)) / TOP for a, b in orders])),
        batch_difference_max=batch_difference(artifact, asked[0]),
    )


def batch_difference(artifact: Reranker, query: str = "How is a date parsed?") -> float:
    """Return the largest difference of a logit alone from the same one beside others."""
    passages = list(texts().values())
    together = _logits(artifact, query, passages)
    alone = np.concatenate([_logits(artifact, query, [passage]) for passage in passages])
    return float(np.abs(together - alone).max())


def kendall_tau(one: Logits, other: Logits) -> float:
    """Return Kendall's tau-b of two lists of scores: 1 for one order, -1 for the reverse.

    Kendall, 1945, "The treatment of ties in ranking problems".
    """
    first, second = (np.sign(values[:, None] - values[None]) for values in (one, other))
    pairs = np.sqrt(np.square(first).sum() * np.square(second).sum())
    # Without two different scores there is no order, which only the same can agree with.
    return float((first * second).sum() / pairs) if pairs else float(not (first - second).any())


def score_problems(fidelity: ScoreFidelity, thresholds: Thresholds) -> list[str]:
    """Return a message for each threshold that the artifact misses."""
    return [
        *below("Kendall's tau to full precision", fidelity.kendall_tau, thresholds.kendall_tau),
        *below(f"the overlap of the {TOP} best", fidelity.top_overlap, thresholds.top_overlap),
        *difference_problems(fidelity.batch_difference_max),
    ]


def difference_problems(difference: float) -> list[str]:
    """Return a message if a passage's score depends on the passages beside it."""
    if difference == 0:
        return []
    return [f"a passage's score differs by {difference:.3g} beside others; it must be the same"]


def score_table(fidelity: ScoreFidelity) -> str:
    """Return the report as a table."""
    rows = [
        ("score to full precision, largest difference", f"{fidelity.difference_max:.5f}", ""),
        ("score to full precision, mean difference", f"{fidelity.difference_mean:.5f}", ""),
        ("Kendall's tau, mean", f"{fidelity.kendall_tau:.4f}", ""),
        ("Kendall's tau, lowest", f"{fidelity.kendall_tau_min:.4f}", ""),
        (f"best {TOP} of {fidelity.passages} in common", f"{fidelity.top_overlap:.1%}", ""),
    ]
    return aligned(rows)


def golden_pairs(artifact: Reranker) -> list[dict[str, Any]]:
    """Return the artifact's logits of a few pairs, to check a deployed artifact."""
    query = "How do I parse a date out of a string?"
    passages = ("Parse a string into a date and a time.", "hello world")
    logits = _logits(artifact, query, passages)
    return [
        {"query": query, "passage": passage, "logits": rounded_list(row)}
        for passage, row in zip(passages, logits, strict=True)
    ]


def _queries_and_passages(queries: int) -> tuple[list[str], list[str]]:
    every = shipped_documents()
    passages = [every[place * len(every) // PASSAGES] for place in range(PASSAGES)]
    rest = [document for document in every if document not in passages]
    return [rest[place * len(rest) // queries] for place in range(queries)], passages


def _logits(reranker: Reranker, query: str, passages: Sequence[str]) -> Logits:
    return reranker.rerank(query, passages, truncate="longest_first").work.vectors


def _best(logits: Logits) -> set[int]:
    return set(np.argsort(-logits, kind="stable")[:TOP].tolist())
