"""Encoding texts as token ids: prompts, limits, truncation and special tokens."""

import re
from collections.abc import Callable

import pytest

from embedder.core.embedding_request import EmbedRequest, Inputs
from embedder.core.encoder import Encoder
from embedder.core.engine import Engine
from embedder.core.errors import (
    EmptyInputError,
    ForeignTokenIdsError,
    InputTooLongError,
    InvalidFieldError,
)
from tests.embedder.small_model import CLS, PROMPTS, SEP, HashSession, WordTokenizer, manifest_of

MakeEngine = Callable[..., Engine]


def words(text: str) -> list[int]:
    """Return the ids of a text's words, without special tokens."""
    return WordTokenizer().encode(text)


def encode(encoder: Encoder, text: str, **options: object) -> list[int]:
    """Encode one text."""
    request = EmbedRequest(Inputs(texts=[text], is_list=False), **options)  # type: ignore[arg-type]
    (sequence,), _ = encoder.encode(request)
    return sequence


def test_special_tokens_stand_around_a_text(make_engine: MakeEngine) -> None:
    """The model's input is [CLS], the text and [SEP]."""
    assert encode(make_engine().encoder, "a b") == [CLS, *words("a b"), SEP]


def test_the_prompt_stands_in_front(make_engine: MakeEngine) -> None:
    """A prompt is part of the text that is tokenized."""
    encoder = make_engine(prompts=PROMPTS).encoder
    asked = encode(encoder, "a", prompt="query")
    assert asked == [CLS, *words("task: search result | query: a"), SEP]


def test_the_default_prompt_serves_who_asks_for_none(make_engine: MakeEngine) -> None:
    """The default prompt applies unless the request selects another one."""
    encoder = make_engine(prompts=PROMPTS, default_prompt="Clustering").encoder
    assert encode(encoder, "a") == encode(encoder, "a", prompt="Clustering")
    assert encode(encoder, "a") != encode(encoder, "a", prompt="query")


def test_an_unknown_prompt_is_refused(make_engine: MakeEngine) -> None:
    """The error lists the model's prompts."""
    with pytest.raises(InvalidFieldError, match="one of query, document, Clustering"):
        encode(make_engine(prompts=PROMPTS).encoder, "a", prompt="question")


def test_a_title_takes_its_place_in_the_prompt(make_engine: MakeEngine) -> None:
    """A title replaces the placeholder in EmbeddingGemma's document prompt."""
    encoder = make_engine(prompts=PROMPTS).encoder
    titled = encode(encoder, "a", prompt="document", title="On Bees")
    assert titled == [CLS, *words("title: On Bees | text: a"), SEP]


def test_a_title_without_a_place_is_refused(make_engine: MakeEngine) -> None:
    """The error names the prompts that accept a title, and the prompt found."""
    encoder = make_engine(prompts=PROMPTS).encoder
    with pytest.raises(InvalidFieldError, match=r"\(document of .*found the prompt query"):
        encode(encoder, "a", prompt="query", title="On Bees")
    with pytest.raises(InvalidFieldError, match="found the prompt none"):
        encode(make_engine().encoder, "a", title="On Bees")


def test_a_text_at_the_limit_is_whole(make_engine: MakeEngine) -> None:
    """Special tokens count toward the limit, and a text exactly at the limit is accepted."""
    encoder = make_engine(max_tokens=5).encoder
    assert encode(encoder, "a b c") == [CLS, *words("a b c"), SEP]


def test_a_text_over_the_limit_is_refused(make_engine: MakeEngine) -> None:
    """The error has the input's position, its number of tokens, and the model's limit."""
    encoder = make_engine(max_tokens=5).encoder
    with pytest.raises(InputTooLongError, match=r"^Input 0 has 6 tokens.*allows 5\.$"):
        encode(encoder, "a b c d")
    with pytest.raises(InputTooLongError, match=r"^Input 1 has 6 tokens") as caught:
        encoder.encode(EmbedRequest(Inputs(texts=["a", "a b c d"])))
    assert caught.value.position == 1


def test_truncation_keeps_the_end_that_is_asked_for(make_engine: MakeEngine) -> None:
    """Right truncation removes the end, left truncation the start; special tokens are kept."""
    encoder = make_engine(max_tokens=5).encoder
    assert encode(encoder, "a b c d", truncate="right") == [CLS, *words("a b c"), SEP]
    assert encode(encoder, "a b c d", truncate="left") == [CLS, *words("b c d"), SEP]


def test_cutting_the_start_leaves_the_prompt(make_engine: MakeEngine) -> None:
    """Left truncation keeps the prompt, because the vector depends on it."""
    encoder = make_engine(prompts={"query": "query: "}, max_tokens=5).encoder
    cut = encode(encoder, "a b c d", prompt="query", truncate="left")
    assert cut == [CLS, *words("query: c d"), SEP]


class GluingTokenizer(WordTokenizer):
    """A tokenizer that joins a word with the space before it, as SentencePiece does."""

    def encode(self, text: str) -> list[int]:
        """Return the id of each word with its space."""
        return [3 + sum(map(ord, word)) % 900 for word in re.findall(r" ?[^ ]+| +", text)]


def test_cutting_the_start_leaves_no_more_than_the_prompt() -> None:
    """A space at the prompt's end belongs to the first word's token and is removed with it."""
    manifest = manifest_of(prompts={"query": "query: "}, max_tokens=5)
    tokenizer = GluingTokenizer()
    encoder = Engine(manifest, tokenizer, HashSession()).encoder
    cut = encode(encoder, "a b c d", prompt="query", truncate="left")
    assert cut == [CLS, *tokenizer.encode("query: c d"), SEP]


