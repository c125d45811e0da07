"""Reads a classifier, which gives a text or a pair of texts a score for each label.

It is a plain `...ForSequenceClassification`, or a folder of sentence-transformers with a linear
layer at its end: a Dense module, or the head that SetFit trained. The truth is the class of each
family in transformers, its `pipelines/text_classification.py`, and `predict_proba` of scikit-learn.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from embedder.core.artifact import ScoringEntry
from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.adapter import refuse_adapter
from model_compiler.files.config import CLASSIFIER, ConfigFile
from model_compiler.files.weights import StoredTensor
from model_compiler.graph import architectures
from model_compiler.graph.builder import Precision
from model_compiler.model.compiled import CompiledModel
from model_compiler.model.cross_encoder import (
    MAX_LABELS,
    ScoreHead,
    head_of_modules,
    numbered_labels,
    read_default_prompt,
    read_labels,
    read_pairs,
    read_score_head,
    scoring_model,
    stated_activation,
)
from model_compiler.model.folder import (
    MODULES_FILE,
    SCORES,
    SETTINGS_FILE,
    UNPOOLED,
    ModelFolder,
    read_head,
    read_named_prompts,
)
from model_compiler.model.modules import Dense, Head
from model_compiler.tokenizer.file import read_tokenizer
from model_compiler.tokenizer.pairs import PairLayout

#: The activations of the logits, by transformers' `problem_type`.
ACTIVATIONS = {
    "single_label_classification": "softmax",
    "multi_label_classification": "sigmoid",
    "regression": "identity",
}
IDENTITY = "torch.nn.modules.linear.Identity"
#: SetFit's settings, its head as a pickle, and the same converted.
SETFIT_FILE, SETFIT_PICKLE, SETFIT_HEAD = "config_setfit.json", "model_head.pkl", "model_head.json"
#: By each of them a folder says that SetFit trained it.
SETFIT_FILES = (SETFIT_FILE, SETFIT_PICKLE, SETFIT_HEAD)
#: The heads that the compiler can express, of one label of several or of several: scikit-learn's,
#: and of both kinds SetFit's own, in torch.
HEADS = {
    "LogisticRegression": "single_label_classification",
    "OneVsRestClassifier": "multi_label_classification",
    "MultiOutputClassifier": "multi_label_classification",
    "SetFitHead": "multi_label_classification",
}
#: What converts a pickled head to the arrays and settings that are read. SetFit's own divides its
#: logits by a temperature (`setfit/modeling.py`).
HEAD_CONVERSION = (
    "import joblib, json; h = joblib.load('{pickle}'); t = getattr(h, 'linear', 0); "
    "s = t and h.temperature + h.eps; t and vars(h).update(coef_=t.weight / s, intercept_="
    "(t.weight[:, 0] * 0 if t.bias is None else t.bias) / s, multilabel_=h.multitarget, "
    "classes_=[]); e = getattr(h, 'estimators_', [h]); json.dump({{'head': str(h), "
    "'multilabel_': getattr(h, 'multilabel_', True), 'classes_': [str(c) for c in h.classes_], "
    "**{{n: sum((getattr(m, n).tolist() for m in e), []) for n in ('coef_', 'intercept_')}}}}, "
    "open('{head}', 'w'))"
)
#: Settings of LogisticRegression with which its probabilities are not a softmax.
OTHER_PROBABILITIES = re.compile(r"multi_class|liblinear")


def read_classifier(folder: ModelFolder, precision: Precision = Precision.INT8) -> CompiledModel:
    """Read a classifier's folder, of which the weights are compiled to `precision`."""
    encoder = folder.modules[0].folder if folder.has_modules and folder.modules else folder
    config = encoder.config("config.json")
    problem = config.optional("problem_type")
    if problem not in (None, *ACTIVATIONS):
        config.fail("problem_type", f"one of {', '.join(ACTIVATIONS)}, or null", problem)
    stated = stated_activation(folder, config)
    plain = not folder.has_modules or folder.kinds == ["Transformer"]
    head: Head | ScoreHead
    if plain:
        names = config.optional("architectures")
        if names is not None and not any(str(name).endswith(CLASSIFIER) for name in names):
            refuse_adapter(encoder)  # whose base has no names for the labels
            config.fail("architectures", f"a name that ends in {CLASSIFIER}", names)
        labels = read_labels(config)
        head = read_score_head(config, labels=len(labels))
    architecture = architectures.parse(config, remedy="")
    if not plain:
        size = architecture.hidden_size
        head, labels, problem = _head_of_modules(folder, config, problem, hidden_size=size)
    tokenizer = read_tokenizer(encoder, vocabulary_size=architecture.vocabulary_size)
    _check_prompt(folder)
    try:
        layout, architecture = read_pairs(encoder, tokenizer, architecture)
    except UnsupportedModelError:  # what a pair is made of, and not what a text is
        layout = PairLayout()
    if len({*labels}) < len(labels) or not all(map(str.strip, labels)) or len(labels) > MAX_LABELS:
        names = f"up to {MAX_LABELS} labels with different names that are not blank"
        config.fail("id2label", names, list(labels))
    return scoring_model(
        "classify",
        ScoringEntry(
            labels=labels,
            activation=_activation(config, problem, stated, labels=len(labels)),
            **layout._asdict(),
            truncation="longest_first",
        ),
        encoder=encoder,
        tokenizer=tokenizer,
        architecture=architecture,
        head=head,
        output=SCORES if plain else UNPOOLED,
        precision=precision,
    )


