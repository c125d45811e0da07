"""Static models: a table with a vector per token, which the embedder adds up without a graph.

A folder with a `modules.json` is read as sentence-transformers reads it, also one that model2vec
wrote (such as potion's). A folder with only the `config.json` of model2vec is read as model2vec
reads it. The two differ in the limit, and in the unknown token, which model2vec leaves out.
"""

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from embedder.core.static_session import SCALES_FILE
from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.config import read_json
from model_compiler.files.folder import ConfigFolder
from model_compiler.files.weights import Weights
from model_compiler.graph.builder import Precision
from model_compiler.graph.quantization import quantize_rows
from model_compiler.model.base import Graph, OwnModel, Prompts
from model_compiler.model.folder import MODULES_FILE, ModelFolder, read_prompts
from model_compiler.model.modules import read_normalize
from model_compiler.tokenizer.file import checked_tokenizer, without_special_tokens

TABLE_FILE = "embeddings.npy"

#: The table's names in sentence-transformers and in model2vec.
NAMES = ("embedding.weight", "embeddings")
#: model2vec's row of each token, and the factor of each token.
MAPPING, FACTORS = "mapping", "weights"


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticModel(OwnModel):
    """A model with vectors that are the means of those of a text's tokens."""

    #: Holds `model.safetensors`.
    weights_folder: Path
    #: The token that adds nothing to a vector; None if all do.
    left_out: int | None

    def check(self) -> None:
        """Read the table; see `CompilerModel.check`."""
        _table(Weights(self.weights_folder), self.vocabulary_size, self.dimensions)

    def write(self, folder: Path, *, progress: bool = False) -> Graph:
        """Write `embeddings.npy`, and in int8 also `scales.npy`; see `CompilerModel.write`."""
        with tqdm(desc=self.precision, unit="B", unit_scale=True, disable=not progress) as bar:
            weights = Weights(self.weights_folder, progress=bar.update)
            bar.reset(weights.total_bytes)
            table = _table(weights, self.vocabulary_size, self.dimensions)
        if self.left_out is not None:
            table[self.left_out] = 0
        files: dict[str, npt.NDArray[Any]] = {TABLE_FILE: table}
        if self.precision is Precision.INT8:
            files = dict(zip((TABLE_FILE, SCALES_FILE), quantize_rows(table), strict=True))
        digest = sha256()
        for name, array in files.items():
            np.save(folder / name, array, allow_pickle=False)
            digest.update(repr((name, array.dtype.str, array.shape)).encode())
            digest.update(array.data)
        return Graph(
            runtime="numpy",
            file=TABLE_FILE,
            digest=digest.digest(),
            source_digest=weights.digest,
            precision=self.precision,
            multiply_adds=self.dimensions,
        )


def _table_shape(weights: Weights) -> tuple[int, int]:
    """Return the number of tokens and of dimensions."""
    name = _name(weights)
    shape = weights.shape(name)
    if len(shape) != 2:
        raise SourceError(
            f"{weights.folder}: {name} has the shape {list(shape)}; it must be a table with a row "
            "for each token."
        )
    return (prod(weights.shape(MAPPING)) if MAPPING in weights else shape[0]), shape[1]


def _table(weights: Weights, tokens: int, dimensions: int) -> npt.NDArray[np.float32]:
    """Return the vector of each token, float32 [tokens, dimensions]."""
    name = _name(weights)
    table = weights.take(name, weights.shape(name)[0], dimensions)
    if MAPPING in weights:
        rows = weights.take_integers(MAPPING, tokens)
        if not ((rows >= 0) & (rows < len(table))).all():
            raise SourceError(
                f"{weights.folder}: {MAPPING} has the rows {rows.min()} to {rows.max()}; "
                f"{name} has {len(table)}."
            )
        table = table[rows]
    if FACTORS in weights:
        table = table * weights.take(FACTORS, tokens)[:, None]
    weights.done()
    return table


def _name(weights: Weights) -> str:
    return next((name for name in NAMES if name in weights), NAMES[0])


#: The limit of a model that states none: such a model has no positions that could run out, but a
#: request must end within the function's timeout.
DEFAULT_MAX_TOKENS = 8192
#: model2vec's own limit where `config.json` states none (its `DEFAULT_MAX_LENGTH`).
MODEL2VEC_MAX_TOKENS = 512


