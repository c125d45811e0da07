"""Texts to vectors: tokenize → plan → run → truncate, with every input embedded once."""

import time
from array import array
from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

import numpy as np
import numpy.typing as npt

from embedder.artifact import Artifact, Manifest
from embedder.cache import VectorCache
from embedder.errors import (
    EmptyInputError,
    InferenceError,
    InputTooLongError,
    InvalidFieldError,
    OutOfTimeError,
)
from embedder.planning import plan
from embedder.requests import Embeddings, EmbedRequest, Inputs, Limits, Timings
from embedder.session import Session
from embedder.tokenizers import Tokenizer, load

__all__ = ["CHARACTERS_PER_TOKEN", "Engine", "Runs", "truncate_vectors"]

#: The default limit of characters is so many times the limit of tokens: more than any language's
#: text needs for its tokens, little enough to bound the tokenizer's work.
CHARACTERS_PER_TOKEN = 250

#: The part of EmbeddingGemma's document prompt that a title replaces.
_NO_TITLE = "title: none |"


class Runs(Protocol):
    """What the engine needs of a session."""

    def run(
        self, input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """See `Session.run`."""


class Engine:
    """The model: its tokenizer, its session, and the cache of what it has embedded.

    Args:
        manifest: what the artifact says of itself.
        tokenizer: texts to token ids.
        session: token ids to full-size vectors.
        truncate: what happens to an input over the limit when the request does not say.
        max_characters: the longest text; None computes it from the limit of tokens.
        cache_entries: how many vectors to keep.
    """

    def __init__(
        self,
        manifest: Manifest,
        tokenizer: Tokenizer,
        session: Runs,
        *,
        truncate: str = "refuse",
        max_characters: int | None = None,
        cache_entries: int = 0,
    ) -> None:
        self.manifest = manifest
        self.tokenizer = tokenizer
        self._session = session
        self.cache = VectorCache(cache_entries)
        self.limits = Limits(
            dimensions=manifest.dimensions,
            max_tokens=manifest.max_tokens,
            max_characters=max_characters or manifest.max_tokens * CHARACTERS_PER_TOKEN,
            vocabulary_size=self.tokenizer.vocabulary_size,
            prompts=manifest.prompts,
            default_prompt=manifest.default_prompt,
            truncate=truncate,
        )
        self._specials = len(self.tokenizer.prefix) + len(self.tokenizer.suffix)
        self._prompt_lengths: dict[str, int] = {}
        #: Seconds that a computed token took lately, to tell whether the next run can be finished.
        self._pace = 0.0

    @classmethod
    def load(
        cls,
        artifact: Artifact,
        *,
        threads: int = 1,
        truncate: str = "refuse",
        max_characters: int | None = None,
        cache_entries: int = 0,
    ) -> "Engine":
        """Load an artifact's tokenizer and session; `threads` is for one run of the session.

        Raises:
            ArtifactError: if the artifact cannot be served.
        """
        return cls(
            artifact.manifest,
            load(artifact.manifest.tokenizer, artifact.folder),
            Session(artifact, threads=threads),
            truncate=truncate,
            max_characters=max_characters,
            cache_entries=cache_entries,
        )

    def embed(
        self,
        texts: Sequence[str],
        *,
        prompt: str | None = None,
        dimension: int | None = None,
        truncate: str | None = None,
    ) -> Embeddings:
        """Embed texts: `answer` for callers in Python.

        Args:
            texts: what to embed, at least one text.
            prompt: name of one of the manifest's prompts; None takes the default prompt, if any.
            dimension: one of the manifest's dimensions; None takes the full one.
            truncate: `refuse`, `right` or `left`; None takes the engine's own.
        """
        return self.answer(
            EmbedRequest(
                inputs=Inputs(texts=texts),
                prompt=prompt,
                dimension=dimension,
                truncate=truncate or self.limits.truncate,
            )
        )

    def answer(self, request: EmbedRequest) -> Embeddings:
        """Embed what a request asks for.

        Returns:
            Float32 vectors in the order of the inputs, of length 1.

        Raises:
            InvalidFieldError: if the prompt or the dimension is not the model's.
            EmptyInputError: if an input has no tokens.
            InputTooLongError: if an input is over the limits and must not be truncated.
            OutOfTimeError: if the next run would not be finished by the deadline.
            InferenceError: if the model did not give finite vectors.
        """
        started = time.perf_counter()
        sequences, characters = self.tokenize(request)
        tokenized = time.perf_counter()
        keys = [_key(ids) for ids in sequences]
        vectors: dict[bytes, npt.NDArray[np.float32]] = {}
        missing: dict[bytes, Sequence[int]] = {}
        hits = 0
        for key, ids in zip(keys, sequences, strict=True):
            if key in vectors:
                hits += 1
            elif key not in missing:
                kept = self.cache.get(key)
                if kept is None:
                    missing[key] = ids
                else:
                    vectors[key] = kept
                    hits += 1
        runs, computed = self._run(missing, vectors, request.deadline)
        used = sum(map(len, missing.values()))
        stacked = np.stack([vectors[key] for key in keys])
        dimension = request.dimension or self.limits.dimension
        return Embeddings(
            vectors=truncate_vectors(stacked, dimension, normalize=request.normalize),
            tokens=[len(ids) for ids in sequences],
            vector_space=self.vector_space(dimension, normalize=request.normalize),
            timings=Timings(tokenized - started, time.perf_counter() - tokenized),
            characters=characters,
            cache_hits=hits,
            repeats=len(keys) - len(set(keys)),
            runs=runs,
            padding_tokens=computed - used,
            computed_tokens=computed,
        )

    def vector_space(self, dimension: int | None = None, *, normalize: bool = True) -> str:
        """Name the space of the vectors of a dimension; None takes the full one."""
        dimension = dimension or self.limits.dimension
        space = self.manifest.vector_space_of(dimension=dimension)
        # Vectors that were cut and not brought back to length 1 are other vectors.
        return space if normalize or dimension == self.limits.dimension else f"{space}/unnormalized"

    def tokenize(self, request: EmbedRequest) -> tuple[list[list[int]], int]:
        """Turn the inputs into token ids as the model takes them, special tokens included.

        Returns:
            The ids of each input, and the number of characters (or token ids) that were sent.
        """
        self._check(request)
        inputs = request.inputs
        if inputs.token_ids is not None:
            sequences = [
                self._fit(self._without_specials(ids), request, position, prompt_length=0)
                for position, ids in enumerate(inputs.token_ids)
            ]
            return sequences, sum(map(len, inputs.token_ids))
        prompt = self.prompt_text(request.prompt, request.title)
        prompt_length = self._prompt_length(prompt) if request.truncate == "left" else 0
        done: dict[str, list[int]] = {}
        sequences = []
        characters = 0
        for position, text in enumerate(inputs.texts or ()):
            characters += len(text)
            ids = done.get(text)
            if ids is None:
                whole = prompt + self._bounded(text, request, position)
                ids = self._fit(self.tokenizer.encode(whole), request, position, prompt_length)
                done[text] = ids
            sequences.append(ids)
        return sequences, characters

    def prompt_text(self, name: str | None, title: str | None = None) -> str:
        """Return what stands in front of a text for a prompt's name (None: the default's)."""
        prompts = self.limits.prompts
        chosen = self.limits.default_prompt if name is None else name
        prompt = prompts[chosen] if chosen is not None else ""
        if title is None:
            return prompt
        if _NO_TITLE not in prompt:
            raise InvalidFieldError(
                f'"title" is allowed with a prompt that has a place for it '
                f"({', '.join(n for n, text in prompts.items() if _NO_TITLE in text) or 'none'} of "
                f"this model's); found the prompt {chosen or 'none'}.",
                field="title",
            )
        return prompt.replace(_NO_TITLE, f"title: {title} |")

    def warm(self) -> None:
        """Run the model once, so that the first request does not pay for what is done once."""
        self.embed(["warm"], truncate="right")
        self.cache.clear()

    def _check(self, request: EmbedRequest) -> None:
        limits = self.limits
        if request.dimension is not None and request.dimension not in limits.dimensions:
            raise InvalidFieldError(
                f"The dimension must be one of {', '.join(map(str, limits.dimensions))}; found "
                f"{request.dimension}.",
                field="dimension",
            )
        if request.prompt is not None and request.prompt not in limits.prompts:
            raise InvalidFieldError(
                f"The prompt must be one of {', '.join(limits.prompts) or '(the model has none)'}.",
                field="prompt",
            )
        if not len(request.inputs):
            raise EmptyInputError("There must be at least one input.", field=request.field)

    def _bounded(self, text: str, request: EmbedRequest, position: int) -> str:
        limit = self.limits.max_characters
        if len(text) <= limit:
            return text
        if request.truncate == "refuse":
            raise InputTooLongError(
                f"{_place(request, position)} has {len(text)} characters; at most {limit} are "
                f"allowed.{_hint(request)}",
                field=request.field,
            )
        return text[:limit] if request.truncate == "right" else text[-limit:]

    def _fit(
        self, ids: list[int], request: EmbedRequest, position: int, prompt_length: int
    ) -> list[int]:
        """Put the special tokens around an input's own ids, cut to the limit."""
        if not ids:
            raise EmptyInputError(
                f"{_place(request, position)} must hold text to embed; the tokenizer found no "
                "token in it.",
                field=request.field,
            )
        room = self.limits.max_tokens - self._specials
        if len(ids) > room:
            if request.truncate == "refuse":
                raise InputTooLongError(
                    f"{_place(request, position)} has {len(ids) + self._specials} tokens, special "
                    f"tokens and prompt included; the model allows {self.limits.max_tokens}."
                    f"{_hint(request)}",
                    field=request.field,
                )
            if request.truncate == "right":
                ids = ids[:room]
            else:
                # The prompt says what the text is for: it stays, and the text's start goes.
                kept = min(prompt_length, room - 1)
                ids = ids[:kept] + ids[len(ids) - room + kept :]
        return [*self.tokenizer.prefix, *ids, *self.tokenizer.suffix]

    def _without_specials(self, ids: Sequence[int]) -> list[int]:
        """Take off the special tokens that the caller's tokenizer has put around the ids."""
        prefix, suffix = self.tokenizer.prefix, self.tokenizer.suffix
        inner = list(ids)
        if prefix and tuple(inner[: len(prefix)]) == tuple(prefix):
            inner = inner[len(prefix) :]
        if suffix and tuple(inner[-len(suffix) :]) == tuple(suffix):
            inner = inner[: -len(suffix)]
        return inner

    def _prompt_length(self, prompt: str) -> int:
        if prompt not in self._prompt_lengths:
            self._prompt_lengths = {prompt: len(self.tokenizer.encode(prompt)) if prompt else 0}
        return self._prompt_lengths[prompt]

    def _run(
        self,
        missing: dict[bytes, Sequence[int]],
        vectors: dict[bytes, npt.NDArray[np.float32]],
        deadline: float | None,
    ) -> tuple[list[int], int]:
        """Embed what is missing into `vectors`; return each run's size and all computed tokens."""
        keys = list(missing)
        sequences = list(missing.values())
        runs = plan([len(ids) for ids in sequences])
        computed = 0
        for run in runs:
            longest = len(sequences[run[0]])
            size = len(run) * longest
            computed += size
            self._check_time(size, deadline)
            began = time.monotonic()
            rows = self._infer([sequences[position] for position in run], longest)
            self._pace = (time.monotonic() - began) / size
            for position, row in zip(run, rows, strict=True):
                vectors[keys[position]] = row
                self.cache.put(keys[position], row)
        return [len(run) for run in runs], computed

    def _check_time(self, tokens: int, deadline: float | None) -> None:
        if deadline is None:
            return
        left = deadline - time.monotonic()
        if left < tokens * self._pace:
            raise OutOfTimeError(
                f"The request needs more time than the {max(0.0, left):.1f} s left of the "
                "function's timeout; send fewer or shorter texts in one request."
            )

    def _infer(self, sequences: list[Sequence[int]], longest: int) -> npt.NDArray[np.float32]:
        input_ids = np.zeros((len(sequences), longest), dtype=np.int64)
        attention_mask = np.zeros((len(sequences), longest), dtype=np.int64)
        for row, ids in enumerate(sequences):
            input_ids[row, : len(ids)] = ids
            attention_mask[row, : len(ids)] = 1
        try:
            vectors = self._session.run(input_ids, attention_mask)
        except Exception as error:  # ONNX Runtime's classes have no common base.
            raise InferenceError from error
        if not np.isfinite(vectors).all():
            raise InferenceError
        return vectors


def truncate_vectors(
    vectors: npt.NDArray[np.float32], dimension: int, *, normalize: bool = True
) -> npt.NDArray[np.float32]:
    """Cut vectors to their first components, then bring them back to length 1.

    This is how Matryoshka embeddings are made shorter (Kusupati et al., arXiv:2205.13147).

    Args:
        vectors: float32 [n, full dimension], rows of length 1.
        dimension: how many components to keep.
        normalize: whether to renormalise.

    Returns:
        Float32 [n, dimension], contiguous.
    """
    if dimension == vectors.shape[1]:
        return vectors
    cut = np.ascontiguousarray(vectors[:, :dimension])
    if normalize:
        lengths = np.linalg.norm(cut, axis=1, keepdims=True)
        # A row of zeros has no direction to keep.
        cut /= np.maximum(lengths, np.finfo(np.float32).tiny)
    return cut


def _key(ids: Sequence[int]) -> bytes:
    return blake2b(array("i", ids).tobytes(), digest_size=16).digest()


def _place(request: EmbedRequest, position: int) -> str:
    return f'"{request.field}[{position}]"' if request.inputs.is_list else f'"{request.field}"'


def _hint(request: EmbedRequest) -> str:
    return f" {request.truncate_hint}" if request.truncate_hint else ""
