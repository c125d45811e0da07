"""Classifiers: their scores are those of transformers and scikit-learn, and others are refused."""

import json
import pickle
import random
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from embedder.core.classifier import Classifier
from embedder.core.engine import Engine
from embedder.core.errors import ArtifactError, InvalidFieldError
from embedder.core.reranker import Reranker
from model_compiler.errors import CompilerError, FidelityError
from model_compiler.fidelity.measure import Thresholds
from model_compiler.graph.builder import Precision
from model_compiler.model.classifier import read_classifier
from model_compiler.model.folder import ModelFolder
from tests.model_compiler.conftest import compile_folder
from tests.model_compiler.goldens.classifier_models import (
    INPUTS,
    SENTIMENT,
    SETFIT,
    VARIANTS,
    converted,
    setfit_head,
    write_classifier,
    write_setfit,
)
from tests.model_compiler.goldens.files import change_tensors, edit_json, write_json
from tests.model_compiler.goldens.reranker_models import write_reranker
from tests.model_compiler.goldens.tiny_models import write_model
from tools.bench.quality import corpus

GOLDEN = np.load(Path(__file__).parents[1] / "goldens" / "classifiers.npz")
TEXTS = [given for given in INPUTS if isinstance(given, str)]


@pytest.mark.parametrize("variant", VARIANTS)
def test_scores_are_the_models_own(tmp_path, compile_tiny, variant):
    """In float32, scores of texts and pairs are within 1e-5, those over the limit too."""
    folder = write_classifier(tmp_path / "model", **VARIANTS[variant])
    artifact = compile_tiny(folder, task="classify")
    classifier = Classifier.load(artifact, truncate="right")
    scores, work = classifier.predict(INPUTS)
    assert scores == pytest.approx(GOLDEN[f"{variant}/scores"], abs=1e-5)
    assert work.vectors == pytest.approx(GOLDEN[f"{variant}/logits"], abs=1e-5, rel=5e-5)
    assert max(work.tokens) == artifact.manifest.max_tokens
    labels = VARIANTS[variant]["labels"] or ("LABEL_0", "LABEL_1")
    assert artifact.manifest.scoring.labels == labels


@pytest.mark.parametrize("variant", ["bert", "xlm-roberta", "modernbert, mean"])
def test_a_score_does_not_depend_on_other_inputs(tmp_path, compile_tiny, variant):
    """In int8, an input has the same bits alone, with others and in another order."""
    folder = write_classifier(tmp_path / "model", **VARIANTS[variant])
    classifier = Classifier.load(compile_tiny(folder, Precision.INT8), truncate="left")
    together = classifier.predict(INPUTS).scores
    alone = [classifier.predict([given]).scores[0].tolist() for given in INPUTS]
    assert together.tolist() == alone
    assert classifier.predict(INPUTS[::-1]).scores[::-1].tolist() == alone


def test_a_tokenizer_from_sentencepiece_alone(tmp_path, compile_tiny):
    """`unk_id`, which transformers 5 then saves as that of sentencepiece, changes no score."""
    variant = "xlm-roberta"
    folder = write_classifier(tmp_path / "model", **VARIANTS[variant])
    edit_json(folder / "tokenizer_config.json", unk_id=0)
    scores = Classifier.load(compile_tiny(folder), truncate="right").predict(INPUTS).scores
    assert scores == pytest.approx(GOLDEN[f"{variant}/scores"], abs=1e-5)


def test_a_vocabulary_alone_takes_pairs(tmp_path, compile_tiny):
    """BERT's class puts around a pair what its `tokenizer.json` does."""
    folder = write_classifier(tmp_path / "model", labels=SENTIMENT)
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)) + "\n")
    scores = Classifier.load(compile_tiny(folder), truncate="right").predict(INPUTS).scores
    assert scores == pytest.approx(GOLDEN["bert/scores"], abs=1e-5)


