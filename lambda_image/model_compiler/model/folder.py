"""Reads a sentence-transformers folder into typed values, without its weights.

`modules.json` lists an encoder, a pooling and other modules; `config.json` describes the encoder;
`config_sentence_transformers.json` has the prompts. Folders of sentence-transformers 2 to 6 are
supported.
"""

import json
import math
import os
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Self

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.adapter import ADAPTER_FILE, MERGE
from model_compiler.files.config import CLASSIFIER, ConfigFile, conversion, harmless, inner_path
from model_compiler.files.folder import ConfigFolder, file_sha256, files_in
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

MODULES_FILE, ROUTER_FILE = "modules.json", "router_config.json"
SETTINGS_FILE = "config_sentence_transformers.json"
#: bge-m3's sparse head, which FlagEmbedding has as a pickle.
SPARSE_HEAD, SPARSE_PICKLE = "sparse_linear.safetensors", "sparse_linear.pt"
#: The files and keys by which a CrossEncoder says that it is one.
CROSS_ENCODER_KEYS = (
    (SETTINGS_FILE, "model_type"),
    ("config.json", "sentence_transformers"),
    ("config.json", "sbert_ce_default_activation_function"),
)
LANGUAGE_MODEL = "ForCausalLM"

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
    """The result of a Transformer module, as its file states it."""

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


class Module(NamedTuple):
    """An entry of `modules.json`: the name of its class, and its folder."""

    kind: str
    folder: ConfigFolder


