"""Small random cross-encoders, and the pairs of texts that go through them.

Each is an encoder of the other files here under a classifier's head, without the modules of an
embedding model.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from tests.model_compiler.goldens.encoder_models import LIMIT, write_encoder
from tests.model_compiler.goldens.files import (
    Tensors,
    edit_json,
    read_json,
    write_json,
    write_model_settings,
    write_modules,
)
from tests.model_compiler.goldens.llama_model import SPECIALS, write_llama
from tests.model_compiler.goldens.modernbert_model import write_modernbert
from tests.model_compiler.goldens.random_model import normal
from tests.model_compiler.goldens.tiny_models import ENCODER, write_model

QUERY = "parse the date"
#: Passages of many lengths: with the query, some are over each model's limit.
PASSAGES = (
    "a",
    "hello world",
    "Parse the date, then the time!",
    "x1 y2 z3? \u6771\u4eac \U0001f600 [SEP] a literal token",
    *("one two three four five six seven " * count for count in (1, 2, 3, 12)),
)
#: Texts of pairs in which both are over half of the limit, by an even and an odd number of tokens.
LONG = tuple("the time of the date and the world " * count for count in (12, 3))
PAIRS = (
    *((QUERY, passage) for passage in PASSAGES),
    *((LONG[0] + end, passage) for end in ("", "a") for passage in (PASSAGES[7], "hello")),
    *((LONG[1], passage) for passage in (LONG[1], LONG[1] + "b", PASSAGES[6])),
)

#: The template of the published Qwen3-Reranker, with a shorter text for the system, and another.
TEMPLATE = """\
{%- set instruction = messages | selectattr("role", "eq", "system") | map(attribute="content")\
 | first | default("Given a web search query, retrieve relevant passages") -%}
{%- set query_text = messages | selectattr("role", "eq", "query") | map(attribute="content")\
 | first -%}
{%- set document_text = messages | selectattr("role", "eq", "document")\
 | map(attribute="content") | first -%}
<|im_start|>system
Judge whether the Document meets the requirements.<|im_end|>
<|im_start|>user
<Instruct>: {{ instruction }}
<Query>: {{ query_text }}
<Document>: {{ document_text }}<|im_end|>
<|im_start|>assistant
<think>

</think>


"""
OTHER_TEMPLATE = """\
  {% set text = messages | selectattr('role', 'eq', 'document') | map(attribute='content')\
 | first %}