def test_an_adapter_with_its_own_head(tmp_path, compile_tiny):
    """A trained head is saved whole by peft; a base that is no classifier has no labels for it."""
    folder = write_classifier(tmp_path / "model", labels=SENTIMENT)
    settings = {"peft_type": "LORA", "r": 1, "target_modules": ["query"], "task_type": "SEQ_CLS"}
    write_json(folder / "adapter_config.json", {**settings, "modules_to_save": ["classifier"]})
    base, adapter = load_file(folder / "model.safetensors"), {}
    for name, tensor in base.items():
        if name.startswith("classifier."):
            adapter[f"base_model.model.{name}"] = np.ascontiguousarray(tensor[::-1])
        elif name.endswith("query.weight"):
            module = f"base_model.model.{name.removesuffix('.weight')}"
            adapter[f"{module}.lora_A.weight"] = np.ones((1, tensor.shape[1]), np.float32)
            adapter[f"{module}.lora_B.weight"] = np.zeros((tensor.shape[0], 1), np.float32)
    save_file(adapter, folder / "adapter_model.safetensors")
    scores = Classifier.load(compile_tiny(folder), truncate="right").predict(INPUTS).scores
    assert scores == pytest.approx(GOLDEN["bert/scores"][:, ::-1], abs=1e-5)
    edit_json(folder / "config.json", architectures=["BertModel"])
    with pytest.raises(CompilerError, match="a classifier whose base has the same labels"):
        read_classifier(ModelFolder.read(folder))


def test_a_model_for_tokens_is_named(tmp_path, compile_tiny):
    """One that labels each token is neither a classifier nor an embedding model."""
    folder = write_classifier(tmp_path / "model", labels=SENTIMENT)
    edit_json(folder / "config.json", architectures=["BertForTokenClassification"])
    with pytest.raises(CompilerError, match="Its architecture is BertForTokenClassification;"):
        compile_tiny(folder)


@pytest.mark.parametrize("name", SETFIT)
def test_a_head_of_setfit(tmp_path, compile_tiny, name):
    """Its probabilities are scikit-learn's or its own, of one label and of several."""
    folder = write_setfit(tmp_path / "model", name)
    write_json(folder / "model_head.json", converted(name))
    classifier = Classifier.load(compile_tiny(folder, task="classify"), truncate="right")
    assert classifier.predict(TEXTS).scores == pytest.approx(GOLDEN[f"setfit, {name}"], abs=1e-5)
    expected = {"binary": ("no", "yes"), "three classes": tuple("012"), "torch": tuple("abc")}
    assert classifier.scoring.labels == expected.get(name, classifier.scoring.labels)


class PickledHead:
    """What a pickle has for the line that converts it."""

    def __init__(self, text: str = "", **attributes: Any) -> None:
        self.text = text
        self.__dict__ |= attributes

    def __str__(self) -> str:
        return self.text


def _pickled(name: str) -> PickledHead:
    """Return a head with the attributes of scikit-learn's class, or of SetFit's own."""
    arrays = setfit_head(name)
    if SETFIT[name][0] == "SetFitHead":
        linear = PickledHead(weight=arrays["coef_"] * 2.5, bias=arrays["intercept_"] * 2.5)
        settings = {"temperature": 2.0, "eps": 0.5, "multitarget": name != "torch"}
        return PickledHead("SetFitHead()", linear=linear, **settings)
    heads = [
        PickledHead(coef_=weight[None], intercept_=bias[None])
        for weight, bias in zip(arrays["coef_"], arrays["intercept_"], strict=True)
    ]
    text = "OneVsRestClassifier(estimator=LogisticRegression())"
    return PickledHead(text, estimators_=heads, classes_=np.arange(4), multilabel_=True)


@pytest.mark.parametrize("name", ["one versus rest", "torch", "torch, several labels"])
def test_the_line_that_converts_a_pickle(tmp_path, compile_tiny, name):
    """A pickle is refused with it; it writes the file that is read."""
    folder, head = write_setfit(tmp_path / "model", name), _pickled(name)
    (folder / "model_head.pkl").write_bytes(pickle.dumps(head))
    with pytest.raises(CompilerError, match="is a pickle, which can run any code") as refused:
        read_classifier(ModelFolder.read(folder))
    (line,) = re.findall(r'python -c "(.*)"', str(refused.value))
    subprocess.run([sys.executable, "-c", line], check=True, cwd=Path(__file__).parents[3])
    written = json.loads((folder / "model_head.json").read_text())
    arrays = {key: pytest.approx(np.array(value)) for key, value in setfit_head(name).items()}
    assert {key: np.array(written.pop(key)) for key in arrays} == arrays
    expected = {**converted(name), "head": str(head)}
    assert written == {key: value for key, value in expected.items() if key not in arrays}
    classifier = Classifier.load(compile_tiny(folder, task="classify"), truncate="right")
    assert classifier.predict(TEXTS).scores == pytest.approx(GOLDEN[f"setfit, {name}"], abs=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head": "SVC()"}, "head must be a SetFitHead, a LogisticRegression .*; found SVC"),
        ({"head": "LogisticRegression(solver='liblinear')"}, "found LogisticRegression.solver"),
        ({"head": "ClassifierChain()"}, "found ClassifierChain"),
        ({"multilabel_": False}, "multilabel_ is false"),
        ({"coef_": [[1.0]]}, r"coef_ must be \[labels, 32\]"),
        ({"coef_": [[1.0], [1.0, 2.0]]}, "coef_ must be numbers"),
        ({"coef_": None}, r"coef_ must be \[labels, 32\]"),
        ({"classes_": 3}, "classes_ must be a list of strings"),
        ({"scale": 2}, "does not know: scale = 2"),
    ],
)
def test_a_converted_head_that_is_not_understood(tmp_path, change, message):
    """Another kind of head, or arrays of another shape, are refused by name."""
    folder = write_setfit(tmp_path / "model", "three classes")
    write_json(folder / "model_head.json", {**converted("three classes"), **change})
    with pytest.raises(CompilerError, match=message):
        read_classifier(ModelFolder.read(folder))