@dataclass(frozen=True)
class ModelFolder(ConfigFolder):
    """The folder of a model, and what its files say that it is. Each of them is read once.

    A property whose file is missing or damaged raises the error; the docstring names exceptions.
    """

    #: The paths of all files, with slashes; also of those of a hub that were not downloaded.
    files: frozenset[str] = frozenset()
    #: Whether all of them are in the folder.
    complete: bool = True

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a folder in which all files are."""
        return cls(path, files=frozenset(files_in(path)))

    @property
    def has_modules(self) -> bool:
        """Whether it has a `modules.json`."""
        return self.has(MODULES_FILE)

    @cached_property
    def modules(self) -> tuple[Module, ...]:
        """The modules, of which none has code of its own, an argument or an unknown setting."""
        path = self.path / MODULES_FILE
        if not self.has_modules:
            raise self._no_modules()
        modules = self.json(MODULES_FILE)
        if not isinstance(modules, list) or not all(map(_is_module, modules)):
            raise SourceError(f"{path} must list modules, each with a type and a path.")
        names = [str(module["name"]) for module in modules if "name" in module]
        if len(set(names)) < len(names):
            raise UnsupportedModelError(
                f"{path}: each module must have a name of its own, because sentence-transformers "
                f"replaces a module by the next one of its name; found {', '.join(names)}."
            )
        return tuple(self._module(path, module) for module in modules)

    @property
    def kinds(self) -> list[str]:
        """The class names of the modules."""
        return [module.kind for module in self.modules]

    def _no_modules(self) -> SourceError:
        if self.has(SPARSE_PICKLE):
            pickle, target = self.path / SPARSE_PICKLE, self.path / SPARSE_HEAD
            return SourceError(
                f"{pickle} is a pickle, which can run any code and is never opened. "
                f"For sparse vectors, convert it with: {conversion(pickle, target)}"
            )
        names = sorted(path.name for path in self.path.iterdir())
        listed = ", ".join(names[:8]) or "an empty folder"
        architecture = self.plain_architecture and (
            f" Its architecture is {self.plain_architecture}; without modules.json, only one that "
            f"ends in {CLASSIFIER} is read."
        )
        return SourceError(
            f"{self} is not a sentence-transformers folder: it has no modules.json. "
            f"Found {listed}{', ...' if len(names) > 8 else ''}.{architecture}"
        )

    def _module(self, path: Path, module: dict[str, Any]) -> Module:
        package, _, kind = module["type"].rpartition(".")
        if package.partition(".")[0] != "sentence_transformers":
            raise UnsupportedModelError(
                f"{path} asks for the module {module['type']!r}, which is not one of "
                "sentence-transformers. It is code of the model's own, for which "
                "sentence-transformers needs trust_remote_code; the compiler never runs such code."
            )
        settings = {"kwargs", "name", "path", "type"} | harmless(MODULES_FILE)
        if unknown := sorted(set(module) - settings):
            raise UnsupportedModelError(
                f"{path}: the module {kind} has settings that the compiler does not know: "
                f"{', '.join(unknown)}."
            )
        if module.get("kwargs"):
            raise UnsupportedModelError(
                f"{path}: the module {kind} takes the arguments {module['kwargs']} at run time, "
                "which the compiler cannot express."
            )
        inner_path(self.path, module["path"], where=path)
        return Module(kind, self.within(module["path"]))

    @cached_property
    def chain(self) -> tuple[Module, ...]:
        """The modules of an embedding model: an encoder, its pooling, and what follows."""
        kinds = self.kinds
        config = _transformer_file(self.modules[0].folder) if kinds[:1] == ["Transformer"] else None
        # BERT's own pooling.
        pooled = config is not None and config.optional("modality_config") == POOLED.modalities
        start = ["Transformer"] if pooled else ["Transformer", "Pooling"]
        later = set(kinds[len(start) :])
        if kinds[: len(start)] != start or later - {"Dense", "Dropout", "Normalize"}:
            raise UnsupportedModelError(
                f"{self.path / MODULES_FILE} lists {', '.join(kinds) or 'no modules'}; the "
                "compiler can express a Transformer, then a Pooling, then any number of Dense, "
                "Dropout and Normalize."
            )
        return self.modules

    @property
    def encoder(self) -> ConfigFolder:
        """The folder of the first module, which must be a Transformer; or else the model's."""
        return self.chain[0].folder if self.has_modules else self

    @property
    def is_pooled(self) -> bool:
        """Whether the encoder returns one vector per text.

        sentence-transformers 6 states this in `sentence_bert_config.json`, without a Pooling.
        """
        return len(self.chain) == 1 or self.chain[1].kind != "Pooling"

    @property
    def is_normalized(self) -> bool:
        """Whether the last module is a Normalize."""
        return [module.kind for module in self.chain if module.kind != "Dropout"][-1] == "Normalize"

    @property
    def is_router(self) -> bool:
        """Whether its modules begin with routes, of which each is a model."""
        return self.has_modules and self.kinds[:1] == ["Router"]

    @property
    def is_static(self) -> bool:
        """Whether it is a table with a vector per token: a module's, or model2vec's."""
        if self.has_modules:
            return self.kinds[:1] == ["StaticEmbedding"]
        config = self.config("config.json", optional=True)
        return bool(config.optional("model_type") == "model2vec")

    @property
    def is_sparse(self) -> bool:
        """Whether it is a sparse encoder.

        sentence-transformers' folders say so. bge-m3 has modules of its dense vectors, so a folder
        without modules, and with its sparse head, is of the sparse ones.
        """
        if self.has_modules or not self.has(SPARSE_HEAD):
            return self.stated(SETTINGS_FILE, "model_type") == "SparseEncoder"
        return True

    @property
    def is_cross_encoder(self) -> bool:
        """Whether its model scores pairs of texts.

        One of older versions has no modules.json, and a classifier's architecture, or that of a
        language model with a template for a query and a document.
        """
        model_type = self.stated(SETTINGS_FILE, "model_type")
        if isinstance(model_type, str) or self.has_modules:
            return model_type == "CrossEncoder"
        if self.plain_architecture.endswith(LANGUAGE_MODEL):
            return re.search(r"""(["'])document\1""", template_text(self) or "") is not None
        return self.plain_architecture.endswith(CLASSIFIER)

    @property
    def scoring_task(self) -> str | None:
        """The task of a model that gives scores: `rerank` or `classify`; None of another model.

        A plain classifier with one label is a reranker, and so is what sentence-transformers'
        CrossEncoder saved.
        """
        if not self.is_cross_encoder:
            return None
        if not self.plain_architecture.endswith(CLASSIFIER) or any(
            self.stated(*key) is not None for key in CROSS_ENCODER_KEYS
        ):
            return "rerank"
        names = self.stated("config.json", "id2label")
        # Without names, transformers takes two labels.
        number = self.stated("config.json", "num_labels") if names is None else None
        one = number == 1 or (isinstance(names, dict) and len(names) == 1)
        return "rerank" if one else "classify"

    @property
    def plain_architecture(self) -> str:
        """The architecture of a folder without modules.json, as `config.json` says; else ""."""
        names = self.stated("config.json", "architectures")
        if self.has_modules or not (isinstance(names, list) and names):
            return ""
        return names[0] if isinstance(names[0], str) else ""

    @cached_property
    def adapters(self) -> tuple[Path, ...]:
        """The adapters: at its root, and in its modules' folders; none in damaged modules.

        In other folders a trainer keeps its checkpoints.
        """
        folders: list[ConfigFolder] = [self]
        try:
            for _, folder in self.modules:
                routes = folder.stated(ROUTER_FILE, "types")
                names = routes if isinstance(routes, dict) else ()
                for name in names:
                    inner_path(folder.path, name, where=folder.path / ROUTER_FILE)
                folders += [folder, *map(folder.within, names)]
        except (SourceError, UnsupportedModelError):
            pass  # what reads the modules reports it
        unique = dict.fromkeys(folder.path for folder in folders if folder.has(ADAPTER_FILE))
        return tuple(path / ADAPTER_FILE for path in unique)

    def check_adapters(self, name: str | None = None) -> None:
        """Check that only its encoder has an adapter; `name` is the model's in the error."""
        for adapter in self.adapters:
            encoder = self.modules[:1] if self.has_modules else ()
            own = [(module.kind, module.folder.path) for module in encoder]
            if own not in ([], [("Transformer", adapter.parent)]):
                raise UnsupportedModelError(
                    f"{name or self.path} has an adapter ({adapter.relative_to(self.path)}) "
                    f"besides its encoder; the compiler merges one of the encoder. {MERGE}"
                )

    @cached_property
    def has_weights(self) -> bool:
        """Whether it has weights where its encoder is: in the first module's folder.

        Of damaged modules, weights anywhere: the error about them is more useful.
        """
        weights = [path for path in map(PurePosixPath, self.files) if ".safetensors" in path.name]
        if not self.has_modules:
            return any(len(path.parts) == 1 for path in weights)
        try:
            encoder = self.modules[0] if self.modules else Module("", self)
        except (SourceError, UnsupportedModelError):
            return bool(weights)
        if encoder.kind == "Router":  # whose routes have encoders
            return bool(weights)
        inside = PurePosixPath(os.path.relpath(encoder.folder.path, self.path))
        return any(path.parent == inside for path in weights)

    @cached_property
    def why_not_compiled(self) -> str | None:
        """Why the compiler cannot express the model; None if it can.

        Of a missing or damaged configuration None, because the error about it is more useful.
        """
        try:
            if not self.is_static:
                architectures.parse(self.encoder.config("config.json"))
        except UnsupportedModelError as error:
            return self.relative(error)
        except SourceError:
            pass
        return None

    def relative(self, error: Exception) -> str:
        """Return a message for the manifest, which must not depend on where the folder is."""
        return str(error).replace(f"{self.path}{os.sep}", "")


