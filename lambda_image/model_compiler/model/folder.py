"""Reads a sentence-transformers folder into typed values, without its weights.

The folder's format is the ecosystem's: `modules.json` lists an encoder, a pooling and what follows;
`config.json` describes the encoder; `config_sentence_transformers.json` has the prompts. Folders of
sentence-transformers 2 to 6 are read.
"""

import json
import math
from pathlib import Path
from typing import Any

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.config import ConfigFile, inner_path, read_json
from model_compiler.graph import architectures
from model_compiler.graph.quantization import Precision
from model_compiler.model.base import Prompts
from model_compiler.model.compiled import CompiledModel
from model_compiler.model.modules import (
    Head,
    read_dense,
    read_normalize,
    read_pooling,
)
from model_compiler.tokenizer.file import TokenizerFile, read_tokenizer

__all__ = [
    "encoder_folder_of",
    "is_normalized",
    "is_pooled",
    "read_head",
    "read_max_tokens",
    "read_model_folder",
    "read_prompts",
]

#: The prompts that sentence-transformers takes for documents, in its order, where a model names
#: no default. What is embedded without a word is a document; a missing prompt is a silent loss.
DOCUMENT_PROMPTS = ("document", "passage", "corpus")

#: Settings of a Transformer module that do not change a dense embedding: how it is loaded, and a
#: layout that computes the same.
HARMLESS_TRANSFORMER_KEYS = frozenset(
    {"config_args", "config_kwargs", "model_args", "model_kwargs", "unpad_inputs"}
)


#: What the Transformer module takes from the model: each token's vector, or the pooler's one.
UNPOOLED = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
POOLED = {"text": {"method": "forward", "method_output_name": "pooler_output"}}


def read_model_folder(folder: Path, precision: Precision = Precision.INT8) -> CompiledModel:
    """Read a folder whose weights are compiled to `precision`.

    Raises:
        SourceError: If it is not such a folder, or a file is missing or wrong.
        UnsupportedModelError: If the compiler cannot express a part of the model.
    """
    encoder_folder = encoder_folder_of(folder)
    if is_pooled(folder):
        raise UnsupportedModelError(
            f"{folder} takes its vectors from BERT's own pooling (pooler_output), which the "
            "compiler can only take from a ready ONNX export."
        )
    architecture = architectures.parse(ConfigFile(encoder_folder / "config.json"))
    head = read_head(folder, hidden_size=architecture.hidden_size)
    tokenizer = read_tokenizer(
        encoder_folder / "tokenizer.json", vocabulary_size=architecture.vocabulary_size
    )
    return CompiledModel(
        family=architecture.name,
        dimension=head.dimension,
        vocabulary_size=architecture.vocabulary_size,
        max_tokens=read_max_tokens(
            encoder_folder, tokenizer, max_positions=architecture.max_positions
        ),
        prompts=read_prompts(folder, normalized=head.normalized),
        tokenizer=tokenizer,
        normalized=head.normalized,
        encoder_folder=encoder_folder,
        architecture=architecture,
        head=head,
        precision=precision,
    )


def encoder_folder_of(folder: Path) -> Path:
    """Return the folder of the first module, which must be a Transformer.

    Raises:
        SourceError: if the folder is no sentence-transformers folder.
        UnsupportedModelError: if the modules are not ones that the compiler can express.
    """
    return _modules(folder)[0][1]


def read_head(folder: Path, *, hidden_size: int) -> Head:
    """Read what stands behind the encoder.

    Raises:
        SourceError: if a module's folder is not whole, or does not fit the one before it.
        UnsupportedModelError: if a module is not one that the compiler can express.
    """
    modules = _modules(folder)
    pooling, size = None, hidden_size
    if not is_pooled(folder):
        pooling = read_pooling(modules[1][1], hidden_size=hidden_size)
        size = pooling.size(hidden_size)
    dense = []
    for kind, path in modules[2 if pooling else 1 :]:
        if kind == "Dense":
            dense.append(read_dense(path, inputs=size))
            size = dense[-1].outputs
        else:
            read_normalize(path)
    return Head(
        pooling=pooling,
        dense=tuple(dense),
        dimension=size,
        normalized=is_normalized(folder),
    )


def is_normalized(folder: Path) -> bool:
    """Say whether the last module is a Normalize; raises as `read_head`."""
    return _modules(folder)[-1][0] == "Normalize"


def is_pooled(folder: Path) -> bool:
    """Say whether the encoder gives one vector for a text; raises as `read_head`.

    sentence-transformers 6 writes so in `sentence_bert_config.json`; then there is no Pooling.
    """
    return len(_modules(folder)) == 1 or _modules(folder)[1][0] != "Pooling"


def _modules(folder: Path) -> list[tuple[str, Path]]:
    """Return the class name and the folder of each module."""
    path = folder / "modules.json"
    if not path.exists():
        raise SourceError(
            f"{folder} is not a sentence-transformers folder: it has no modules.json. "
            f"Found {_listing(folder)}."
        )
    modules = read_json(path)
    if not isinstance(modules, list) or not all(_is_module(module) for module in modules):
        raise SourceError(f"{path} must list modules, each with a type and a path.")
    found = [_module(folder, path, module) for module in modules]
    kinds = [kind for kind, _ in found]
    pooled = _is_pooler_output(found[0][1]) if kinds[:1] == ["Transformer"] else False
    start = ["Transformer"] if pooled else ["Transformer", "Pooling"]
    if kinds[: len(start)] != start or set(kinds[len(start) :]) - {"Dense", "Normalize"}:
        raise UnsupportedModelError(
            f"{path} lists {', '.join(kinds) or 'no modules'}; the compiler can express a "
            "Transformer, then a Pooling, then any number of Dense, then a Normalize."
        )
    if "Normalize" in kinds[:-1]:
        raise UnsupportedModelError(
            f"{path} has a Normalize before its last module; the compiler normalises at the end."
        )
    return found