<|im_start|>query {{- messages | selectattr('role', 'eq', 'query') | map(attribute='content')\
 | first }}? document
{{ text -}}
<|im_end|>"""

#: What each golden model has that the plain one of its family does not.
VARIANTS: dict[str, dict[str, Any]] = {
    "bert": {"family": "bert"},
    "bert, three labels": {"family": "bert", "labels": 3},
    "bert, saved by version 6": {
        "family": "bert",
        "saved": {
            "activation_fn": "torch.nn.modules.linear.Identity",
            "prompts": {"search": "hello: "},
            "default_prompt_name": "search",
        },
    },
    "bert, old activation": {
        "family": "bert",
        "config": {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"},
    },
    "bert, one type": {"family": "bert", "tokenizer": {"model_input_names": ["input_ids"]}},
    "roberta": {"family": "roberta"},
    "xlm-roberta": {
        "family": "xlm-roberta",
        "config": {
            "sentence_transformers": {
                "activation_fn": "torch.nn.modules.activation.Sigmoid",
                "version": "4.1.0",
            }
        },
    },
    "camembert": {"family": "camembert"},
    "electra": {"family": "electra"},
    "gte": {"family": "gte"},
    "distilbert": {"family": "distilbert", "labels": 2},
    "modernbert, mean": {"family": "modernbert"},
    "modernbert, cls": {
        "family": "modernbert",
        "config": {
            "classifier_pooling": "cls",
            "classifier_bias": True,
            "norm_bias": True,
            "classifier_activation": "silu",
        },
    },
    # The head of cross-encoder/ettin-reranker-32m-v1.
    "modernbert, modules": {
        "family": "modernbert",
        "saved": {"activation_fn": "torch.nn.modules.linear.Identity"},
        "head": ("cls", [(48, False, "activation.GELU"), None, (1, True, "linear.Identity")]),
    },
    "bert, modules": {
        "family": "bert",
        "saved": {},
        "head": (["mean", "max"], [None, (24, True, None), (3, True, "activation.Sigmoid")]),
    },
    "xlm-roberta, one module": {
        "family": "xlm-roberta",
        "saved": {},
        "head": ("cls", [(1, False, None)]),
    },
    "qwen3": {"family": "qwen3"},
    "qwen3, saved by version 6": {
        "family": "qwen3",
        "config": {"tie_word_embeddings": False},
        "saved": {
            "activation_fn": "torch.nn.modules.linear.Identity",
            "prompts": {"search": "Find the answer."},
            "default_prompt_name": "search",
        },
    },
    "qwen3, one token": {
        "family": "qwen3",
        "saved": {},
        "tokens": {"true_token_id": 262, "false_token_id": None},
        "template": OTHER_TEMPLATE,
    },
}

#: The prefix of `...ForSequenceClassification`, that of the encoder's weights, and the class of
#: transformers' tokenizer.
GENERIC = "PreTrainedTokenizerFast"
CLASSES = {
    "albert": ("Albert", "albert.", GENERIC),
    "bert": ("Bert", "bert.", "BertTokenizer"),
    "camembert": ("Camembert", "roberta.", GENERIC),
    "distilbert": ("DistilBert", "distilbert.", "DistilBertTokenizer"),
    "electra": ("Electra", "electra.", "ElectraTokenizer"),
    "gte": ("Gte", "gte.", GENERIC),
    "modernbert": ("ModernBert", "model.", GENERIC),
    "roberta": ("Roberta", "roberta.", GENERIC),
    "xlm-roberta": ("XLMRoberta", "roberta.", GENERIC),
}


def write_reranker(
    folder: Path,
    *,
    family: str = "bert",
    labels: int = 1,
    config: Mapping[str, Any] | None = None,
    tokenizer: Mapping[str, Any] | None = None,
    saved: Mapping[str, Any] | None = None,
    tokens: Mapping[str, Any] | None = None,
    template: str = TEMPLATE,
    head: tuple[Any, Sequence[tuple[int, bool, str | None] | None]] | None = None,
) -> Path:
    """Write the folder of a plain classifier or language model, and return it.

    Args:
        folder: Where to; it is made.
        family: The `model_type`.
        labels: Of the classifier.
        config: Keys of `config.json` that differ.
        tokenizer: Keys of `tokenizer_config.json` that differ.
        saved: Keys of sentence-transformers 6's own file, for a folder that it saved.
        tokens: The file of a language model's LogitScore, if another than yes and no.
        template: Of a language model.
        head: The pooling mode and the modules of a folder without a classifier: of each Dense its
            outputs, bias and activation, and None for a LayerNorm.
    """
    if family == "qwen3":
        return _write_language_model(folder, config or {}, saved, tokens, template)
    name, prefix, tokenizer_class = CLASSES[family]
    if family == "bert":
        write_model(folder, config=config)
    elif family == "modernbert":
        write_modernbert(folder, config=config)
    else:
        write_encoder(folder, family, **(config or {}))
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in KEPT:
            path.unlink()
    settings = edit_json(
        folder / "config.json",
        architectures=[f"{name}ForSequenceClassification"],
        id2label={str(label): f"LABEL_{label}" for label in range(labels)},
    )
    inputs = {"model_input_names": ["input_ids", "attention_mask"]}
    edit_json(
        folder / "tokenizer_config.json",
        tokenizer_class=tokenizer_class,
        model_max_length=LIMITS.get(family, LIMIT),
        **(inputs if tokenizer_class == GENERIC else {}),
        **(tokenizer or {}),
    )
    document = read_json(folder / "tokenizer.json")
    pair = document["post_processor"]["pair"]
    separators = 2 if family in DOUBLE else 1
    position = next(index for index, piece in enumerate(pair) if _is_second(piece))
    # The single template's last piece, which the others have between and after the texts.
    end = document["post_processor"]["single"][-1]
    closing = {"SpecialToken": {**end["SpecialToken"], "type_id": 1}}
    document["post_processor"]["pair"] = [*pair[:2], *[end] * separators, pair[position], closing]
    edit_json(folder / "tokenizer.json", **document)
    encoder = load_file(folder / "model.safetensors")
    if head:
        edit_json(folder / "config.json", architectures=[f"{name}Model"])
        _write_saved(folder, saved or {})
        _write_head(folder, *head, width=settings["hidden_size"])
        return folder
    tensors = {f"{prefix}{name}": tensor for name, tensor in encoder.items()}
    size = settings.get("hidden_size") or settings["dim"]
    save_file(tensors | _head(family, settings, size, labels), folder / "model.safetensors")
    if saved is not None:
        _write_saved(folder, saved)
    return folder


def _write_language_model(
    folder: Path,
    config: Mapping[str, Any],
    saved: Mapping[str, Any] | None,
    tokens: Mapping[str, Any] | None,
    template: str,
) -> Path:
    """Write a Qwen3 with the tokens yes and no, and tokens that reach over the parts of a pair."""
    limit = 800
    merges = ("e s", "y es", "n o", "? \u010a", "\u0120 a")
    size = 256 + len(SPECIALS) + len(merges)
    write_llama(
        folder, config={"vocab_size": size, "max_position_embeddings": limit, **config}, newer=True
    )
    (folder / "config_sentence_transformers.json").unlink()
    for name in ("modules.json", "sentence_bert_config.json", "1_Pooling/config.json"):
        (folder / name).unlink()
    document = read_json(folder / "tokenizer.json")
    vocabulary = document["model"]["vocab"]
    for number, merge in enumerate(merges):
        vocabulary[merge.replace(" ", "")] = 256 + len(SPECIALS) + number
    document["model"]["merges"] = list(merges)
    edit_json(folder / "tokenizer.json", **document)
    edit_json(folder / "tokenizer_config.json", model_max_length=limit)
    tensors = load_file(folder / "model.safetensors")
    head = {}
    if not config.get("tie_word_embeddings", True):
        random = np.random.default_rng(9)
        table = tensors["embed_tokens.weight"]
        head = {"lm_head.weight": random.standard_normal(table.shape).astype(np.float32)}
    save_file(
        {f"model.{name}": tensor for name, tensor in tensors.items()} | head,
        folder / "model.safetensors",
    )
    if saved is None:
        edit_json(folder / "tokenizer_config.json", chat_template=template)
        return folder
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    text = {"method": "forward", "method_output_name": "logits"}
    _write_saved(folder, saved)
    edit_json(
        folder / "sentence_bert_config.json",
        transformer_task="text-generation",
        modality_config={"text": text, "message": {**text, "format": "flat"}},
        module_output_name="causal_logits",
        processing_kwargs={"chat_template": {"add_generation_prompt": True}},
    )
    kind = "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"
    write_modules(folder, (TRANSFORMER, ""), (kind, "1_LogitScore"))
    tokens = tokens or {"true_token_id": 260, "false_token_id": 261}
    write_json(folder / "1_LogitScore" / "config.json", tokens)
    return folder


TRANSFORMER = "sentence_transformers.base.modules.transformer.Transformer"
#: Limits in tokens; a cross-encoder's tokenizer states no more than the model has positions.
LIMITS = {"bert": 40, "modernbert": 320}
#: The families with two separators between the texts.
DOUBLE = ("roberta", "xlm-roberta", "camembert")
#: The files of an embedding model's folder that a cross-encoder also has.
KEPT = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def _is_second(piece: Mapping[str, Any]) -> bool:
    return bool(piece.get("Sequence", {}).get("id") == "B")


def _head(family: str, config: Mapping[str, Any], size: int, labels: int) -> Tensors:
    random = np.random.default_rng(7)
    dense, out = {
        "albert": ("albert.pooler", "classifier"),
        "bert": ("", "classifier"),
        "distilbert": ("pre_classifier", "classifier"),
        "gte": ("gte.pooler.dense", "classifier"),
        "modernbert": ("head.dense", "classifier"),
    }.get(family, ("classifier.dense", "classifier.out_proj"))
    shapes: dict[str, tuple[int, ...]] = {f"{out}.weight": (labels, size), f"{out}.bias": (labels,)}
    if dense:
        shapes[f"{dense}.weight"] = (size, size)
        shapes[f"{dense}.bias"] = (size,)
    if family == "modernbert":
        shapes |= {"head.norm.weight": (size,), "head.norm.bias": (size,)}
        if not config["classifier_bias"]:
            del shapes["head.dense.bias"]
        if not config["norm_bias"]:
            del shapes["head.norm.bias"]
    return {name: normal(random, *shape, scale=0.4) for name, shape in shapes.items()}


def _write_saved(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write what sentence-transformers 6 adds when it saves a CrossEncoder."""
    write_modules(folder, (TRANSFORMER, ""))
    edit_json(
        folder / "sentence_bert_config.json",
        transformer_task="sequence-classification",
        modality_config={"text": {"method": "forward", "method_output_name": "logits"}},
        module_output_name="scores",
    )
    write_model_settings(folder, **{"prompts": {}, "model_type": "CrossEncoder", **settings})


