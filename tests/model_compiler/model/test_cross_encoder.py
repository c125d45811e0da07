"""Cross-encoders: their scores are sentence-transformers' own, and unknown ones are refused."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedder.core.fast_tokenizers.byte_level import BYTE_ALPHABET
from embedder.core.reranker import Reranker
from model_compiler.errors import CompilerError, SourceError
from model_compiler.files.config import CLASSIFIER
from model_compiler.graph.builder import Precision
from model_compiler.model.cross_encoder import read_cross_encoder
from model_compiler.model.folder import ModelFolder
from tests.model_compiler.conftest import merged
from tests.model_compiler.goldens.files import change_tensors, edit_json
from tests.model_compiler.goldens.gte_model import respell
from tests.model_compiler.goldens.reranker_models import PAIRS, VARIANTS, write_reranker

GOLDEN = json.loads(Path(__file__).parents[1].joinpath("goldens/rerankers.json").read_text("utf-8"))


@pytest.mark.parametrize("variant", VARIANTS)
def test_scores_are_the_models_own(tmp_path, compile_tiny, variant):
    """In float32, logits and scores of each pair are within 1e-5, those over the limit too."""
    folder = write_reranker(tmp_path / "model", **VARIANTS[variant])
    artifact = compile_tiny(folder, task="rerank")
    reranker = Reranker.load(artifact, truncate="right")
    scores, work = reranker.predict(PAIRS)
    golden = np.array(GOLDEN[variant]["logits"], np.float32).reshape(work.vectors.shape)
    # In one pair of xlm-roberta, torch's own float32 is 1e-5 from its float64, and ours 3e-5.
    assert work.vectors == pytest.approx(golden, abs=1e-5, rel=5e-5)
    assert scores == pytest.approx(np.array(GOLDEN[variant]["scores"], np.float32), abs=1e-5)
    assert max(work.tokens) == artifact.manifest.max_tokens


def test_gte_in_its_own_spelling(tmp_path, compile_tiny):
    """The weights have other names there, and more token types than one are refused."""
    folder = write_reranker(tmp_path / "model", family="gte")
    respell(folder)
    code = {"AutoModel": "x.NewModel", "AutoModelForSequenceClassification": f"x.New{CLASSIFIER}"}
    edit_json(folder / "config.json", model_type="new", auto_map=code)
    logits = Reranker.load(compile_tiny(folder), truncate="right").predict(PAIRS).work.vectors
    assert logits == pytest.approx(np.array(GOLDEN["gte"]["logits"])[:, None], abs=1e-5, rel=5e-5)
    edit_json(folder / "config.json", type_vocab_size=2)
    edit_json(folder / "tokenizer_config.json", model_input_names=["input_ids", "token_type_ids"])
    with pytest.raises(CompilerError, match="type_vocab_size must be 0 or 1 for a cross-encoder"):
        read_cross_encoder(ModelFolder.read(folder))


@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize(
    "variant",
    [
        "bert",
        "gte",
        "xlm-roberta",
        "modernbert, mean",
        "modernbert, modules",
        "bert, modules",
        "qwen3",
    ],
)
def test_a_score_does_not_depend_on_other_passages(tmp_path, compile_tiny, variant, precision):
    """A pair has the same logits alone, with others and in another order, to the last bit."""
    artifact = compile_tiny(write_reranker(tmp_path / "model", **VARIANTS[variant]), precision)
    reranker = Reranker.load(artifact, truncate="right")
    pairs = [*PAIRS, *((PAIRS[0][0], f"{word} world") for word in "abcdefghijklmnopq")]
    together = reranker.predict(pairs, raw=True).scores
    alone = [reranker.predict([pair], raw=True).scores[0] for pair in pairs]
    assert together.tolist() == [score.tolist() for score in alone]
    assert reranker.predict(pairs[::-1], raw=True).scores[::-1].tolist() == together.tolist()


def test_the_manifest_of_a_reranker(tmp_path, compile_tiny):
    """It has the task, the labels, a space without dimensions and golden pairs."""
    folder = write_reranker(tmp_path / "model", labels=3, saved={})
    manifest = compile_tiny(folder).manifest
    assert manifest.task == "rerank"
    assert manifest.dimensions == ()
    assert manifest.scoring is not None
    assert manifest.scoring.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert manifest.space == manifest.vector_space


def test_the_score_space_follows_the_scores(tmp_path, compile_tiny):
    """Another activation, or another weight of a head's module, gives another space."""
    folder = write_reranker(tmp_path / "model")
    original = compile_tiny(folder).manifest.vector_space
    assert compile_tiny(folder).manifest.vector_space == original
    name = "torch.nn.modules.linear.Identity"
    edit_json(folder / "config.json", sbert_ce_default_activation_function=name)
    assert compile_tiny(folder).manifest.vector_space != original
    folder = write_reranker(tmp_path / "modules", **VARIANTS["modernbert, modules"])
    original = compile_tiny(folder).manifest.vector_space
    change_tensors(
        folder / "3_LayerNorm", lambda found: {**found, "norm.bias": found["norm.bias"] + 1}
    )
    assert compile_tiny(folder).manifest.vector_space != original