@pytest.mark.parametrize("labels", [["no"], ["no", "no"], ["no", "yes", "perhaps"], "no, yes"])
def test_labels_of_setfit_that_do_not_fit(tmp_path, labels):
    """The error names the file of the labels, one for each class and all different."""
    folder = write_setfit(tmp_path / "model", "binary")
    write_json(folder / "model_head.json", {**converted("binary"), "classes_": ["a", "b"]})
    edit_json(folder / "config_setfit.json", labels=labels)
    with pytest.raises(CompilerError, match=r"config_setfit\.json: labels must be "):
        read_classifier(ModelFolder.read(folder))


def test_a_dense_module_at_the_end(tmp_path, compile_tiny):
    """Its outputs are the logits; one with an activation, or a Normalize after it, is refused."""
    folder = write_model(tmp_path / "model", dense=[(3, True, "linear.Identity")])
    with pytest.raises(CompilerError, match=r"must end in a Dense that gives logits, .*Normalize"):
        read_classifier(ModelFolder.read(folder))
    edit_json(folder / "modules.json", lambda modules: modules[:-1])
    edit_json(folder / "config.json", id2label=dict(enumerate(SENTIMENT)))
    classifier = Classifier.load(compile_tiny(folder, task="classify"))
    scores, work = classifier.predict(["hello world"])
    powers = np.exp(work.vectors.astype(np.float64))
    assert scores == pytest.approx(powers / powers.sum(), abs=1e-6)
    assert classifier.scoring.labels == SENTIMENT
    (dense,) = folder.glob("*_Dense")
    edit_json(dense / "config.json", activation_function="torch.nn.modules.activation.Tanh")
    with pytest.raises(CompilerError, match=r"activation_function must be .*Identity"):
        read_classifier(ModelFolder.read(folder))


def test_an_embedding_model_is_no_classifier(tmp_path):
    """It is refused without a word about a pickle that it does not have."""
    folder = ModelFolder.read(write_model(tmp_path / "model"))
    with pytest.raises(CompilerError, match="Without --task classify, or task") as refused:
        read_classifier(folder)
    assert "pickle" not in str(refused.value)


def test_a_folder_of_setfit_without_a_task(tmp_path, compile_tiny, capsys):
    """It is an embedding model's, and the note says how its head is read too."""
    folder = write_setfit(tmp_path / "model", "binary")
    assert compile_tiny(folder).manifest.task == "embed"
    note = "a classifier's head of SetFit and was read as an embedding model: --task classify"
    assert note in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "remedy"),
    [
        (
            "pytorch_model.bin",
            (
                r'python -c "from transformers import AutoModelForSequenceClassification as M; '
                r"M\.from_pretrained\('FOLDER'\)\.save_pretrained\('FOLDER'\)"
            ),
        ),
        (
            "model.onnx",
            "not from an ONNX export or TensorFlow's file. Save the model itself: AutoModelForSeq",
        ),
    ],
)
def test_a_classifier_without_safetensors(tmp_path, compile_tiny, file, remedy):
    """The way out keeps the head: a pickle is saved again, and an export's model."""
    folder = write_classifier(tmp_path / "model", labels=SENTIMENT)
    (folder / "model.safetensors").rename(folder / file)
    with pytest.raises(CompilerError, match=rf"model\.safetensors is missing\..*{remedy}"):
        compile_tiny(folder)


