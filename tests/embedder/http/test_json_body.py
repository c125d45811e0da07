"""Parsing a request body as a JSON object."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedder.core.errors import MalformedBodyError
from embedder.http.json_types import describe_value, parse_object, quote_name

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=4), st.booleans(), st.booleans())
def test_every_object_is_taken_as_it_is(value, ascii_only, spaced):
    """Every object is accepted, with or without escapes, indented or compact, nested or flat."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=1 if spaced else None)
    assert parse_object(text.encode()) == value


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "The body is missing; it must be a JSON object. Found 0 bytes."),
        (b" \n", "The body is missing"),
        (b"[]", "must be a JSON object; found a list of 0 items"),
        (b"null", "must be a JSON object; found null"),
        (b'"text"', "must be a JSON object; found a string of 4 characters"),
        (b"{", "must be JSON; found unexpected end of data at line 1, column 2"),
        (b'{"a": NaN}', "NaN, Infinity, numbers beyond"),
        (b'{"a": -Infinity}', "must be JSON"),
        (b'{"a": 1e999}', "number is infinity when parsed as double"),
        (b'{"a": "\\ud800"}', "no low surrogate"),
        (b'{"a": "\\udc00"}', "surrogate"),
        (b'{"a": "\xed\xa0\x80"}', "must be UTF-8; byte 7 is not"),
        (b'{"a": "\xff"}', "must be UTF-8; byte 7 is not .invalid start byte."),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'{"a": "' + b"x" * 50 + b'"', "must be JSON"),
        (b"[" * 2000, "must be JSON"),
        (gzip.compress(b"{}", mtime=0), '"content-encoding: gzip" does not say so'),
    ],
)
def test_what_is_no_object_is_refused(body, message):
    """The error gives the problem, its position, and the allowed format."""
    with pytest.raises(MalformedBodyError, match=message):
        parse_object(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"text": "a", "text": "b"}',
        b'{"text": "a", "te\\u0078t": "b"}',
        b'{"text" : "a" ,\n"text"\t: "b"}',
        b'{"a": {"b": 1, "b": 2}}',
        b'{"a": [{"b": 1, "b": 2}]}',
        b'{"a": 1, "b": {"c": 1}, "b": {}}',
    ],
)
def test_a_key_that_stands_twice_is_refused(body):
    """Duplicate keys are refused, because JSON parsers disagree on which value counts."""
    with pytest.raises(MalformedBodyError, match="a key twice in one object"):
        parse_object(body)


@pytest.mark.parametrize("opening", ['{"a":', '{"a":[', "["])
def test_depth_is_no_way_to_break_it(opening):
    """An object at the parser's depth limit is accepted, and a deeper one is refused."""
    closing = "".join({"{": "}", "[": "]"}[c] for c in reversed(opening) if c in "{[")
    depth = 1000 // len(closing)
    body = '{"a": ' + opening * depth + "1" + closing * depth + "}"
    assert set(parse_object(body.encode())) == {"a"}
    with pytest.raises(MalformedBodyError, match="depth limit exceeded"):
        parse_object(body.replace("1", opening * 100 + "1" + closing * 100).encode())


@pytest.mark.parametrize(
    "text", ['"text": "b"', '\\"', '":', "\\", '{"text":1}', '"a":"a":', '\\\\":']
)
def test_a_text_that_looks_like_keys_is_no_key(text):
    """Only keys are compared, not the contents of strings."""
    body = json.dumps({"text": text, "texts": [text, {"a": text}]}).encode()
    assert parse_object(body)["text"] == text


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "null"),
        (True, "true"),
        (3, "the number 3"),
        (1e30, "the number 1e+30"),
        ("left", "a string of 4 characters"),
        ("my secret", "a string of 9 characters"),
        ("é", "a string of 1 characters"),
        ("", "a string of 0 characters"),
        ([1, 2], "a list of 2 items"),
        ({"secret": 1}, "an object"),
    ],
)
def test_what_was_found_is_told_without_anybodys_text(value, told):
    """A string is described by its length, so that an error never quotes a user's text."""
    assert describe_value(value) == told


def test_a_name_that_is_too_much_of_a_text_is_not_quoted():
    """Long keys and names are described by their length too, because they may contain text."""
    assert quote_name("num_results") == '"num_results"'
    assert quote_name("embeddinggemma-300m:query") == '"embeddinggemma-300m:query"'
    assert quote_name("a secret of mine") == "a string of 16 characters"
    assert quote_name("a" * 41) == "a string of 41 characters"