ST = "config_sentence_transformers.json"
Changes = list[tuple[str, dict[str, Any], str]]
CHANGES: Changes = [
    ("config.json", {"id2label": {"0": "A", "2": "B"}}, "id2label must be names for the numbers"),
    ("config.json", {"id2label": {}}, "id2label must be names for the numbers"),
    ("config.json", {"num_labels": 2}, "num_labels must be the number of labels in id2label, 1"),
    (
        "config.json",
        {"model_type": "nomic_bert"},
        "a cross-encoder or classifier of model_type 'nomic_bert'",
    ),
    ("config.json", {"sentence_transformers": {"x": 1}}, "does not know: x"),
    ("config.json", {"scale_scores": 2}, "does not know: scale_scores = 2"),
    (
        "config.json",
        {"sbert_ce_default_activation_function": "acme.Steep"},
        "the activation of the scores must be one of .*; found 'acme.Steep'",
    ),
    ("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"}, "4 and 5 of"),
    (ST, {"activation_fn": "torch.nn.modules.activation.Tanh"}, "found 'torch.*Tanh'"),
    (ST, {"default_prompt_name": "q"}, "default_prompt_name must be one of"),
    (ST, {"margin": 1}, "does not know: margin = 1"),
    ("sentence_bert_config.json", {"module_output_name": "x"}, "module_output_name is"),
    ("sentence_bert_config.json", {"transformer_task": "text-generation"}, "transformer_task is"),
]
LANGUAGE_MODEL_CHANGES: Changes = [
    ("1_LogitScore/config.json", {"true_token_id": 999}, "true_token_id must be a token's id"),
    ("1_LogitScore/config.json", {"false_token_id": "no"}, "false_token_id must be an integer"),
    ("1_LogitScore/config.json", {"module_input_name": "logits"}, "module_input_name is"),
    ("1_LogitScore/config.json", {"scale": 2}, "does not know: scale = 2"),
    ("sentence_bert_config.json", {"transformer_task": "feature-extraction"}, "transformer_task"),
    ("sentence_bert_config.json", {"transformer_task": None}, "transformer_task is missing"),
    ("sentence_bert_config.json", {"modality_config": {"text": {}}}, "modality_config is"),
    ("sentence_bert_config.json", {"processing_kwargs": {"text": {}}}, "processing_kwargs is"),
]
HEAD_CHANGES: Changes = [
    ("1_Pooling/config.json", {"include_prompt": False}, "include_prompt must be true"),
    ("1_Pooling/config.json", {"embedding_dimension": 47}, "embedding_dimension is 47"),
    ("2_Dense/config.json", {"module_output_name": "scores"}, 'module_output_name is "scores"'),
    ("2_Dense/config.json", {"out_features": 47}, "dimension is 48; the previous module returns"),
    ("3_LayerNorm/config.json", {"eps": 1e-12}, "does not know: eps"),
    ("4_Dense/config.json", {"module_output_name": None}, "module_output_name must be scores"),
    ("4_Dense/config.json", {"module_output_name": "sentence_embedding"}, "module_output_name is"),
    ("4_Dense/config.json", {"out_features": 1001}, "out_features is 1001; .* 1 to 1000"),
]
#: The models that are changed: the traits of each, and its changes.
CHANGED: list[tuple[dict[str, Any], Changes]] = [
    ({"saved": {}}, CHANGES),
    ({"family": "qwen3", "saved": {}}, LANGUAGE_MODEL_CHANGES),
    (VARIANTS["modernbert, modules"], HEAD_CHANGES),
]