@pytest.mark.parametrize("prompt_words", [2, 3, 4, 9])
def test_a_prompt_as_long_as_the_limit_leaves_room_for_text(
    make_engine: MakeEngine, prompt_words: int
) -> None:
    """A long prompt is cut so that the text's last token fits within the limit."""
    prompt = " ".join(f"p{number}" for number in range(prompt_words)) + " "
    encoder = make_engine(prompts={"query": prompt}, max_tokens=5).encoder
    cut = encode(encoder, "a b", prompt="query", truncate="left")
    assert len(cut) == 5
    assert cut[-2:] == [*words("b"), SEP]


def test_characters_are_counted_as_characters(make_engine: MakeEngine) -> None:
    """The length is in Unicode characters, not in bytes or UTF-16 units: an emoji counts as one."""
    encoder = make_engine(max_characters=3).encoder
    assert len(encode(encoder, "😀😀😀")) == 3
    with pytest.raises(InputTooLongError, match="Input 0 has 4 characters; at most 3 are allowed"):
        encode(encoder, "😀😀😀😀")


def test_the_limit_of_characters_follows_that_of_tokens(make_engine: MakeEngine) -> None:
    """The default limit is 250 characters per token of the model's limit."""
    assert make_engine(max_tokens=16).limits.max_characters == 16 * 250


def test_truncation_also_cuts_characters(make_engine: MakeEngine) -> None:
    """With truncation, a text over the character limit is cut instead of refused."""
    encoder = make_engine(max_characters=3).encoder
    assert encode(encoder, "a b c", truncate="right") == [CLS, *words("a b"), SEP]
    assert encode(encoder, "a b c", truncate="left") == [CLS, *words("b c"), SEP]


@pytest.mark.parametrize("ids", [[7, 8], [CLS, 7, 8, SEP], [CLS, 7, 8], [7, 8, SEP]])
def test_token_ids_get_the_special_tokens_that_they_lack(
    make_engine: MakeEngine, ids: list[int]
) -> None:
    """On request, special tokens are added if the ids do not already include them."""
    request = EmbedRequest(Inputs(token_ids=[ids]), add_special_tokens=True)
    (sequence,), count = make_engine().encoder.encode(request)
    assert sequence == [CLS, 7, 8, SEP]
    assert count == len(ids)


@pytest.mark.parametrize("ids", [[7, 8], [CLS, 7, 8], [7, 8, SEP], [SEP, 7, CLS], [CLS]])
def test_token_ids_without_the_special_tokens_are_refused(
    make_engine: MakeEngine, ids: list[int]
) -> None:
    """Only the special tokens on both sides show that the ids are this model's."""
    with pytest.raises(ForeignTokenIdsError, match=r"^Input 1 must hold token ids of this model"):
        make_engine().encoder.encode(EmbedRequest(Inputs(token_ids=[[CLS, 7, SEP], ids])))


def test_token_ids_are_cut_between_their_special_tokens(make_engine: MakeEngine) -> None:
    """The limit and the truncation apply to token ids as they do to texts."""
    encoder = make_engine(max_tokens=4).encoder
    ids = Inputs(token_ids=[[CLS, 5, 6, 7, SEP]])
    with pytest.raises(InputTooLongError, match="has 5 tokens"):
        encoder.encode(EmbedRequest(ids))
    assert encoder.encode(EmbedRequest(ids, truncate="left"))[0] == [[CLS, 6, 7, SEP]]


def test_a_prompt_is_not_put_before_token_ids(make_engine: MakeEngine) -> None:
    """A default prompt is ignored for token ids, and a requested prompt is refused."""
    encoder = make_engine(prompts=PROMPTS, default_prompt="query").encoder
    ids = [CLS, 7, SEP]
    assert encoder.encode(EmbedRequest(Inputs(token_ids=[ids])))[0] == [ids]
    with pytest.raises(InvalidFieldError, match="prompt cannot be put in front of token ids"):
        encoder.encode(EmbedRequest(Inputs(token_ids=[ids]), prompt="query"))


def test_only_special_tokens_are_nothing_to_embed(make_engine: MakeEngine) -> None:
    """Token ids that are all special tokens are refused as empty input."""
    with pytest.raises(EmptyInputError, match="found no token in it"):
        make_engine().encoder.encode(EmbedRequest(Inputs(token_ids=[[CLS, SEP]])))


def test_no_input_is_refused(make_engine: MakeEngine) -> None:
    """The engine refuses an empty list from Python callers, as the APIs do."""
    with pytest.raises(EmptyInputError, match="at least one input"):
        make_engine().embed([])


def test_a_pooling_without_the_prompt_needs_tokens_after_it() -> None:
    """A tokenizer that ends a text with no special token leaves nothing of an empty one to pool."""
    tokenizer = WordTokenizer()
    tokenizer.suffix = ()
    limits = Engine(manifest_of(prompts=PROMPTS), tokenizer, HashSession()).limits
    encoder = Encoder(tokenizer, limits, pools_prompt=False)
    with pytest.raises(EmptyInputError, match="no token is left after the prompt's"):
        encode(encoder, "", prompt="query")
    assert encode(encoder, "a", prompt="query")[-1:] == words("a")
