"""What was asked for beside what was found."""

import pytest

from deploy_rehearsal.differences import differences, literals


def test_intrinsic_functions_are_not_compared():
    """What only a deploy knows is left to the deploy."""
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
    """Numbers and truth may come as text, and more may stand than was asked for."""
    assert differences(asked, found) == []


@pytest.mark.parametrize(
    ("asked", "found", "told"),
    [
        (1, 2, " asked 1, found 2"),
        ({"a": {"b": "x"}}, {"a": {}}, "a.b asked 'x', found None"),
        ({"a": {"b": "x"}}, {}, "a asked {'b': 'x'}, found None"),
        ([1, 2], [1], " asked [1, 2], found [1]"),
        ({"l": [1, 2]}, {"l": [1, 3]}, "l[1] asked 2, found 3"),
        (False, True, " asked False, found True"),
    ],
)
def test_a_difference_tells_where_what_was_asked_and_found(asked, found, told):
    """A reader of the table needs no second run."""
    assert differences(asked, found) == [told]