@pytest.mark.parametrize(
    ("traits", "file", "change", "message"),
    [(traits, *case) for traits, cases in CHANGED for case in cases],
)
def test_what_the_compiler_cannot_express_is_named(*, tmp_path, traits, file, change, message):
    """A setting that would change the text, a token, a module or the scores is refused."""
    folder = write_reranker(tmp_path / "model", **traits)
    read_cross_encoder(ModelFolder.read(folder))
    edit_json(folder / file, **change)
    with pytest.raises(CompilerError, match=message):
        read_cross_encoder(ModelFolder.read(folder))


QUERY = "{{ messages | selectattr('role', 'eq', 'query') | map(attribute='content') | first }}"
DOCUMENT = QUERY.replace("query", "document")
TEMPLATES = [
    ("{{ messages[0].content }}", r"has \{\{ messages\[0\]\.content \}\}; of a reranker's"),
    (f"{{# pair #}}{QUERY}\n{DOCUMENT}", r"has \{# pair #\}"),
    (f"{{% if query %}}{QUERY}\n{DOCUMENT}{{% endif %}}", "has {% if query %}"),
    (f"{DOCUMENT}\n{QUERY}", "once each; found document, query"),
    (f"{QUERY}\n{DOCUMENT} {DOCUMENT}", "found query, document, document"),
    ("Yes or no?", "once each; found neither"),
    (f"{QUERY}\n{DOCUMENT}\n\n", "one token of the template's text and a text next to it"),
]


@pytest.mark.parametrize(("template", "message"), TEMPLATES)
def test_a_template_that_the_compiler_cannot_read(tmp_path, template, message):
    """An expression, an order or a border of tokens that it does not know is refused."""
    folder = write_reranker(tmp_path / "model", family="qwen3", saved={}, template=template)
    with pytest.raises(CompilerError, match=message):
        read_cross_encoder(ModelFolder.read(folder))


@pytest.mark.parametrize("edge", [" ", "\t", "\x0b", "\xa0", "\u2009", "\u3000", "}"])
@pytest.mark.parametrize("template", [f"{QUERY}\n{DOCUMENT}a", f"{QUERY}a{DOCUMENT}"])
def test_a_token_over_the_end_of_a_text(tmp_path, edge, template):
    """A query or a passage may end in any white space, and the template's text follows it."""
    folder = write_reranker(tmp_path / "model", family="qwen3", saved={}, template=template)
    last_byte = BYTE_ALPHABET[edge.encode()[-1]]

    def changed(value: dict[str, Any], merge: str) -> dict[str, Any]:
        vocabulary = value["model"]["vocab"]
        value["model"]["merges"] = [merge]
        number = vocabulary.pop(list(vocabulary)[-1])
        return merged(
            value, model=value["model"] | {"vocab": vocabulary | {"".join(merge.split()): number}}
        )

    edit_json(folder / "tokenizer.json", lambda value: changed(value, "q q"))
    read_cross_encoder(ModelFolder.read(folder))
    edit_json(folder / "tokenizer.json", lambda value: changed(value, f"{last_byte} a"))
    with pytest.raises(CompilerError, match="one token of the template's text and a text next to"):
        read_cross_encoder(ModelFolder.read(folder))


