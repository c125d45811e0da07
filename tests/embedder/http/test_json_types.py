"""Types that validate JSON values and describe them as JSON Schema."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from embedder.core.errors import EmptyInputError, InvalidFieldError
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
)

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
        (Choice((1, 2)), True, "found true."),
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
    kind = Object((Field("a", Integer(1, 3), "A.", default=2), Field("b", Boolean(), "B.")))
    assert kind.check({"a": None}) == {"a": 2, "b": None}
    assert kind.check({"a": 3, "b": False}) == {"a": 3, "b": False}
