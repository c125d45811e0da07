"""The check of filters, compared with the stand-in's own reading of AWS's user guide."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from embedder.core.errors import InvalidFieldError
from embedder.http.metadata_filter import MetadataFilter
from tests.fixtures.s3_vectors.matching import InvalidFilterError, matches

FILTER = MetadataFilter()
# Within another schema, as in the document.
VALIDATOR = Draft202012Validator({"anyOf": [FILTER.schema, {"const": "another"}]})
OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$and", "$or")

PRIMITIVES = st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | st.sampled_from(["a", "b"])
VALUES = st.recursive(
    PRIMITIVES | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*OPERATORS, "$not", "k", "l"]), inner, max_size=2)
    ),
    max_leaves=12,
)


def is_valid(value: Any) -> bool:
    try:
        FILTER.check(value, "filter")
    except InvalidFieldError:
        return False
    return True


@settings(max_examples=300, deadline=None)
@given(VALUES)
def test_the_check_the_document_and_the_stand_in_agree(value):
    """All three accept exactly the same filters."""
    try:
        matches(value, {}, non_filterable=())
        allowed = True
    except InvalidFilterError:
        allowed = False
    assert is_valid(value) == VALIDATOR.is_valid(value) == allowed


@pytest.mark.parametrize(
    "value",
    [
        {"genre": "documentary"},
        {"genre": {"$eq": "documentary"}},
        {"genre": {"$ne": "drama"}},
        {"year": {"$gt": 2019}},
        {"year": {"$gte": 2020, "$lte": 2024}},
        {"genre": {"$in": ["comedy", "documentary"]}},
        {"genre": {"$nin": ["comedy", "documentary"]}},
        {"genre": {"$exists": True}},
        {"$and": [{"genre": {"$eq": "drama"}}, {"year": {"$gte": 2020}}]},
        {"$or": [{"genre": {"$eq": "drama"}}, {"$and": [{"year": 2020}, {"good": True}]}]},
    ],
)
def test_the_examples_of_the_user_guide_are_accepted(value):
    """A valid filter is passed on unchanged."""
    assert FILTER.check(value, "filter") is value
    assert VALIDATOR.is_valid(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a", '"filter" must be an object; found a string of 1 characters'),
        ({}, '"filter" must have one key; combine conditions with $and; found 0'),
        ({"a": 1, "b": 2}, '"filter" must have one key; combine conditions with $and; found 2'),
        ({"$not": []}, '"filter" has an unknown operator; found $not'),
        ({"year": {"$near": 1}}, '"filter.year" has an unknown operator; found $near'),
        ({"year": {"gte": 1}}, '"filter.year" has an unknown operator; found gte'),
        ({"year": {"$gte": "2020"}}, '"filter.year.$gte" must be a number; found a string of 4'),
        ({"year": {"$gte": True}}, '"filter.year.$gte" must be a number; found true'),
        ({"genre": {"$in": []}}, '"filter.genre.$in" must be a list of at least one'),
        ({"genre": {"$in": [["a"]]}}, '"filter.genre.$in" must be a list of at least one'),
        ({"genre": ["a"]}, '"filter.genre" must be a string, a number or a boolean, or an object'),
        ({"genre": None}, "found null"),
        ({"genre": {}}, '"filter.genre" must have an operator; found none'),
        ({"genre": {"$exists": 1}}, '"filter.genre.$exists" must be true or false'),
        ({"$and": []}, '"filter.$and" must be a list of at least one filter'),
        ({"$and": [{"a": 1}, {}]}, '"filter.$and[1]" must have one key'),
        ({"k" * 64: 1}, "must name a metadata key of 1 to 63 characters; found 64"),
    ],
)
def test_a_mistake_is_named_with_its_place(value, message):
    """The error has the place, the rule, the value found, and the allowed operators."""
    with pytest.raises(InvalidFieldError) as caught:
        FILTER.check(value, "filter")
    assert message in caught.value.message
    assert caught.value.message.endswith(
        "Operators of a filter: $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $exists, $and, $or."
    )
    assert caught.value.field == "filter"


def test_no_value_is_quoted():
    """A value may be a user's text, and so may a key that does not look like a name."""
    with pytest.raises(InvalidFieldError) as caught:
        FILTER.check({"my secret thoughts": {"$gte": "a user's text"}}, "filter")
    assert "secret" not in caught.value.message
    assert "user's" not in caught.value.message


def test_a_filter_without_end_is_refused():
    """Nesting is bounded, so that no filter overflows the stack."""
    value: dict[str, Any] = {"a": 1}
    for _ in range(900):
        value = {"$and": [value]}
    with pytest.raises(InvalidFieldError, match="must be nested at most 16 deep"):
        FILTER.check(value, "filter")


def test_the_error_of_a_field_names_the_operators():
    """The words for another type's error list the operators too."""
    assert "$exists, $and, $or" in FILTER.allowed
