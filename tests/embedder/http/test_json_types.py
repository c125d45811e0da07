"""Parsing a request's body, and types that validate JSON values and describe them as schemas."""

import gzip
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from embedder.core.errors import EmptyInputError, InvalidFieldError, MalformedBodyError
from embedder.http.apis.fields import InputsType, TextType
from embedder.http.json_types import (
    Boolean,
    Choice,
    Field,
    Integer,
    JsonType,
    Object,
    OneOf,
    String,
    Unsupported,
    parse_object,
    quote_name,
)

IDS = InputsType(TextType(9), vocabulary_size=50, ids_hint="Ids of others.")
SIZED = Object(
    (Field("text", TextType(9), "T.", required=True), Field("size", Integer(1, 3), "S."))
)
TYPES: dict[str, JsonType] = {
    "boolean": Boolean(),
    "integer": Integer(1, 10),
    "sizes": Choice((32, 16)),
    "words": Choice(("right", "left")),
    "any case": Choice(("Left", "Right"), any_case=True),
    "string": String(5),
    "one of": OneOf((Boolean(), Choice(("left",)))),
    "nothing": Unsupported("this model has none"),
    "text": TextType(100),
    "texts": InputsType(TextType(100), single=False),
    "inputs": InputsType(TextType(100), vocabulary_size=50),
    "object": Object((Field("a", Integer(1, 3), "A.", required=True), Field("b", Boolean(), "B."))),
}
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 60)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not x.is_integer())
    | st.sampled_from(["left", "Left", "LEFT", "right", "rightx", "", " ", "\n", "a", "abcdef"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=5,
)


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
@settings(max_examples=50)
@given(value=VALUES)
def test_the_schema_allows_exactly_what_is_taken(kind, value):
    """The schema of a type is valid, and allows exactly the values that the type accepts."""
    Draft202012Validator.check_schema(kind.schema)
    try:
        kind.check(value, "field")
        taken = True
    except (InvalidFieldError, EmptyInputError):
        taken = False
    assert Draft202012Validator(kind.schema).is_valid(value) == taken


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Boolean(), 1, '"x" must be true or false; found the number 1.'),
        (Integer(1, 10), True, '"x" must be a whole number from 1 to 10; found true.'),
        (Integer(1, 10), 2.0, "found the number 2.0."),
        (Choice((32, 16)), 64, '"x" must be one of 32, 16; found the number 64.'),
        (Choice((384,)), 1, '"x" must be 384; found the number 1.'),
        (Choice((1, 2)), False, "found false."),
        (Choice(("a", "b")), "c", '"x" must be one of "a", "b"; found "c".'),
        (Choice(("a", "b")), "my own text", "found a string of 11 characters."),
        (Choice(tuple(f"p{i}" for i in range(50))), "c", r'"p39", … \(50 in all\); found "c".'),
        (String(3), "long text", "a string of at most 3 characters; found a string of 9"),
        (Unsupported("the model has no prompts"), "q", "null or absent .the model has no prompts."),
        (OneOf((Boolean(), Integer(0, 1))), "z", "true or false, or a whole number from 0 to 1"),
        (OneOf((Boolean(), Choice(("left",)))), "text", 'or "left"; found a string of 4'),
        (InputsType(TextType(9), single=False), "word", "found a string of 4 characters"),
        (TextType(9), 5, "a string with at most 9 characters, not all of them blank; found the"),
        (InputsType(TextType(9)), 5, "a string, or a list of strings that is not empty; found"),
        (InputsType(TextType(9), vocabulary_size=50), [1, 50], r'"x\[1\]" must be a token id'),
        (InputsType(TextType(9), vocabulary_size=50), [[1, True]], r'"x\[0\]\[1\]" must be a'),
        (InputsType(TextType(9), vocabulary_size=50), ["a", [1]], r'"x\[1\]" must be a string'),
        (InputsType(TextType(9), vocabulary_size=50), [[1], "a"], r'"x\[1\]" must be'),
        *(
            (IDS, value, rf'"x\[0\]" must be a string, or a token id, .* 49; found {found}\.$')
            for value, found in (
                ([None, "a"], "null"),
                ([{"type": "text"}], "an object"),
                ([1.5], "the number 1.5"),
            )
        ),
        (IDS, [["a"]], r'"x\[0\]\[0\]" must be a token id, .*; found a string of 1 characters\.$'),
        (IDS, [50], r'"x\[0\]" must be a token id, .*; found the number 50\. Ids of others\.$'),
        (SIZED, {"text": "a", "dimension": 3}, 'unknown: "dimension". Allowed: "text", "size".'),
        (SIZED, {"text": "a", "some thing": 3}, "unknown: a string of 10 characters"),
        (SIZED, {"input": "a"}, r'"x\.text" is missing.*Found the fields "input"'),
        (SIZED, {}, "Found no field"),
        (SIZED, {"text": "a", "size": "b"}, r'"x\.size" must be a whole number'),
    ],
)
def test_a_refusal_says_what_is_allowed_and_what_was_found(kind, value, message):
    """The message has the field, the rule and the value found."""
    with pytest.raises(InvalidFieldError, match=message):
        kind.check(value, "x")


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (TextType(9), "", "found an empty string"),
        (TextType(9), " \t\u2003", "found 3 blank characters"),
        (InputsType(TextType(9)), [], "found an empty list"),
        (InputsType(TextType(9)), ["a", " "], r'"x\[1\]" must be .* found 1 blank'),
        (InputsType(TextType(9), vocabulary_size=5), [[1], []], r'"x\[1\]" must hold token ids'),
    ],
)
def test_nothing_to_embed_is_an_error_of_its_own(kind, value, message):
    """Empty inputs raise a separate error, because APIs report them with a separate status."""
    with pytest.raises(EmptyInputError, match=message):
        kind.check(value, "x")


def test_an_object_gives_every_field():
    """An absent field has its default, and null counts as absent."""
    object_type = Object((Field("a", Integer(1, 3), "A.", default=2), Field("b", Boolean(), "B.")))
    assert object_type.check({"a": None}) == {"a": 2, "b": None}
    assert object_type.check({"a": 3, "b": False}) == {"a": 3, "b": False}
    # Clients send what their users did not set; it would do nothing here either.
    around = Object((Field("inner", object_type, "An object."),))
    unknown = {"inner": {"a": 3, "task": None}, "rank_fields": None}
    assert around.check(unknown) == {"inner": {"a": 3, "b": None}}
    with pytest.raises(InvalidFieldError, match='in "inner" is unknown: "task"'):
        around.check({"late": None, "inner": {"user": None, "task": False}})


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


def test_a_name_that_is_too_much_of_a_text_is_not_quoted():
    """Long keys and names are described by their length too, because they may contain text."""
    assert quote_name("num_results") == '"num_results"'
    assert quote_name("embeddinggemma-300m:query") == '"embeddinggemma-300m:query"'
    assert quote_name("a secret of mine") == "a string of 16 characters"
    assert quote_name("a" * 41) == "a string of 41 characters"
