"""Texts to token ids as the model takes them: prompt, limits, truncation, special tokens."""

from collections.abc import Sequence

from embedder.core import errors
from embedder.core.embedding_request import EmbedRequest, Limits
from embedder.core.fast_tokenizers import Tokenizer

#: A word that no vocabulary has.
_HIEROGLYPH = "\U00013000"
#: The part of EmbeddingGemma's document prompt that a title replaces.
_NO_TITLE = "title: none |"


class RequestTokenizer:
    """A tokenizer and the rules around it; most models pool the tokens of a prompt too."""

    def __init__(self, tokenizer: Tokenizer, limits: Limits, *, pools_prompt: bool = True) -> None:
        self.pools_prompt = pools_prompt
        self.tokenizer = tokenizer
        self.limits = limits
        self._specials = len(tokenizer.prefix) + len(tokenizer.suffix)

    def encode(self, request: EmbedRequest) -> tuple[list[list[int]], int]:
        """Turn the inputs into token ids as the model takes them, special tokens included.

        Returns them, and the number of characters (or token ids) that were sent.
        """
        self._check(request)
        inputs, truncate = request.inputs, request.truncate
        if inputs.token_ids is not None:
            if request.prompt is not None:
                raise errors.InvalidFieldError(
                    "A prompt cannot be put in front of token ids: put its own token ids there."
                )
            if not self.pools_prompt and self.limits.prompts:
                raise errors.InvalidFieldError(
                    "This model leaves a prompt's tokens out of its vectors, and token ids do not "
                    "say where a prompt ends: send texts."
                )
            sequences = [
                self._fit(
                    self._own_ids(ids, position, bare=request.add_special_tokens),
                    truncate,
                    position,
                    prompt_length=0,
                )
                for position, ids in enumerate(inputs.token_ids)
            ]
            return sequences, sum(map(len, inputs.token_ids))
        prompt = self.prompt_text(request.prompt, request.title)
        # Its last space is a part of the text's first token, for tokenizers that have words begin
        # with theirs.
        prompt_start = prompt.rstrip() if truncate == "left" else ""
        prompt_length = len(self.tokenizer.encode(prompt_start)) if prompt_start else 0
        left_out = 0 if self.pools_prompt else self.left_out(request)
        done: dict[str, list[int]] = {}
        sequences = []
        characters = 0
        max_characters = self.limits.max_characters
        encode = self.tokenizer.encode
        for position, text in enumerate(inputs.texts or ()):
            characters += len(text)
            ids = done.get(text)
            if ids is None:
                bounded = text
                if len(text) > max_characters:
                    if truncate == "refuse":
                        self.check_characters(text, position)
                    bounded = (
                        text[-max_characters:] if truncate == "left" else text[:max_characters]
                    )
                ids = encode(prompt + bounded)
                ids = self._fit(ids, truncate, position, prompt_length=prompt_length)
                if left_out >= len(ids):
                    raise errors.EmptyInputError(
                        "must hold text to embed; no token is left after the prompt's.",
                        position=position,
                    )
                done[text] = ids
            sequences.append(ids)
        return sequences, characters

    def unknown(self, request: EmbedRequest, sequences: Sequence[list[int]]) -> list[int]:
        """Return the places of texts of which more than half of the tokens are unknown.

        `sequences` are those of `encode`. Tokens of the prompt, and the mark of a word's beginning
        that an unknown word has in front of it, do not count.
        """
        unknown = self.tokenizer.unknown
        if unknown is None or request.inputs.texts is None:
            return []
        candidates = [position for position, ids in enumerate(sequences) if unknown in ids]
        if not candidates:
            return []
        prompt = self.prompt_text(request.prompt, request.title)
        start = len(self.tokenizer.prefix) + (len(self.tokenizer.encode(prompt)) if prompt else 0)
        marks = {*self.tokenizer.encode(_HIEROGLYPH)} - {unknown}

        def is_mostly_unknown(ids: list[int]) -> bool:
            own = ids[start : len(ids) - len(self.tokenizer.suffix)]
            return 2 * own.count(unknown) > len(own) - sum(map(own.count, marks))

        return [position for position in candidates if is_mostly_unknown(sequences[position])]

    def prompt_text(self, name: str | None, title: str | None = None) -> str:
        """Return the text of a prompt by its name (None: the default prompt)."""
        prompts = self.limits.prompts
        chosen = self.limits.default_prompt if name is None else name
        prompt = prompts[chosen] if chosen is not None else ""
        if title is None:
            return prompt
        if _NO_TITLE not in prompt:
            raise errors.InvalidFieldError(
                f'"title" is allowed with a prompt that has a place for it '
                f"({', '.join(n for n, text in prompts.items() if _NO_TITLE in text) or 'none'} of "
                f"this model's); found the prompt {chosen or 'none'}.",
                field="title",
            )
        return prompt.replace(_NO_TITLE, f"title: {title} |")

    def left_out(self, request: EmbedRequest) -> int:
        """Return how many tokens at the start of each input a pooling without the prompt ignores.

        As sentence-transformers counts them: those of the prompt alone, without its last special
        token, even if the text's first letters became a part of its last token.
        """
        if request.inputs.token_ids is not None:
            return 0
        prompt = self.prompt_text(request.prompt, request.title)
        if not prompt:
            return 0
        around = max(self._specials - 1, len(self.tokenizer.prefix))
        room = self.limits.max_tokens - self._specials
        return around + min(len(self.tokenizer.encode(prompt)), room)

    def check_characters(self, text: str, position: int) -> None:
        """Refuse a text over the limit of characters."""
        limit = self.limits.max_characters
        if len(text) > limit:
            raise errors.InputTooLongError(
                f"has {len(text)} characters; at most {limit} are allowed.", position=position
            )

    def _check(self, request: EmbedRequest) -> None:
        limits = self.limits
        if request.dimensions is not None and request.dimensions not in limits.dimensions:
            raise errors.InvalidFieldError(
                f"The dimensions must be one of {', '.join(map(str, limits.dimensions))}; found "
                f"{request.dimensions}.",
                field="dimensions",
            )
        if request.prompt is not None and request.prompt not in limits.prompts:
            raise errors.InvalidFieldError(
                f"The prompt must be one of {', '.join(limits.prompts) or '(the model has none)'}.",
                field="prompt",
            )
        if not request.inputs.number:
            raise errors.EmptyInputError("must have at least one input.")

    def _fit(
        self, ids: list[int], truncate: str, position: int, *, prompt_length: int
    ) -> list[int]:
        """Put the special tokens around an input's own ids, cut to the limit."""
        if not ids:
            raise errors.EmptyInputError(
                "must hold text to embed; the tokenizer found no token in it.", position=position
            )
        room = self.limits.max_tokens - self._specials
        if len(ids) > room:
            if truncate == "refuse":
                raise errors.InputTooLongError(
                    f"has {len(ids) + self._specials} tokens, special tokens and prompt included; "
                    f"the model allows {self.limits.max_tokens}.",
                    position=position,
                )
            if truncate == "right":
                ids = ids[:room]
            else:
                # The prompt decides the kind of embedding: keep it, and drop the start of the text.
                prompt_tokens = min(prompt_length, room - 1)
                ids = ids[:prompt_tokens] + ids[len(ids) - room + prompt_tokens :]
        return [*self.tokenizer.prefix, *ids, *self.tokenizer.suffix]

    def _own_ids(self, ids: Sequence[int], position: int, *, bare: bool) -> list[int]:
        """Take off the special tokens around token ids.

        Ids are numbers; only their special tokens show which tokenizer made them. So ids that lack
        them are refused, unless they may be `bare`.
        """
        prefix, suffix = self.tokenizer.prefix, self.tokenizer.suffix
        inner = list(ids)
        if prefix and tuple(inner[: len(prefix)]) == tuple(prefix):
            inner = inner[len(prefix) :]
        if suffix and tuple(inner[-len(suffix) :]) == tuple(suffix):
            inner = inner[: -len(suffix)]
        special_tokens = len(ids) - len(inner)
        if not bare and (special_tokens < self._specials or not special_tokens):
            raise errors.ForeignTokenIdsError(
                "must hold token ids of this model, as POST /tokenize returns them: "
                f"{_listed(prefix)} at the beginning and {_listed(suffix)} at the end; found "
                f"{_listed(ids[: len(prefix) or 1])} and {_listed(ids[-len(suffix) or -1 :])}. "
                "For ids of this model without special tokens, send "
                '"add_special_tokens": true.',
                position=position,
            )
        return inner


def _listed(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids)) or "none"