def _is_pooler_output(encoder: Path) -> bool:
    """Say whether the encoder's `sentence_bert_config.json` asks for BERT's own pooling."""
    path = encoder / "sentence_bert_config.json"
    return path.exists() and ConfigFile(path).optional("modality_config") == POOLED


def _is_module(module: Any) -> bool:
    return (
        isinstance(module, dict)
        and isinstance(module.get("type"), str)
        and isinstance(module.get("path"), str)
    )


def _module(folder: Path, path: Path, module: dict[str, Any]) -> tuple[str, Path]:
    package, _, kind = module["type"].rpartition(".")
    if package.partition(".")[0] != "sentence_transformers":
        raise UnsupportedModelError(
            f"{path} asks for the module {module['type']!r}, which is not one of "
            "sentence-transformers; the compiler runs no code of a model."
        )
    if module.get("kwargs"):
        raise UnsupportedModelError(
            f"{path}: the module {kind} takes the arguments {module['kwargs']} at run time, "
            "which the compiler cannot express."
        )
    return kind, inner_path(folder, module["path"], where=path)


def read_max_tokens(
    folder: Path, tokenizer: TokenizerFile, *, max_positions: int | None, pooled: bool = False
) -> int:
    """Return the model's limit in tokens, special tokens included.

    It is `max_seq_length` of `sentence_bert_config.json`; newer folders keep it as
    `model_max_length` of `tokenizer_config.json`. It is never more than the model has positions.
    The truncation and padding in `tokenizer.json` are what its last user left there.

    Args:
        folder: the encoder's.
        tokenizer: its tokenizer.
        max_positions: how many positions the model has; None where `config.json` does not say.
        pooled: whether the encoder gives one vector for a text.

    Raises:
        SourceError: if no file states a limit, or one states something else than a number.
        UnsupportedModelError: if a setting would change what the encoder computes.
    """
    stated = None
    path = folder / "sentence_bert_config.json"
    if path.exists():
        config = ConfigFile(path)
        stated = config.optional("max_seq_length")
        if stated is not None and (type(stated) is not int or stated < 1):
            config.refuse("max_seq_length", "an integer of at least 1, or null", stated)
        _check_transformer(config, tokenizer, pooled=pooled)
    if stated is None and (folder / "tokenizer_config.json").exists():
        # Where a tokenizer has no limit of its own, transformers writes a number of 31 digits.
        config = ConfigFile(folder / "tokenizer_config.json")
        stated = config.optional("model_max_length")
        if stated is not None and (type(stated) not in {int, float} or stated < 1):
            config.refuse("model_max_length", "a number of at least 1, or null", stated)
    limits = [limit for limit in (max_positions, stated) if limit is not None]
    if not limits or min(limits) == math.inf:
        raise SourceError(
            f"{folder} states no limit of tokens: config.json has no max_position_embeddings, "
            "sentence_bert_config.json no max_seq_length, tokenizer_config.json no "
            "model_max_length."
        )
    return int(min(limits))


def _check_transformer(config: ConfigFile, tokenizer: TokenizerFile, *, pooled: bool) -> None:
    """Refuse settings of the Transformer module that would change what it computes."""
    config.require("transformer_task", "feature-extraction", None)
    config.require("modality_config", POOLED if pooled else UNPOOLED, None)
    name = "sentence_embedding" if pooled else "token_embeddings"
    config.require("module_output_name", name, None)
    for key in ("processing_kwargs", "tokenizer_args", "processor_kwargs", "query_expansion"):
        config.require(key, {}, None)
    for key in ("query_length", "document_length"):
        config.require(key, None)
    if config.optional("do_lower_case") and not tokenizer.lowercases:
        raise UnsupportedModelError(
            f"{config.path}: do_lower_case is true and tokenizer.json does not lower the case; "
            "the compiler takes the tokenizer as it is."
        )
    config.ignore(HARMLESS_TRANSFORMER_KEYS)
    config.done()


def read_prompts(folder: Path, *, normalized: bool) -> Prompts:
    """Read the prompts, and refuse a model whose vectors need their lengths.

    Args:
        folder: the model's.
        normalized: whether the model's own vectors have length 1. If not, the embedder's still do,
            which keeps cosines and changes dot products and distances.
    """
    path = folder / "config_sentence_transformers.json"
    if not path.exists():
        return Prompts(texts={}, default=None)
    config = ConfigFile(path)
    texts = config.optional("prompts") or {}
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        config.refuse("prompts", "an object of strings", texts)
    default = config.optional("default_prompt_name")
    if default is not None and (not isinstance(default, str) or default not in texts):
        config.refuse("default_prompt_name", f"one of {sorted(texts)}", default)
    config.require("model_type", "SentenceTransformer", None)
    if not normalized:
        stated = config.optional("similarity_fn_name")
        if stated not in ("cosine", None):
            raise UnsupportedModelError(
                f"{config.path}: similarity_fn_name is {json.dumps(stated)}, and modules.json has "
                'no Normalize. The embedder gives vectors of length 1, which only "cosine" allows.'
            )
    config.ignore(frozenset({"__version__", "similarity_fn_name", "truncate_dim"}))
    config.done()
    if default is None:
        default = next((name for name in DOCUMENT_PROMPTS if name in texts), None)
    return Prompts(texts=texts, default=default)


def _listing(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    return (", ".join(names[:8]) or "an empty folder") + (", ..." if len(names) > 8 else "")