def _activation(config: ConfigFile, problem: str | None, stated: str | None, *, labels: int) -> str:
    """Return the activation as transformers' pipeline chooses it.

    Without a `problem_type`, a CrossEncoder's own is that of labels of which each has its score.
    """
    if problem == "single_label_classification" and labels == 1:
        config.fail("problem_type", "regression or null for a model with one label", problem)
    if problem:
        return ACTIVATIONS[problem]
    if labels == 1:
        return stated or "sigmoid"
    return "sigmoid" if stated == "sigmoid" else "softmax"


def _check_prompt(folder: ModelFolder) -> None:
    """Check that no text goes before each input; other prompts are only used if one is asked."""
    config = folder.config(SETTINGS_FILE, optional=True)
    if config.optional("model_type") == "CrossEncoder":
        default: str | None = read_default_prompt(folder) or None
    else:
        _, default = read_named_prompts(config)
        config.require("model_type", "SentenceTransformer", None)
        config.require("truncate_dim", None)
        config.done(SETTINGS_FILE)
    if default is not None:
        config.fail("default_prompt_name", "null for a classifier", default)


def _head_of_modules(
    folder: ModelFolder, config: ConfigFile, problem: str | None, *, hidden_size: int
) -> tuple[Head, tuple[str, ...], str | None]:
    """Return the head of a folder with modules, the names of its labels, and its problem type."""
    if folder.is_cross_encoder:
        head = head_of_modules(config, folder.modules[1:])
    else:
        head = read_head(folder, hidden_size=hidden_size)
    if setfit := _setfit_head(folder, head):
        return setfit
    dense = head.modules[-1] if head.modules else None
    if not isinstance(dense, Dense) or head.normalized or folder.has(SETFIT_PICKLE):
        _refuse_without_head(folder)
    if dense.activation != IDENTITY:
        raise UnsupportedModelError(
            f"{dense.folder}: activation_function must be {IDENTITY}, so that the module gives "
            f"logits; found {dense.activation}."
        )
    names = config.optional("id2label")
    named = isinstance(names, dict) and len(names) == dense.outputs
    labels = read_labels(config) if named else numbered_labels(dense.outputs)
    dense = replace(dense, exact=True)
    return replace(head, modules=(*head.modules[:-1], dense), scores=True), labels, problem


def _refuse_without_head(folder: ModelFolder) -> NoReturn:
    pickle = folder.path / SETFIT_PICKLE
    remedy = "Without --task classify, or task under [model], it is read as an embedding model."
    if folder.has(SETFIT_PICKLE):
        line = HEAD_CONVERSION.format(pickle=pickle, head=folder.path / SETFIT_HEAD)
        remedy = (
            f"{SETFIT_PICKLE} is a pickle, which can run any code and is never opened. With SetFit "
            f'installed, convert it with: python -c "{line}"'
        )
    raise UnsupportedModelError(
        f"{folder.path / MODULES_FILE} must end in a Dense that gives logits, or the head of "
        f"SetFit be in {SETFIT_HEAD}; found {', '.join(folder.kinds)}. {remedy}"
    )