@pytest.mark.parametrize(
    ("traits", "task", "read_as", "note"),
    [
        ({}, None, "rerank", ""),
        ({}, "classify", "classify", ""),
        ({"labels": 3}, None, "classify", "3 labels and was read as a classifier: --task rerank"),
        ({"labels": 3}, "rerank", "rerank", ""),
        (
            {"labels": 3, "saved": {}},
            None,
            "rerank",
            "3 labels and was read as a reranker: --task classify, or task under [model]",
        ),
        ({"labels": 3, "saved": {}}, "classify", "classify", ""),
    ],
)
def test_which_of_the_two_a_folder_is(
    *, tmp_path, compile_tiny, capsys, traits, task, read_as, note
):
    """The option decides, then what saved it and the number of labels; a note names the other."""
    folder = write_reranker(tmp_path / "model", **traits)
    assert compile_tiny(folder, task=task).manifest.task == read_as
    assert (note in capsys.readouterr().err) if note else ("labels" not in capsys.readouterr().err)


def test_an_artifact_of_the_other_kind(tmp_path, compile_tiny):
    """A classifier is no reranker, and the other way round."""
    folder = write_reranker(tmp_path / "model")
    with pytest.raises(ArtifactError, match="is a reranker; a classifier's artifact is needed"):
        Classifier.load(compile_tiny(folder))
    with pytest.raises(ArtifactError, match="is a classifier; a reranker's artifact is needed"):
        Reranker.load(compile_tiny(folder, task="classify"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id2label": {"0": "a", "1": "a", "2": "b"}}, "id2label must be up to 1000 labels with"),
        ({"id2label": {"0": "a", "1": " ", "2": "b"}}, "different names that are not blank"),
        ({"id2label": {"0": "a", "2": "b"}}, "id2label must be names for the numbers"),
        ({"id2label": {"0": "a"}, "problem_type": "single_label_classification"}, "problem_type"),
        ({"problem_type": "ranking"}, "problem_type must be one of single_label_classification,"),
        ({"architectures": ["BertModel"]}, "architectures must be a name that ends in ForSequence"),
        ({"model_type": "nomic_bert"}, "the compiler cannot express"),
    ],
)
def test_what_the_compiler_cannot_express_is_named(tmp_path, change, message):
    """A setting that would change the scores, or their names, is refused."""
    folder = write_classifier(tmp_path / "model", labels=SENTIMENT)
    read_classifier(ModelFolder.read(folder))
    edit_json(folder / "config.json", **change)
    with pytest.raises(CompilerError, match=message):
        read_classifier(ModelFolder.read(folder))


def test_a_default_prompt_is_refused(tmp_path):
    """No text goes before a classifier's input."""
    saved = {"prompts": {"q": "query: "}, "default_prompt_name": "q"}
    folder = write_reranker(tmp_path / "model", labels=3, saved=saved)
    with pytest.raises(CompilerError, match="default_prompt_name must be null for a classifier"):
        read_classifier(ModelFolder.read(folder))