def test_a_language_model_without_a_template_is_no_reranker(tmp_path):
    """A plain folder is a reranker if its template has a document, or else no known model."""
    folder = write_reranker(tmp_path / "model", family="qwen3")
    assert ModelFolder.read(folder).is_cross_encoder
    edit_json(folder / "tokenizer_config.json", chat_template="{{ messages }}")
    assert not ModelFolder.read(folder).is_cross_encoder


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (["LogitScore"], "can express qwen3 with a causal mask; found bert"),
        *(
            (names, f"lists Transformer, {', '.join(names)}; of a cross-encoder")
            for names in (
                ["Dense"],
                ["Pooling"],
                ["Pooling", "Dense", "LayerNorm"],
                ["Pooling", "Normalize", "Dense"],
                ["LogitScore", "Dense"],
            )
        ),
    ],
)
def test_other_modules_are_named(tmp_path, kinds, message):
    """Without a Pooling first, a Dense last and known modules between, a head is refused."""
    folder = write_reranker(tmp_path / "model", saved={})
    modules = [{"path": kind, "type": f"sentence_transformers.models.{kind}"} for kind in kinds]
    edit_json(folder / "modules.json", lambda value: [*value, *modules])
    with pytest.raises(CompilerError, match=message):
        read_cross_encoder(ModelFolder.read(folder))


def test_a_pair_template_that_the_engine_cannot_make(tmp_path):
    """The second text's type must be 0 or 1, and it must come second."""
    folder = write_reranker(tmp_path / "model")

    def turned(value: dict[str, Any]) -> dict[str, Any]:
        pair = value["post_processor"]["pair"]
        pair[1], pair[3] = pair[3], pair[1]
        return value

    edit_json(folder / "tokenizer.json", turned)
    with pytest.raises(CompilerError, match="the post_processor must put the same ids"):
        read_cross_encoder(ModelFolder.read(folder))


TABLE = "model.embed_tokens.weight"
BERTS = "cls.predictions.bias bert.embeddings.position_ids"


@pytest.mark.parametrize(
    ("traits", "more", "message"),
    [
        ({"family": "qwen3"}, lambda found: {"lm_head.weight": found[TABLE]}, ""),
        (
            {"family": "qwen3"},
            lambda found: {"lm_head.weight": found[TABLE] * 2},
            "lm_head.weight must be equal to model.embed_tokens.weight, which the model shares",
        ),
        (
            {"family": "qwen3", "config": {"tie_word_embeddings": False}},
            lambda _: {"lm_head.bias": np.ones(3, np.float32)},
            "does not use: lm_head.bias",
        ),
        ({"family": "bert"}, lambda _: dict.fromkeys(BERTS.split(), np.ones(3, np.float32)), ""),
        *(
            ({"family": family}, lambda _, name=name: {name: np.ones(3, np.float32)}, name)
            for family, name in (
                ("bert", "bert.pooler.norm.bias"),
                ("bert", "bert.rotary_emb.inv_freq"),
                ("gte", "classifier.dense.weight"),
                ("modernbert", "head.dense.bias"),
                ("roberta", "classifier.x"),
            )
        ),
    ],
)
def test_each_tensor_of_a_head_is_known(tmp_path, traits, more, message):
    """One next to a part that the scores come from is refused, one of another head is not."""
    folder = write_reranker(tmp_path / "model", **traits)
    change_tensors(folder, lambda found: found | more(found))
    model = read_cross_encoder(ModelFolder.read(folder))
    with pytest.raises(CompilerError, match=message) if message else nullcontext():
        model.check()


def test_a_classifier_of_another_shape_than_the_labels(tmp_path):
    """It is refused by its shape."""
    folder = write_reranker(tmp_path / "model", labels=2)
    edit_json(folder / "config.json", id2label={"0": "LABEL_0"})
    with pytest.raises(SourceError, match=r"classifier\.weight has shape \[2, 32\]"):
        read_cross_encoder(ModelFolder.read(folder)).check()
