"""What the routes of a reranker and of a classifier share: labels, scores, and the description."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from embedder.core.scorer import Scorer, Scores
from embedder.http.apis.operation import Described
from embedder.http.apis.tei import Tei, described_model
from embedder.http.json_types import Boolean, Field

#: The most inputs of a request, as in Cohere's API.
MAX_INPUTS = 10_000
RAW_SCORES = Field(
    "raw_scores", Boolean(), "Return the model's logits, without its activation.", default=False
)


def labeled(
    scores: Scores, labels: Sequence[str], top: int | None = None
) -> list[list[dict[str, Any]]]:
    """Return the labels of each input with their scores, the highest first, at most `top` each."""
    # By the logits, as `Scores.best_first`.
    orders = np.argsort(-scores.work.vectors, axis=1, kind="stable")[:, :top]
    rows = scores.scores.reshape(scores.work.vectors.shape)
    return [
        [{"score": float(row[number]), "label": labels[number]} for number in order]
        for row, order in zip(rows, orders, strict=True)
    ]


class ScoreInfo(Described):
    """The model, its labels and all limits: TEI's fields, and ours."""

    api = Tei
    name = "info"
    summary = "Return the model, its labels and all limits."

    @cached_property
    def scorer(self) -> Scorer:
        """The model."""
        scorer = self.model.loaded
        assert isinstance(scorer, Scorer)  # noqa: S101 - for mypy: the routes of its task say so
        return scorer

    def description(self) -> dict[str, Any]:
        manifest, scoring = self.scorer.manifest, self.scorer.scoring
        labels = {str(index): label for index, label in enumerate(scoring.labels)}
        ranks = manifest.task == "rerank" and len(labels) == 1
        return {
            **described_model(self.model, self.scorer),
            "model_type": {
                "reranker" if ranks else "classifier": {
                    "id2label": labels,
                    "label2id": {label: int(index) for index, label in labels.items()},
                }
            },
            "max_client_batch_size": MAX_INPUTS,
            f"{manifest.space_kind}_space": manifest.space,
            "activation": scoring.activation,
        }
