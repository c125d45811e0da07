"""The comparison of a template with an API's values."""

import pytest

from deploy_rehearsal.differences import differences, literals


def test_intrinsic_functions_are_not_compared():
    """Values that only a deploy can resolve are not compared."""
    asked = {
        "Name": {"Ref": "Alias"},
        "Arn": {"Fn::GetAtt": ["A", "Arn"]},
        "Size": 1,
        "List": [{"Fn::Sub": "${A}"}, "b"],
        "Ref": "a property of that name",
        "Other": 2,
    }
    assert literals(asked) == {
        "Name": None,
        "Arn": None,
        "Size": 1,
        "List": [None, "b"],
        "Ref": "a property of that name",
        "Other": 2,
    }


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (None, "anything"),
        (True, "true"),
        ("30", 30.0),
        ({"a": 1}, {"a": 1, "more": 2}),
        ([{"a": None}], [{"a": "resolved"}]),
    ],
)
def test_what_an_api_writes_otherwise_is_the_same(asked, found):
    """Numbers and booleans may be text, and additional values are allowed."""
    assert differences(asked, found) == []


@pytest.mark.parametrize(
    ("asked", "found", "expected"),
    [
        (1, 2, " asked 1, found 2"),
        ({"a": {"b": "x"}}, {"a": {}}, "a.b asked 'x', found None"),
        ({"a": {"b": "x"}}, {}, "a asked {'b': 'x'}, found None"),
        ([1, 2], [1], " asked [1, 2], found [1]"),
        ({"l": [1, 2]}, {"l": [1, 3]}, "l[1] asked 2, found 3"),
        (False, True, " asked False, found True"),
    ],
)
def test_a_difference_names_the_place_and_both_values(asked, found, expected):
    """A reader of the table needs no second run."""
    assert differences(asked, found) == [expected]