def test_a_tokenizer_that_makes_no_known_pairs(tmp_path, compile_tiny, capsys):
    """Texts are classified, the report says why no pairs, and a pair is refused when it comes."""
    folder = write_classifier(tmp_path / "model", labels=SENTIMENT)
    edit_json(folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    classifier = Classifier.load(compile_tiny(folder), truncate="right")
    assert "takes single texts and no pairs. " in capsys.readouterr().err
    golden = GOLDEN["bert/scores"][[isinstance(given, str) for given in INPUTS]]
    assert classifier.predict(TEXTS).scores == pytest.approx(golden, abs=1e-5)
    with pytest.raises(InvalidFieldError, match=r"model takes single texts, .* at position 1"):
        classifier.predict(["a", ("a", "b")])


def test_the_label_space_follows_the_scores(tmp_path, compile_tiny):
    """Other names, another problem type or another weight of the head give another space."""
    folder = write_classifier(tmp_path / "model", labels=SENTIMENT)
    spaces = [compile_tiny(folder).manifest.space for _ in range(2)]
    assert spaces[0] == spaces[1]
    edit_json(folder / "config.json", id2label=dict(enumerate("abc")))
    spaces.append(compile_tiny(folder).manifest.space)
    edit_json(folder / "config.json", problem_type="multi_label_classification")
    spaces.append(compile_tiny(folder).manifest.space)
    change_tensors(folder, lambda found: {**found, "classifier.bias": found["classifier.bias"] + 1})
    spaces.append(compile_tiny(folder).manifest.space)
    assert len(set(spaces)) == 4


def test_the_report_of_a_classifier(tmp_path):
    """It has the labels that change, by which an inaccurate artifact is refused, and two texts."""
    folder = write_classifier(tmp_path / "model", labels=("a",), problem="regression")
    manifest = compile_folder(folder, tmp_path / "a", task="classify", precision=Precision.FP32)
    assert manifest["fidelity"] == {
        "texts": 309,
        "difference_max": 0.0,
        "difference_mean": 0.0,
        "changed": 0,
        "agreement": 1.0,
        "batch_difference_max": 0.0,
    }
    assert [golden["text"] for golden in manifest["golden"]] == [
        "hello world",
        "How do I parse a date out of a string?",
    ]
    edit_json(folder / "config.json", id2label={"0": "a", "1": "b"}, problem_type=None)
    change_tensors(
        folder,
        lambda found: {
            **found,
            "classifier.weight": np.concatenate([found["classifier.weight"]] * 2) * [[1], [1.0001]],
            "classifier.bias": np.zeros(2, np.float32),
        },
    )
    with pytest.raises(FidelityError, match="the agreement of labels with full precision is"):
        compile_folder(folder, tmp_path / "b", thresholds=Thresholds(label_agreement=2.0))


def test_int8_keeps_the_labels_of_real_texts(minilm_artifact, minilm_artifact_fp32):
    """A linear head on MiniLM says of 99% of docstrings the same package in both precisions."""
    library = Path(sysconfig.get_paths()["stdlib"])
    packages = [
        corpus(library / name, 0).documents[:120] for name in ("asyncio", "email", "logging")
    ]
    texts = [text for documents in packages for text in documents]
    package = np.repeat(np.arange(len(packages)), [len(documents) for documents in packages])
    full, int8 = (
        np.pad(
            Engine.load(artifact, truncate="right").embed(texts).vectors.astype(np.float64),
            ((0, 0), (0, 1)),
            constant_values=1,
        )
        for artifact in (minilm_artifact_fp32, minilm_artifact)
    )
    half = full[::2]
    moments = half.T @ half + 0.1 * np.eye(half.shape[1])
    head = np.linalg.solve(moments, half.T @ np.eye(len(packages))[package[::2]])
    labels = (full @ head).argmax(axis=1)
    assert (labels == package)[1::2].mean() > 0.8
    assert ((int8 @ head).argmax(axis=1) == labels).mean() >= 0.99


#: Sections of Debian's packages.
SECTIONS = ["editors", "games", "graphics", "mail", "net", "science", "sound", "web"]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("apt-cache"), reason="needs Debian's list of packages")
def test_int8_keeps_the_labels_of_debians_packages(minilm_artifact, minilm_artifact_fp32):
    """A logistic head on MiniLM says of 99.5% of other descriptions the same section in both."""
    listed = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True)
    rows = set()
    for entry in listed.stdout.split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in entry.splitlines())
        section = fields.get("Section", "").rpartition("/")[2]
        if section in SECTIONS:
            rows.add((fields.get("Description", fields.get("Description-en")), section))
    if len(rows) < 1000:
        pytest.skip("apt has no lists of packages here")
    shuffled = random.Random(0).sample(sorted(rows), len(rows))
    texts = [text for text, _ in shuffled]
    sections = np.array([SECTIONS.index(section) for _, section in shuffled])
    full, int8 = (
        np.concatenate(
            [
                Engine.load(artifact, truncate="right").embed(texts[start : start + 512]).vectors
                for start in range(0, len(texts), 512)
            ]
        ).astype(np.float64)
        for artifact in (minilm_artifact_fp32, minilm_artifact)
    )
    half = len(rows) // 2
    trained, wanted = full[:half], np.eye(len(SECTIONS))[sections[:half]]
    head, bias = np.zeros((384, len(SECTIONS))), np.zeros(len(SECTIONS))
    for _ in range(200):
        likely = np.exp(trained @ head + bias)
        error = likely / likely.sum(axis=1, keepdims=True) - wanted
        head -= 5 / half * trained.T @ error
        bias -= 5 * error.mean(axis=0)
    labels = (full[half:] @ head + bias).argmax(axis=1)
    assert (labels == sections[half:]).mean() > 0.75
    assert ((int8[half:] @ head + bias).argmax(axis=1) == labels).mean() >= 0.995
