"""The requests of the endpoint's native API: options, checks, bodies, and how texts are divided.

A request and a response have at most 6 MB each. The limit of a request applies to the event, in
which the body is a JSON string: each quote and backslash takes two bytes. A request should also end
well before the function's timeout.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from embedding_client.errors import ConfigurationError

DataType = Literal["float32", "int8", "uint8", "binary", "ubinary"]

# Little-endian, as the endpoint sends them.
_NUMPY: dict[str, npt.DTypeLike] = {
    "float32": "<f4",
    "int8": np.int8,
    "uint8": np.uint8,
    "binary": np.int8,
    "ubinary": np.uint8,
}


class EmbedOptions(TypedDict, total=False):
    """The options of an embedding request.

    Attributes:
        prompt: The name of one of the model's prompts. The default is the model's default prompt.
        input_type: The role of the texts (`query`, `document`, …). It selects the prompt if the
            model has one for that role. It cannot be combined with `prompt`.
        title: The title of the document, for a prompt with a placeholder for it.
        dimensions: The length of the vectors, one that the model supports. The default is the full
            length.
        dtype: `float32` (the default), `int8`, `uint8`, or `binary` and `ubinary` for bits that
            are packed eight to a byte.
        truncate: How to handle a text over the model's limit: `refuse` it, or cut off its end
            (`right`) or its start (`left`). The default is the endpoint's.
    """

    prompt: str | None
    input_type: str | None
    title: str | None
    dimensions: int | None
    dtype: DataType
    truncate: Literal["refuse", "right", "left"] | None


def check_options(options: EmbedOptions) -> None:
    """Check options before anything is sent."""
    for name in options:
        if name not in EmbedOptions.__annotations__:
            names = ", ".join(EmbedOptions.__annotations__)
            raise TypeError(f"unknown option {name!r}; the options are {names}")
    if data_type(options) not in _NUMPY:
        raise ConfigurationError(
            f"dtype must be one of {', '.join(_NUMPY)}; found {data_type(options)!r}."
        )
    if options.get("prompt") is not None and options.get("input_type") is not None:
        raise ConfigurationError("Give prompt or input_type, not both.")


def data_type(options: EmbedOptions) -> DataType:
    """Return the data type of the vectors."""
    return options.get("dtype", "float32")


def numpy_type(options: EmbedOptions) -> np.dtype[np.generic]:
    """Return the numpy type of the vectors' components."""
    return np.dtype(_NUMPY[data_type(options)])


@dataclass(frozen=True, kw_only=True)
class BatchLimits:
    """The limits of one request.

    Attributes:
        texts: The maximum number of texts. 256 float32 vectors of 3072 dimensions take 4.2 MB in
            base64.
        tokens: The maximum number of tokens, by `estimated_tokens`. 16,000 tokens take about ten
            seconds on one vCPU.
        body: The maximum number of bytes that the body takes in the event.
    """

    texts: int = 256
    tokens: int = 16_384
    body: int = 6_000_000


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The texts of one request, and the position of the first one in the call."""

    start: int
    texts: Sequence[str]


def batches(texts: Iterable[str], limits: BatchLimits) -> Iterator[Batch]:
    """Group texts in order. A text that exceeds a limit by itself is a batch alone."""
    start, group, tokens, body = 0, list[str](), 0, 0
    for text in texts:
        # The most bytes that it takes in the event: JSON in JSON, in ASCII.
        size, length = len(json.dumps(json.dumps(text))) + 1, estimated_tokens(text)
        if group and (
            len(group) >= limits.texts
            or tokens + length > limits.tokens
            or body + size > limits.body
        ):
            yield Batch(start=start, texts=group)
            start, group, tokens, body = start + len(group), [], 0, 0
        group.append(text)
        tokens += length
        body += size
    if group:
        yield Batch(start=start, texts=group)


def halves(batch: Batch) -> tuple[Batch, Batch]:
    """Split a batch of at least two texts."""
    middle = len(batch.texts) // 2
    return (
        Batch(start=batch.start, texts=batch.texts[:middle]),
        Batch(start=batch.start + middle, texts=batch.texts[middle:]),
    )


def estimated_tokens(text: str) -> int:
    """Estimate the number of tokens without the tokenizer, as one for each four bytes of UTF-8.

    This ratio fits English prose. The multilingual texts that the compiler measures fidelity on
    have 3.2 bytes per token with MiniLM's tokenizer. The client splits a batch in half if the
    endpoint rejects it as too large.
    """
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


@dataclass(frozen=True, kw_only=True)
class Match:
    """A search result.

    Attributes:
        text: The indexed text, or None if the index does not have it.
        index: Its position in an index of the image, or None with an index of S3 Vectors.
        score: Its cosine similarity to the query; or of the last stage of `POST /search`.
        id: The key of its vector, or its position as a string in an index of the image.
        metadata: The other metadata of its vector; empty in an index of the image.
        scores: Those of each stage of `POST /search`: `dense`, `sparse`, `fused`, `rerank`.
    """

    text: str | None
    index: int | None
    score: float
    id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """A passage that was ranked.

    Attributes:
        index: Its position among the passages, from 0.
        score: The model's score of it for the query. Scores of two score spaces cannot be compared.
        passage: The passage.
    """

    index: int
    score: float
    passage: str


@dataclass(frozen=True, kw_only=True)
class Classified:
    """The labels of a text.

    Attributes:
        label: The label with the highest score.
        score: Its score. Scores of two label spaces cannot be compared.
        scores: The score of each label by its name, the highest first.
    """

    label: str
    score: float
    scores: Mapping[str, float]


class SparseVector(NamedTuple):
    """The weights of a text that are not 0, in the order of their tokens.

    Attributes:
        indices: The ids of the tokens, uint32 of shape (weights,).
        values: The weights, float32 of the same shape.
    """

    indices: npt.NDArray[np.uint32]
    values: npt.NDArray[np.float32]


def checked(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts, each checked when it is read. They may be a stream, so they are read once."""
    if isinstance(texts, str):
        raise ConfigurationError(
            "texts must be a list of strings; found one string. Use embed_one."
        )
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise ConfigurationError(
                f"texts must be strings; found {type(text).__name__} at position {position}."
            )
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ConfigurationError(
                f"texts must be valid Unicode; found a lone surrogate at position {position}."
            ) from None
        if not text or text.isspace():
            raise ConfigurationError(
                f"texts must not be blank; found {text!r} at position {position}."
            )
        yield text


def embed_body(texts: Sequence[str], options: EmbedOptions) -> bytes:
    """Return the body of `POST /` for several texts."""
    dtype = data_type(options)
    return json_body(
        texts=list(texts),
        size=options.get("dimensions"),
        prompt_name=options.get("prompt"),
        input_type=options.get("input_type"),
        title=options.get("title"),
        truncate=options.get("truncate"),
        output_dtype="float" if dtype == "float32" else dtype,
        encoding_format="base64",
    )


def json_body(**fields: Any) -> bytes:
    """Return a body with the fields that are not None."""
    values = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()
