"""Encoding texts as token ids: prompts, limits, truncation and special tokens."""

import re
from typing import Any

import pytest

from embedder.core.embedding_request import EmbedRequest, Inputs
from embedder.core.engine import Engine
from embedder.core.errors import ClientError, EmptyInputError, InputTooLongError, InvalidFieldError
from embedder.core.tokenization import RequestTokenizer
from tests.embedder.small_model import CLS, PROMPTS, SEP, HashSession, WordTokenizer, manifest_of

MARK, HIEROGLYPH = 7, "\U00013000"


def words(text: str) -> list[int]:
    return WordTokenizer().encode(text)


def texts(*inputs: str) -> Inputs:
    return Inputs(texts=inputs)


def encode(request_tokenizer: RequestTokenizer, text: str, **options: object) -> list[int]:
    request = EmbedRequest(Inputs(texts=[text], is_list=False), **options)  # type: ignore[arg-type]
    (sequence,), _ = request_tokenizer.encode(request)
    return sequence


GEMMA = {"prompts": PROMPTS}
FIVE, THREE = {"max_tokens": 5}, {"max_characters": 3}
ENCODED: list[tuple[dict[str, Any], str, dict[str, str], str]] = [
    ({}, "a b", {}, "a b"),
    (GEMMA, "a", {"prompt": "query"}, "task: search result | query: a"),
    (GEMMA, "a", {"prompt": "document", "title": "On Bees"}, "title: On Bees | text: a"),
    (FIVE, "a b c", {}, "a b c"),
    (FIVE, "a b c d", {"truncate": "right"}, "a b c"),
    (FIVE, "a b c d", {"truncate": "left"}, "b c d"),
    (THREE, "a b c", {"truncate": "right"}, "a b"),
    (THREE, "a b c", {"truncate": "left"}, "b c"),
    # The vector depends on the prompt, so it is kept.
    (
        {"prompts": {"query": "query: "}, **FIVE},
        "a b c d",
        {"prompt": "query", "truncate": "left"},
        "query: c d",
    ),
]


@pytest.mark.parametrize(("model", "text", "options", "expected"), ENCODED)
def test_a_text_has_its_prompt_and_fits_between_special_tokens(
    make_engine, model, text, options, expected
):
    """A title replaces the prompt's place for it; truncation keeps the end that is asked for."""
    sequences = encode(make_engine(**model).request_tokenizer, text, **options)
    assert sequences == [CLS, *words(expected), SEP]


class Lacking(WordTokenizer):
    """A tokenizer whose vocabulary lacks words that begin with x, behind a mark as Unigram's."""

    unknown = 0

    def encode(self, text: str) -> list[int]:
        """Return one id per word, and two for an unknown one."""
        readable = text.replace(HIEROGLYPH, "x")
        return [
            token_id
            for word in readable.split()
            for token_id in ([MARK, 0] if word[0] == "x" else super(Lacking, self).encode(word))
        ]


@pytest.mark.parametrize(
    ("inputs", "options", "expected"),
    [
        (texts("a b", "x", "x b", "x x b"), {}, [1, 3]),
        (texts("x b a", "a"), {}, []),
        # A prompt is the model's own text.
        (texts("x x a", "x a", "a"), {"prompt": "query"}, [0]),
        (texts("x x x x x a a a"), {"truncate": "right"}, [0]),
        (texts("x x x x x a a a"), {"truncate": "left"}, []),
        (Inputs(token_ids=[[CLS, 0, SEP]]), {}, []),
    ],
)
def test_texts_of_words_that_the_model_lacks(inputs, options, expected):
    """More than half of a text's own tokens must be unknown; marks of words do not count."""
    engine = Engine(
        manifest_of(prompts={"query": "q x: "}, max_tokens=10), Lacking(), HashSession()
    )
    request = EmbedRequest(inputs, **options)
    assert list(engine.embed_request(request).unknown) == expected


def test_the_default_prompt_serves_who_asks_for_none(make_engine):
    """The default prompt applies unless the request selects another one."""
    request_tokenizer = make_engine(prompts=PROMPTS, default_prompt="Clustering").request_tokenizer
    assert encode(request_tokenizer, "a") == encode(request_tokenizer, "a", prompt="Clustering")
    assert encode(request_tokenizer, "a") != encode(request_tokenizer, "a", prompt="query")


TITLE = {"title": "On Bees"}
REFUSED: list[tuple[dict[str, Any], Inputs, dict[str, str], type[ClientError], str]] = [
    (GEMMA, texts("a"), {"prompt": "x"}, InvalidFieldError, "one of query, document, Clustering"),
    (GEMMA, texts("a"), {"prompt": "query", **TITLE}, InvalidFieldError, r"\(document of .*query"),
    ({}, texts("a"), TITLE, InvalidFieldError, "found the prompt none"),
    (FIVE, texts("a b c d"), {}, InputTooLongError, r"^Input 0 has 6 tokens.*allows 5\.$"),
    (FIVE, texts("a", "a b c d"), {}, InputTooLongError, r"^Input 1 has 6 tokens"),
    (THREE, texts("😀😀😀😀"), {}, InputTooLongError, "has 4 characters; at most 3 are allowed"),
    ({}, texts(), {}, EmptyInputError, "at least one input"),
    ({}, Inputs(token_ids=[[CLS, SEP]]), {}, EmptyInputError, "found no token in it"),
]