def _write_head(
    folder: Path,
    pooling: str | list[str],
    layers: Sequence[tuple[int, bool, str | None] | None],
    *,
    width: int,
) -> None:
    """Write the modules of a head, as sentence-transformers 6 saves them."""
    write_json(folder / "sentence_bert_config.json", ENCODER)
    random = np.random.default_rng(8)
    embedding = "sentence_embedding"
    package = "sentence_transformers.sentence_transformer.modules"
    width, pooled = width * (1 if isinstance(pooling, str) else len(pooling)), width
    mode = {"embedding_dimension": pooled, "pooling_mode": pooling, "include_prompt": True}
    written: list[tuple[str, dict[str, Any], Tensors]] = [(f"{package}.pooling.Pooling", mode, {})]
    for number, layer in enumerate(layers, start=1):
        if layer is None:
            weight, bias = random.standard_normal((2, width)).astype(np.float32)
            tensors = {"norm.weight": weight, "norm.bias": bias}
            written.append((f"{package}.layer_norm.LayerNorm", {"dimension": width}, tensors))
            continue
        outputs, biased, activation = layer
        values = {
            "in_features": width,
            "out_features": outputs,
            "bias": biased,
            "activation_function": f"torch.nn.modules.{activation or 'activation.Tanh'}",
            "module_input_name": embedding,
            "module_output_name": "scores" if number == len(layers) else embedding,
        }
        weights = normal(random, outputs, width + 1, scale=0.4)
        tensors = {"linear.weight": np.ascontiguousarray(weights[:, :width])}
        if biased:
            tensors["linear.bias"] = np.ascontiguousarray(weights[:, width])
        written.append(("sentence_transformers.base.modules.dense.Dense", values, tensors))
        width = outputs
    modules = [(TRANSFORMER, "")]
    for number, (kind, values, tensors) in enumerate(written, start=1):
        path = f"{number}_{kind.rpartition('.')[2]}"
        modules.append((kind, path))
        write_json(folder / path / "config.json", values)
        if tensors:
            save_file(tensors, folder / path / "model.safetensors")
    write_modules(folder, *modules)