def _setfit_head(
    folder: ModelFolder, body: Head
) -> tuple[Head, tuple[str, ...], str | None] | None:
    """Return SetFit's converted head after the modules of its body; None without one."""
    if not folder.has(SETFIT_HEAD):
        return None
    path, config = folder.path / SETFIT_HEAD, folder.config(SETFIT_HEAD)
    weight, bias = (_array(path, name, config.optional(name)) for name in ("coef_", "intercept_"))
    width = body.dimensions
    if weight.ndim != 2 or weight.shape[1] != width or bias.shape != weight.shape[:1]:
        raise SourceError(
            f"{path}: coef_ must be [labels, {width}] and intercept_ [labels]; found "
            f"{list(weight.shape)} and {list(bias.shape)}."
        )
    problem, classes = _setfit_problem(config)
    config.done()
    if len(weight) == 1 and problem != "multi_label_classification":
        # Two classes, of which the first has the logit 0: their softmax is the sigmoid.
        weight, bias = (np.concatenate([np.zeros_like(value), value]) for value in (weight, bias))
    settings = folder.config(SETFIT_FILE, optional=True)
    names = settings.optional("labels")
    normalizes = settings.boolean("normalize_embeddings", False) or body.normalized
    settings.done()
    labels = _setfit_labels(settings, names, classes, count=len(weight))
    tensors = {
        f"linear.{name}": StoredTensor(path, "F64", value.shape, partial(np.copy, value))
        for name, value in (("weight", weight), ("bias", bias))
    }
    dense = Dense(
        folder=folder.path,
        inputs=width,
        outputs=len(weight),
        bias=True,
        activation=IDENTITY,
        normalizes=normalizes,
        exact=True,
        tensors=tensors,
    )
    head = replace(
        body, modules=(*body.modules, dense), dimensions=len(weight), normalized=False, scores=True
    )
    return head, labels, problem


def _array(path: Path, name: str, value: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    try:
        return np.array(value, np.float64)
    except (TypeError, ValueError) as error:
        raise SourceError(f"{path}: {name} must be numbers: {error}.") from error


def _setfit_problem(config: ConfigFile) -> tuple[str, Sequence[str] | None]:
    """Return the problem type that a converted head states, and its classes."""
    head = config.string("head", "LogisticRegression")
    name = head.partition("(")[0]
    if name not in HEADS or OTHER_PROBABILITIES.search(head):
        raise UnsupportedModelError(
            f"{config.path}: head must be a SetFitHead, a LogisticRegression of one softmax, or "
            f"one for each label in OneVsRestClassifier or MultiOutputClassifier; found {head}."
        )
    several = config.boolean("multilabel_", True)
    if name != "SetFitHead":
        config.require("multilabel_", True)
    classes = config.optional("classes_")
    if classes is not None and not (
        isinstance(classes, list) and all(isinstance(label, str) for label in classes)
    ):
        config.fail("classes_", "a list of strings", classes)
    problem = HEADS[name if several else "LogisticRegression"]
    return problem, classes if name == "LogisticRegression" else None


def _setfit_labels(
    settings: ConfigFile, names: Any, classes: Sequence[str] | None, *, count: int
) -> tuple[str, ...]:
    """Return the names of the labels: SetFit's by the number of the class, or the classes."""
    if names is None:
        return tuple(classes) if classes and len(classes) == count else numbered_labels(count)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        settings.fail("labels", "a list of strings, or null", names)
    if classes and len(classes) == count and all(label.isdecimal() for label in classes):
        names = [names[int(label)] for label in classes if int(label) < len(names)]
    if len(names) != count or len(set(names)) < count:
        settings.fail("labels", f"different names of the head's {count} classes", names)
    return tuple(names)