@pytest.mark.parametrize(("model", "inputs", "options", "kind", "message"), REFUSED)
def test_what_cannot_be_encoded_is_refused(*, make_engine, model, inputs, options, kind, message):
    """The error names the position, the value found and the rule; an emoji is one character."""
    with pytest.raises(kind, match=message):
        make_engine(**model).request_tokenizer.encode(EmbedRequest(inputs, **options))


class GluingTokenizer(WordTokenizer):
    """A tokenizer that joins a word with the space before it, as SentencePiece does."""

    def encode(self, text: str) -> list[int]:
        """Return the id of each word with its space."""
        return [3 + sum(map(ord, word)) % 900 for word in re.findall(r" ?[^ ]+| +", text)]


def test_cutting_the_start_leaves_no_more_than_the_prompt():
    """A space at the prompt's end belongs to the first word's token and is removed with it."""
    manifest = manifest_of(prompts={"query": "query: "}, max_tokens=5)
    tokenizer = GluingTokenizer()
    request_tokenizer = Engine(manifest, tokenizer, HashSession()).request_tokenizer
    cut = encode(request_tokenizer, "a b c d", prompt="query", truncate="left")
    assert cut == [CLS, *tokenizer.encode("query: c d"), SEP]


@pytest.mark.parametrize("prompt_words", [2, 3, 4, 9])
def test_a_prompt_as_long_as_the_limit_leaves_room_for_text(make_engine, prompt_words):
    """A long prompt is cut so that the text's last token fits within the limit."""
    prompt = " ".join(f"p{number}" for number in range(prompt_words)) + " "
    request_tokenizer = make_engine(prompts={"query": prompt}, max_tokens=5).request_tokenizer
    cut = encode(request_tokenizer, "a b", prompt="query", truncate="left")
    assert len(cut) == 5
    assert cut[-2:] == [*words("b"), SEP]


def test_the_limit_of_characters_follows_that_of_tokens(make_engine):
    """The default limit is 250 characters per token of the model's limit."""
    assert make_engine(max_tokens=16).limits.max_characters == 16 * 250


@pytest.mark.parametrize("ids", [[7, 8], [CLS, 7, 8, SEP], [CLS, 7, 8], [7, 8, SEP]])
def test_token_ids_get_the_special_tokens_that_they_lack(make_engine, ids):
    """On request, special tokens are added if the ids do not already include them."""
    request = EmbedRequest(Inputs(token_ids=[ids]), add_special_tokens=True)
    (sequence,), count = make_engine().request_tokenizer.encode(request)
    assert sequence == [CLS, 7, 8, SEP]
    assert count == len(ids)


def test_token_ids_are_cut_between_their_special_tokens(make_engine):
    """The limit and the truncation apply to token ids as they do to texts."""
    request_tokenizer = make_engine(max_tokens=4).request_tokenizer
    ids = Inputs(token_ids=[[CLS, 5, 6, 7, SEP]])
    with pytest.raises(InputTooLongError, match="has 5 tokens"):
        request_tokenizer.encode(EmbedRequest(ids))
    assert request_tokenizer.encode(EmbedRequest(ids, truncate="left"))[0] == [[CLS, 6, 7, SEP]]


def test_a_prompt_is_not_put_before_token_ids(make_engine):
    """A default prompt is ignored for token ids, and a requested prompt is refused."""
    request_tokenizer = make_engine(prompts=PROMPTS, default_prompt="query").request_tokenizer
    ids = [CLS, 7, SEP]
    assert request_tokenizer.encode(EmbedRequest(Inputs(token_ids=[ids])))[0] == [ids]
    with pytest.raises(InvalidFieldError, match="prompt cannot be put in front of token ids"):
        request_tokenizer.encode(EmbedRequest(Inputs(token_ids=[ids]), prompt="query"))


def test_a_pooling_without_the_prompt_needs_tokens_after_it():
    """A tokenizer that ends a text with no special token leaves nothing of an empty one to pool."""
    tokenizer = WordTokenizer()
    tokenizer.suffix = ()
    limits = Engine(manifest_of(prompts=PROMPTS), tokenizer, HashSession()).limits
    request_tokenizer = RequestTokenizer(tokenizer, limits, pools_prompt=False)
    with pytest.raises(EmptyInputError, match="no token is left after the prompt's"):
        encode(request_tokenizer, "", prompt="query")
    assert encode(request_tokenizer, "a", prompt="query")[-1:] == words("a")