def _is_module(module: Any) -> bool:
    keys = ("type", "path")
    return isinstance(module, dict) and all(isinstance(module.get(key), str) for key in keys)


def _transformer_file(encoder: ConfigFolder) -> ConfigFile | None:
    """Open the Transformer module's own file, by the name that it has; None without one."""
    for name in TRANSFORMER_FILES:
        if encoder.has(name) and len(config := encoder.config(name)):
            return config
    return None


def read_model_folder(
    folder: Path | ModelFolder, precision: Precision = Precision.INT8, *, export: Path | None = None
) -> CompiledModel:
    """Read the folder of an embedding model, or the one at a path, compiled to `precision`.

    `export` has the encoder's weights as initializers, if there are no others.
    """
    folder = ModelFolder.read(folder) if isinstance(folder, Path) else folder
    encoder = folder.encoder
    if folder.is_pooled:
        raise UnsupportedModelError(
            f"{folder} takes its vectors from BERT's own pooling (pooler_output), which the "
            "compiler can only take from a ready ONNX export."
        )
    architecture = architectures.parse(encoder.config("config.json"))
    head = read_head(folder, hidden_size=architecture.hidden_size)
    tokenizer = read_tokenizer(encoder, vocabulary_size=architecture.vocabulary_size)
    return CompiledModel(
        family=architecture.name,
        dimensions=head.dimensions,
        vocabulary_size=architecture.vocabulary_size,
        max_tokens=read_max_tokens(encoder, tokenizer, max_positions=architecture.max_positions),
        prompts=read_prompts(folder, normalized=head.normalized),
        tokenizer=tokenizer,
        normalized=head.normalized,
        encoder=encoder,
        export=export,
        architecture=architecture,
        head=head,
        precision=precision,
    )


def read_head(folder: ModelFolder, *, hidden_size: int) -> Head:
    """Read the modules after the encoder."""
    pooling, dimensions = None, hidden_size
    if not folder.is_pooled:
        pooling = read_pooling(folder.chain[1].folder, hidden_size=hidden_size)
        dimensions = pooling.dimensions(hidden_size)
    layers: list[Dense] = []
    normalized = False
    for kind, inner in folder.chain[2 if pooling else 1 :]:
        if kind == "Dense":
            dense = read_dense(inner, inputs=dimensions)
            layers.append(replace(dense, normalizes=normalized))
            dimensions, normalized = dense.outputs, False
        elif kind == "Normalize":
            read_normalize(inner)
            normalized = True
        else:
            read_dropout(inner)
    return Head(
        pooling=pooling, modules=tuple(layers), dimensions=dimensions, normalized=normalized
    )


def read_max_tokens(
    folder: ConfigFolder,
    tokenizer: TokenizerFile,
    *,
    max_positions: int | None,
    output: Output = UNPOOLED,
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
    folder: ModelFolder, *, model_type: str = "SentenceTransformer", normalized: bool
) -> Prompts:
    """Read the prompts, and reject a model that needs the lengths of its vectors.

    The embedder's always have length 1, which keeps cosines and changes dot products and distances;
    `normalized` says that the model's own have it too.
    """
    config = folder.config(SETTINGS_FILE, optional=True)
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
    config.done(SETTINGS_FILE)
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


def read_family(config: ConfigFile, kind: str, families: Collection[str]) -> str:
    """Return the `model_type`, of which the compiler must be able to express models of a kind."""
    family = config.string("model_type")
    if family not in families:
        raise UnsupportedModelError(
            f"{config.path}: the compiler cannot express a {kind} of model_type {family!r}; it can "
            f"of {', '.join(sorted(families))}."
        )
    return family
