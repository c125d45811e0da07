"""Composition is the library's NFC: that of Unicode 9, whatever Python knows."""

import unicodedata
from collections.abc import Callable
from functools import cache, partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import normalizers

from embedder.core.fast_tokenizers.composition import compose
from embedder.core.fast_tokenizers.table_file import TableFile

from .conftest import Both

NFC = normalizers.NFC().normalize_str


@cache
def not_inert() -> tuple[str, ...]:
    """Return all characters that Python composes, decomposes or moves."""
    return tuple(
        character
        for character in map(chr, range(0x110000))
        if unicodedata.combining(character)
        or unicodedata.normalize("NFD", character) != character
        or unicodedata.normalize("NFC", character) != character
    )


#: Deferred, so that a process that only collects the tests does not make them.
SOME_NOT_INERT = st.deferred(lambda: st.sampled_from(not_inert()))


@pytest.fixture(scope="module")
def composed(modernbert: Both) -> Callable[[str], str]:
    file = TableFile(str(modernbert.path))
    pages, alike = file.section("alike_pages").cast("H"), file.section("alike")
    return partial(compose, pages=pages, alike=alike)


@given(st.text(st.one_of(SOME_NOT_INERT, st.characters(exclude_categories=["Cs"]))))
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_texts_compose_as_in_the_library(composed, text):
    """Any text has the library's NFC."""
    assert composed(text) == NFC(text)


def test_every_character_composes_as_in_the_library(composed):
    """Each character that is not inert composes between letters and marks like the library's."""
    texts = [f"{c}a{c}\u0327{c}\u0301{c} \u1100{c}\u11a8" for c in not_inert()]
    assert [text for text in texts if composed(text) != NFC(text)] == []


def test_long_runs_compose_as_in_the_library(composed):
    """Runs without a space, which are composed step by step, have the library's NFC."""
    pieces = ["e\u0301", "\u1100\u1161\u11a8", "\u0327", "a\u0301\u0316", "\u0f73\u0f71", "가"]
    pieces.append("a\u030d\u0301")  # a mark blocks one of its class from composing
    texts = [piece * 700 for piece in pieces] + ["".join(pieces) * 200]
    assert [text for text in texts if composed(text) != NFC(text)] == []


def test_characters_that_the_library_does_not_know_stay(composed):
    """Unicode 13 composes U+11935 and U+11930; Python does, the library and this do not."""
    text = "\U00011935\U00011930"
    assert unicodedata.normalize("NFC", text) == "\U00011938"
    assert composed(text) == NFC(text) == text
