"""Small random classifiers, and the texts and pairs of texts that go through them.

The plain ones are the cross-encoders of `reranker_models` with names for their labels. SetFit's are
an embedding model with a head of scikit-learn, or SetFit's own.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.model_compiler.goldens.files import edit_json, read_json, write_json
from tests.model_compiler.goldens.random_model import normal
from tests.model_compiler.goldens.reranker_models import LONG, PAIRS, PASSAGES, write_reranker
from tests.model_compiler.goldens.tiny_models import write_model

#: Texts of many lengths, some over each model's limit, between pairs of texts.
INPUTS: tuple[str | tuple[str, str], ...] = (*PASSAGES, *PAIRS[1:5], *LONG, *PAIRS[-6:])

SENTIMENT = ("negative", "neutral", "positive")
#: What each golden model has that the plain one of its family does not.
VARIANTS: dict[str, dict[str, Any]] = {
    "bert": {"labels": SENTIMENT},
    "bert, two unnamed labels": {"labels": None},
    "bert, several labels": {
        "labels": ("toxic", "insult", "threat", "obscene"),
        "problem": "multi_label_classification",
    },
    "bert, regression": {"labels": ("stars",), "problem": "regression"},
    "bert, one label": {"labels": ("spam",)},
    "albert": {"family": "albert", "labels": SENTIMENT},
    "distilbert": {"family": "distilbert", "labels": ("NEGATIVE", "POSITIVE")},
    "electra": {"family": "electra", "labels": SENTIMENT},
    "modernbert, mean": {"family": "modernbert", "labels": SENTIMENT},
    "modernbert, cls": {
        "family": "modernbert",
        "labels": SENTIMENT,
        "config": {"classifier_pooling": "cls", "classifier_bias": True, "norm_bias": True},
    },
    "roberta": {"family": "roberta", "labels": SENTIMENT},
    "xlm-roberta": {
        "family": "xlm-roberta",
        "labels": tuple(f"language {number}" for number in range(20)),
        "problem": "single_label_classification",
    },
}

#: By name: scikit-learn's class, the rows of its `coef_`, and SetFit's settings.
SETFIT: dict[str, tuple[str, int, dict[str, Any]]] = {
    "binary": ("LogisticRegression", 1, {"labels": ["no", "yes"], "normalize_embeddings": False}),
    "three classes": ("LogisticRegression", 3, {"labels": None, "normalize_embeddings": True}),
    "one versus rest": ("OneVsRestClassifier", 4, {"labels": ["a", "b", "c", "d"]}),
    "several outputs": ("MultiOutputClassifier", 2, {}),
    "torch": ("SetFitHead", 3, {"labels": ["a", "b", "c"], "normalize_embeddings": True}),
    "torch, several labels": ("SetFitHead", 2, {}),
}


def write_classifier(
    folder: Path, *, labels: Sequence[str] | None, problem: str | None = None, **traits: Any
) -> Path:
    """Write a plain classifier, and return its folder; see `write_reranker` for its traits.

    Without labels, it has two, as transformers takes it.
    """
    write_reranker(folder, labels=len(labels or "ab"), **traits)
    names = {str(number): name for number, name in enumerate(labels or ())}
    edit_json(folder / "config.json", id2label=names or None, problem_type=problem)
    return folder


def setfit_head(name: str, width: int = 32) -> dict[str, npt.NDArray[np.float64]]:
    """Return `coef_` and `intercept_` of a head."""
    rows = SETFIT[name][1]
    random = np.random.default_rng(6)
    weights = normal(random, rows, width + 1, scale=2).astype(np.float64)
    return {"coef_": weights[:, :-1].copy(), "intercept_": weights[:, -1].copy()}


def write_setfit(folder: Path, name: str) -> Path:
    """Write an embedding model without its Normalize, with SetFit's settings; return its folder."""
    write_model(folder)
    modules = read_json(folder / "modules.json")
    write_json(folder / "modules.json", modules[:-1])
    write_json(folder / "config_setfit.json", SETFIT[name][2])
    return folder


def converted(name: str) -> Mapping[str, Any]:
    """Return the head as the compiler's line converts it, with the classes 0, 1 and so on.

    SetFit's own has none.
    """
    kind, rows, _ = SETFIT[name]
    arrays = {key: value.tolist() for key, value in setfit_head(name).items()}
    classes = [str(number) for number in range(max(2, rows))] * (kind != "SetFitHead")
    return {"head": f"{kind}()", "multilabel_": name != "torch", "classes_": classes, **arrays}