def read_static_folder(folder: ModelFolder, precision: Precision = Precision.INT8) -> StaticModel:
    """Read a folder that `is_static`."""
    read = _read_sentence_transformers if folder.has_modules else _read_model2vec
    return read(folder, precision)


def _read_sentence_transformers(folder: ModelFolder, precision: Precision) -> StaticModel:
    if folder.kinds[1:] not in ([], ["Normalize"]):
        raise UnsupportedModelError(
            f"{folder.path / MODULES_FILE} lists {', '.join(folder.kinds)}; after a "
            "StaticEmbedding the compiler can express a Normalize."
        )
    (_, encoder), *followers = folder.modules
    for _, module in followers:
        read_normalize(module)
    normalized = bool(followers)
    document = read_json(encoder.path / "tokenizer.json")
    return _model(
        encoder,
        document,
        precision,
        family="static",
        max_tokens=_truncation(encoder.path / "tokenizer.json", document) or DEFAULT_MAX_TOKENS,
        prompts=read_prompts(folder, normalized=normalized),
        normalized=normalized,
    )


def _read_model2vec(folder: ModelFolder, precision: Precision) -> StaticModel:
    config = folder.config("config.json")
    config.require("model_type", "model2vec")
    normalized = config.boolean("normalize", False)
    # For model2vec, null is no limit, of characters neither.
    unlimited = "max_length" in config and not config.has("max_length")
    limit = config.integer("max_length", DEFAULT_MAX_TOKENS if unlimited else MODEL2VEC_MAX_TOKENS)
    config.done("model2vec")
    model = _model(
        folder,
        None,
        precision,
        family="model2vec",
        max_tokens=limit,
        prompts=Prompts(texts={}, default=None),
        normalized=normalized,
    )
    document = json.loads(model.tokenizer.data.decode("utf-8", "surrogatepass"))
    return replace(
        model,
        left_out=_unknown_token(document),
        # model2vec cuts a text to as many times the median length of its tokens, in characters, as
        # its limit allows tokens, and then to the tokens.
        max_characters=(
            None if unlimited else limit * int(statistics.median(map(len, _ids(document))))
        ),
    )


def _model(
    folder: ConfigFolder,
    document: Any,
    precision: Precision,
    *,
    family: str,
    max_tokens: int,
    prompts: Prompts,
    normalized: bool,
) -> StaticModel:
    """Read the parts that both libraries store alike.

    `document` is the content of `tokenizer.json`, or None before it was read.
    """
    tokens, dimensions = _table_shape(Weights(folder.path))
    document = read_json(folder.path / "tokenizer.json") if document is None else document
    tokenizer = checked_tokenizer(folder, document, vocabulary_size=tokens, alone=True)
    return StaticModel(
        family=family,
        dimensions=dimensions,
        vocabulary_size=tokens,
        max_tokens=max_tokens,
        prompts=prompts,
        tokenizer=without_special_tokens(tokenizer),
        normalized=normalized,
        weights_folder=folder.path,
        left_out=None,
        precision=precision,
    )


def _truncation(path: Path, document: Any) -> int | None:
    """Return the limit in `tokenizer.json`, to which a StaticEmbedding cuts each text."""
    if not isinstance(document, dict) or document.get("truncation") is None:
        return None
    truncation = document["truncation"]
    limit = truncation.get("max_length") if isinstance(truncation, dict) else None
    if type(limit) is not int or limit < 1:
        raise SourceError(
            f"{path}: truncation must be null, or have a max_length of at least 1; found "
            f"{truncation}."
        )
    if truncation.get("direction", "Right") != "Right":
        raise UnsupportedModelError(
            f"{path}: truncation has the direction {truncation['direction']!r}; the compiler "
            "can express 'Right', which cuts off the end of a text."
        )
    return limit


def _unknown_token(document: Mapping[str, Any]) -> int | None:
    """Return the id of the unknown token as model2vec finds it; None without one."""
    model = document["model"]
    unigram = isinstance(model["vocab"], list)
    token = model.get("unk_id") if unigram else _ids(document).get(model.get("unk_token"))
    return token if type(token) is int else None


def _ids(document: Mapping[str, Any]) -> dict[str, int]:
    vocabulary = document["model"]["vocab"]
    if isinstance(vocabulary, list):  # Unigram: tokens and scores
        vocabulary = {token: number for number, (token, _) in enumerate(vocabulary)}
    return {**vocabulary, **{token["content"]: token["id"] for token in document["added_tokens"]}}
