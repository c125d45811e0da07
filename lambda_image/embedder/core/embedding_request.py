"""The engine's own values: a request for embeddings, its result, and the model's limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # see startup
    import numpy as np
    import numpy.typing as npt


#: Ratio of the default limit of characters to the limit of tokens: high enough for the text of any
#: language, low enough to bound the tokenizer's work.
CHARACTERS_PER_TOKEN = 250


class Limits(NamedTuple):
    """The limits of the model that is served; the APIs' types are built from them."""

    #: The numbers of dimensions that a request may ask for, largest first.
    dimensions: tuple[int, ...]
    #: The longest input in tokens, special tokens and prompt included.
    max_tokens: int
    #: The longest text in characters, without the prompt.
    max_characters: int
    #: Token ids are smaller than this.
    vocabulary_size: int
    #: The texts that the model wants in front of an input, by name.
    prompts: Mapping[str, str]
    default_prompt: str | None
    #: What happens to a text over `max_tokens` when the request does not say.
    truncate: str

    @property
    def full_dimensions(self) -> int:
        """The number of dimensions that a vector has by default."""
        return self.dimensions[0]


class Inputs(NamedTuple):
    """The inputs to embed: either texts or lists of token ids.

    `is_list` is whether the caller sent a list; some APIs respond differently to a single input.
    """

    texts: Sequence[str] | None = None
    token_ids: Sequence[Sequence[int]] | None = None
    is_list: bool = True

    @property
    def number(self) -> int:
        """How many inputs there are."""
        return len(self.texts if self.texts is not None else self.token_ids or ())


class EmbedRequest(NamedTuple):
    """A validated embedding request, independent of any API."""

    inputs: Inputs
    #: Name of the prompt, or None for the model's default, if it has one.
    prompt: str | None = None
    #: Title of a document, for a prompt with a place for it.
    title: str | None = None
    #: Number of dimensions of each vector, or None for all.
    dimensions: int | None = None
    #: `refuse`, `right` or `left`.
    truncate: str = "refuse"
    #: Renormalize after cutting to `dimensions`.
    normalize: bool = True
    #: Accept token ids that lack the model's special tokens, and add those.
    add_special_tokens: bool = False
    #: The most inputs with different token ids, or None for any number.
    most_different: int | None = None
    #: The `time.monotonic()` at which Lambda would cut the request off.
    deadline: float | None = None


class Timings(NamedTuple):
    """Seconds spent on each stage."""

    tokenization: float = 0.0
    inference: float = 0.0
    #: Waiting for the model, while other requests use it; 0 where a request has it to itself.
    queue: float = 0.0


class Embeddings(NamedTuple):
    """Vectors, or a reranker's logits, in the order asked.

    `vectors` is float32 [inputs, dimensions], or objects [inputs] of a sparse encoder. `tokens`
    counts each input's tokens as the model saw them: special tokens and prompt included, after
    truncation.
    """

    vectors: npt.NDArray[np.float32]
    tokens: Sequence[int] = ()
    vector_space: str = ""
    timings: Timings = Timings()
    #: Characters that were sent, without prompts; of token ids, their number.
    characters: int = 0
    #: Inputs answered from the cache, repeats within the request not counted.
    cache_hits: int = 0
    #: Inputs that repeat another of the same request.
    repeats: int = 0
    #: How many inputs each run of the model took.
    runs: Sequence[int] = ()
    #: Tokens that the runs computed beyond those that count.
    padding_tokens: int = 0
    #: All tokens that the runs computed.
    computed_tokens: int = 0
    #: The places of texts of which more than half of the tokens are unknown to the model.
    unknown: Sequence[int] = ()
