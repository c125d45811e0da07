"""Reads a sentence-transformers folder into typed values, without its weights.

`modules.json` lists an encoder, a pooling and other modules; `config.json` describes the encoder;
`config_sentence_transformers.json` has the prompts. Folders of sentence-transformers 2 to 6 are
supported.
"""

import json
import math
import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.adapter import ADAPTER_FILE, MERGE
from model_compiler.files.config import ConfigFile, conversion, harmless, inner_path, read_json
from model_compiler.files.paths import file_sha256
from model_compiler.graph import architectures
from model_compiler.graph.builder import Precision
from model_compiler.model.base import Prompts
from model_compiler.model.compiled import CompiledModel
from model_compiler.model.modules import (
    Dense,
    Head,
    read_dense,
    read_dropout,
    read_normalize,
    read_pooling,
)
from model_compiler.tokenizer.file import TokenizerFile, read_tokenizer
from model_compiler.tokenizer.pairs import TEMPLATE_FILE, template_text

#: The names of document prompts in sentence-transformers, in its order, for models without a
#: default. Texts without a prompt name are treated as documents; embedding them without the
#: document prompt silently costs quality.
DOCUMENT_PROMPTS = ("document", "passage", "corpus")

#: The names of the Transformer module's file; sentence-transformers takes the first that says
#: anything.
TRANSFORMER_FILES = tuple(
    f"sentence_{name}_config.json"
    for name in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
#: Arguments for other programs' loaders of the model, its configuration and its tokenizer.
LOADER_KEYS = (
    "config_args",
    "config_kwargs",
    "model_args",
    "model_kwargs",
    "processor_kwargs",
    "query_expansion",
    "tokenizer_args",
)

#: The templates of chats that add nothing to a text and its prompt, by the SHA-256 of their file.
PLAIN_TEMPLATES = frozenset(
    # google/embeddinggemma-2
    {"4b852efc0b9960283e735363331e6f325b33bc74bdbaa076f595bc4e9b94d85e"}
)


class Output(NamedTuple):
    """What a Transformer module gives, as its file states it."""

    task: str
    method: str
    name: str

    @property
    def modalities(self) -> dict[str, Any]:
        """The value of `modality_config`."""
        text = {"method": "forward", "method_output_name": self.method}
        if self.task == "text-generation":  # a pair becomes messages, and the template their text
            return {"text": text, "message": {**text, "format": "flat"}}
        return {"text": text}


#: A vector per token, the pooler's, a classifier's logits, or those of the next token.
UNPOOLED = Output("feature-extraction", "last_hidden_state", "token_embeddings")
POOLED = Output("feature-extraction", "pooler_output", "sentence_embedding")
SCORES = Output("sequence-classification", "logits", "scores")
NEXT_TOKEN = Output("text-generation", "logits", "causal_logits")


def read_model_folder(
    folder: Path, precision: Precision = Precision.INT8, *, export: Path | None = None
) -> CompiledModel:
    """Read a folder of weights that are compiled to `precision`.

    `export` has the encoder's weights as initializers, if there are no others.
    """
    encoder_folder = encoder_folder_of(folder)
    if is_pooled(folder):
        raise UnsupportedModelError(
            f"{folder} takes its vectors from BERT's own pooling (pooler_output), which the "
            "compiler can only take from a ready ONNX export."
        )
    architecture = architectures.parse(ConfigFile(encoder_folder / "config.json"))
    head = read_head(folder, hidden_size=architecture.hidden_size)
    tokenizer = read_tokenizer(encoder_folder, vocabulary_size=architecture.vocabulary_size)
    return CompiledModel(
        family=architecture.name,
        dimensions=head.dimensions,
        vocabulary_size=architecture.vocabulary_size,
        max_tokens=read_max_tokens(
            encoder_folder, tokenizer, max_positions=architecture.max_positions
        ),
        prompts=read_prompts(folder, normalized=head.normalized),
        tokenizer=tokenizer,
        normalized=head.normalized,
        encoder_folder=encoder_folder,
        export=export,
        architecture=architecture,
        head=head,
        precision=precision,
    )


def encoder_folder_of(folder: Path) -> Path:
    """Return the folder of the first module, which must be a Transformer; or else the model's."""
    return _modules(folder)[0][1] if (folder / "modules.json").exists() else folder


def read_head(folder: Path, *, hidden_size: int) -> Head:
    """Read the modules after the encoder."""
    modules = _modules(folder)
    pooling, dimensions = None, hidden_size
    if not is_pooled(folder):
        pooling = read_pooling(modules[1][1], hidden_size=hidden_size)
        dimensions = pooling.dimensions(hidden_size)
    dense: list[Dense] = []
    normalized = False
    for kind, path in modules[2 if pooling else 1 :]:
        if kind == "Dense":
            module = read_dense(path, inputs=dimensions)
            dense.append(replace(module, normalizes=normalized))
            dimensions, normalized = module.outputs, False
        elif kind == "Normalize":
            read_normalize(path)
            normalized = True
        else:
            read_dropout(path)
    return Head(pooling=pooling, modules=tuple(dense), dimensions=dimensions, normalized=normalized)


def is_normalized(folder: Path) -> bool:
    """Return whether the last module is a Normalize."""
    return [kind for kind, _ in _modules(folder) if kind != "Dropout"][-1] == "Normalize"


def is_pooled(folder: Path) -> bool:
    """Return whether the encoder returns one vector per text.

    sentence-transformers 6 states this in `sentence_bert_config.json`, without a Pooling module.
    """
    return len(_modules(folder)) == 1 or _modules(folder)[1][0] != "Pooling"


def _modules(folder: Path) -> list[tuple[str, Path]]:
    """Return the class name and the folder of each module."""
    found = read_modules(folder)
    kinds = [kind for kind, _ in found]
    config = _transformer_file(found[0][1]) if kinds[:1] == ["Transformer"] else None
    # BERT's own pooling.
    pooled = config is not None and config.optional("modality_config") == POOLED.modalities
    start = ["Transformer"] if pooled else ["Transformer", "Pooling"]
    if kinds[: len(start)] != start or set(kinds[len(start) :]) - {"Dense", "Dropout", "Normalize"}:
        raise UnsupportedModelError(
            f"{folder / 'modules.json'} lists {', '.join(kinds) or 'no modules'}; the compiler can "
            "express a Transformer, then a Pooling, then any number of Dense, Dropout and "
            "Normalize."
        )
    return found


def _transformer_file(encoder: Path) -> ConfigFile | None:
    """Open the Transformer module's own file, by the name that it has; None without one."""
    for name in TRANSFORMER_FILES:
        if (encoder / name).exists() and len(config := ConfigFile(encoder / name)):
            return config
    return None


def read_max_tokens(
    folder: Path, tokenizer: TokenizerFile, *, max_positions: int | None, output: Output = UNPOOLED
) -> int:
    """Return the model's limit in tokens, including special tokens.

    It is `max_seq_length` of the Transformer module's file, or in newer folders `model_max_length`
    of `tokenizer_config.json`, and at most the number of positions, if that is known. The
    truncation and padding in `tokenizer.json` are leftovers of its last user and are ignored.
    """
    stated = None
    if config := _transformer_file(folder):
        stated = config.optional("max_seq_length")
        if stated is not None and (type(stated) is not int or stated < 1):
            config.fail("max_seq_length", "an integer of at least 1, or null", stated)
        _check_transformer(config, tokenizer, output)
    stated = tokenizer.max_tokens if stated is None else stated
    limits = [limit for limit in (max_positions, stated) if limit is not None]
    if not limits or min(limits) == math.inf:
        raise SourceError(
            f"{folder} states no limit of tokens: config.json has no max_position_embeddings, "
            "sentence_bert_config.json no max_seq_length, tokenizer_config.json no "
            "model_max_length."
        )
    return int(min(limits))


def _check_transformer(config: ConfigFile, tokenizer: TokenizerFile, output: Output) -> None:
    """Reject settings of the Transformer module that would change its output."""
    if output is NEXT_TOKEN:  # without these, sentence-transformers takes another output
        config.string("transformer_task")
        config.require("modality_config", output.modalities)
        # No template that the compiler knows has the generation prompt.
        prompts = [{"chat_template": {"add_generation_prompt": value}} for value in (False, True)]
    else:
        _check_modalities(config, output.modalities)
        prompts = []
    config.require("processing_kwargs", {}, None, *prompts)
    config.require("transformer_task", output.task, None)
    config.require("module_output_name", output.name, None)
    for key in LOADER_KEYS:
        config.require(key, {}, None)
    for key in ("query_length", "document_length"):
        config.require(key, None)
    if config.optional("do_lower_case") and not tokenizer.lowercases:
        raise UnsupportedModelError(
            f"{config.path}: do_lower_case is true, but tokenizer.json does not lowercase; "
            "the compiler does not change the tokenizer."
        )
    config.done("sentence_bert_config.json")


def _check_modalities(config: ConfigFile, expected: dict[str, Any]) -> None:
    """Check what a text passes; inputs of other kinds than texts do not matter."""
    stated = config.optional("modality_config")
    if not isinstance(stated, dict) or stated.get("text") != expected["text"]:
        config.require("modality_config", expected, None)
        return
    # sentence-transformers makes a message of a text, and the template a text of the message.
    template = config.path.parent / TEMPLATE_FILE
    if "message" in stated and not (
        template.is_file() and file_sha256(template) in PLAIN_TEMPLATES
    ):
        raise UnsupportedModelError(
            f"{config.path}: modality_config has message, so {TEMPLATE_FILE} changes each text; "
            "the compiler knows only that of embeddinggemma-2, which adds nothing."
        )


def read_prompts(
    folder: Path, *, model_type: str = "SentenceTransformer", normalized: bool
) -> Prompts:
    """Read the prompts, and reject a model that needs the lengths of its vectors.

    The embedder's always have length 1, which keeps cosines and changes dot products and distances;
    `normalized` says that the model's own have it too.
    """
    config = ConfigFile(folder / "config_sentence_transformers.json", optional=True)
    texts, default = read_named_prompts(config)
    config.require("model_type", model_type, None)
    if (shortened := config.optional("truncate_dim")) is not None:
        raise UnsupportedModelError(
            f"{config.path}: truncate_dim must be missing or null, because the embedder's default "
            f"is the full number of dimensions; found {json.dumps(shortened)}. Remove it, and "
            "offer the shorter vectors with --dimensions."
        )
    if not normalized:
        stated = config.optional("similarity_fn_name")
        if stated not in ("cosine", None):
            raise UnsupportedModelError(
                f"{config.path}: similarity_fn_name is {json.dumps(stated)}, and modules.json has "
                'no Normalize. The embedder gives vectors of length 1, which only "cosine" allows.'
            )
    config.done("config_sentence_transformers.json")
    if default is None:
        default = next((name for name in DOCUMENT_PROMPTS if name in texts), None)
    return Prompts(texts=texts, default=default)


def read_named_prompts(config: ConfigFile) -> tuple[dict[str, str], str | None]:
    """Return the prompts by name, and the name of the default; raises a SourceError."""
    texts = config.optional("prompts") or {}
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        config.fail("prompts", "an object of strings", texts)
    default = config.optional("default_prompt_name")
    if default is not None and (not isinstance(default, str) or default not in texts):
        config.fail("default_prompt_name", f"one of {sorted(texts)}", default)
    return texts, default


def read_modules(folder: Path) -> list[tuple[str, Path]]:
    """Return the class name and the folder of each module."""
    path = folder / "modules.json"
    if not path.exists():
        if (folder / PICKLED_HEAD).exists():
            raise SourceError(
                f"{folder / PICKLED_HEAD} is a pickle, which can run any code and is never opened. "
                "For sparse vectors, convert it with: "
                f"{conversion(folder / PICKLED_HEAD, folder / SPARSE_HEAD)}"
            )
        names = sorted(each.name for each in folder.iterdir())
        found = ", ".join(names[:8]) or "an empty folder"
        raise SourceError(
            f"{folder} is not a sentence-transformers folder: it has no modules.json. "
            f"Found {found}{', ...' if len(names) > 8 else ''}."
        )
    modules = read_json(path)
    if not isinstance(modules, list) or not all(_is_module(module) for module in modules):
        raise SourceError(f"{path} must list modules, each with a type and a path.")
    names = [str(module["name"]) for module in modules if "name" in module]
    if len(set(names)) < len(names):
        raise UnsupportedModelError(
            f"{path}: each module must have a name of its own, because sentence-transformers "
            f"replaces a module by the next one of its name; found {', '.join(names)}."
        )
    return [_module(folder, path, module) for module in modules]


def _is_module(module: Any) -> bool:
    keys = ("type", "path")
    return isinstance(module, dict) and all(isinstance(module.get(key), str) for key in keys)


def _module(folder: Path, path: Path, module: dict[str, Any]) -> tuple[str, Path]:
    package, _, kind = module["type"].rpartition(".")
    if package.partition(".")[0] != "sentence_transformers":
        raise UnsupportedModelError(
            f"{path} asks for the module {module['type']!r}, which is not one of "
            "sentence-transformers. It is code of the model's own, for which sentence-transformers "
            "needs trust_remote_code; the compiler never runs such code."
        )
    known = {"kwargs", "name", "path", "type"} | harmless("modules.json")
    if unknown := sorted(set(module) - known):
        raise UnsupportedModelError(
            f"{path}: the module {kind} has settings that the compiler does not know: "
            f"{', '.join(unknown)}."
        )
    if module.get("kwargs"):
        raise UnsupportedModelError(
            f"{path}: the module {kind} takes the arguments {module['kwargs']} at run time, "
            "which the compiler cannot express."
        )
    return kind, inner_path(folder, module["path"], where=path)


#: bge-m3's sparse head, which FlagEmbedding has as a pickle.
SPARSE_HEAD, PICKLED_HEAD = "sparse_linear.safetensors", "sparse_linear.pt"
CLASSIFIER, LANGUAGE_MODEL = "ForSequenceClassification", "ForCausalLM"


def adapters_of(folder: Path) -> list[Path]:
    """Return the adapters of a model: at its root, and in its modules' folders.

    In other folders a trainer keeps its checkpoints.
    """
    parts = [folder]
    try:
        for _, part in read_modules(folder):
            router = part / "router_config.json"
            inner = _read(router, "types")
            names = inner if isinstance(inner, dict) else ()
            parts += [part, *(inner_path(part, name, where=router) for name in names)]
    except (SourceError, UnsupportedModelError):
        pass  # what reads the modules reports it
    return [part / ADAPTER_FILE for part in dict.fromkeys(parts) if (part / ADAPTER_FILE).exists()]


def check_kind(folder: Path, *, name: str | None = None) -> None:
    """Check that a model has no adapter but its encoder's; `name` is the model's in the error."""
    for adapter in adapters_of(folder):
        listed = read_modules(folder)[:1] if (folder / "modules.json").exists() else []
        if listed and listed[0] != ("Transformer", adapter.parent):
            raise UnsupportedModelError(
                f"{name or folder} has an adapter ({adapter.relative_to(folder)}) besides its "
                f"encoder; the compiler merges one of the encoder. {MERGE}"
            )


def read_family(config: ConfigFile, kind: str, families: Collection[str]) -> str:
    """Return the `model_type`, of which the compiler must be able to express models of a kind."""
    family = config.string("model_type")
    if family not in families:
        raise UnsupportedModelError(
            f"{config.path}: the compiler cannot express a {kind} of model_type {family!r}; it can "
            f"of {', '.join(sorted(families))}."
        )
    return family


def is_sparse(folder: Path) -> bool:
    """Return whether a folder is a sparse encoder's.

    sentence-transformers' folders say so. bge-m3 has modules of its dense vectors, so a folder
    without modules, and with its sparse head, is of the sparse ones.
    """
    if (folder / "modules.json").exists() or not (folder / SPARSE_HEAD).exists():
        return _read(folder / "config_sentence_transformers.json", "model_type") == "SparseEncoder"
    return True


def is_cross_encoder(folder: Path) -> bool:
    """Return whether a folder's model scores pairs of texts.

    One of older versions has no modules.json, and a classifier's architecture, or that of a
    language model with a template for a query and a document.
    """
    stated = _read(folder / "config_sentence_transformers.json", "model_type")
    if isinstance(stated, str) or (folder / "modules.json").exists():
        return stated == "CrossEncoder"
    name = plain_architecture(folder)
    if name.endswith(LANGUAGE_MODEL):
        return re.search(r"""(["'])document\1""", template_text(folder) or "") is not None
    return name.endswith(CLASSIFIER)


def plain_architecture(folder: Path) -> str:
    """Return the architecture of a folder without modules.json, as `config.json` says; else ""."""
    names = _read(folder / "config.json", "architectures")
    if (folder / "modules.json").exists() or not (isinstance(names, list) and names):
        return ""
    return names[0] if isinstance(names[0], str) else ""


def _read(path: Path, key: str) -> object:
    """Return a value; None if it or the file is missing or damaged, which other readers report."""
    try:
        return ConfigFile(path).optional(key)
    except SourceError:
        return None
