"""Variants of an environment's file."""

import tomllib

from tools.rehearsal.deploy.variants import Variant

WRITTEN = """
[model]
name = "a"

[callers]
roles = ["arn"]

[release]
kind = "linear"
percent = 25
"""


def test_a_section_is_replaced_or_removed():
    """Keys of the old section are removed too."""
    variant = Variant(name="v", settings={"release": {"kind": "all-at-once"}, "cold_start": None})
    assert tomllib.loads(variant.settings_in(WRITTEN)) == {
        "model": {"name": "a"},
        "callers": {"roles": ["arn"]},
        "release": {"kind": "all-at-once"},
    }


def test_variants_replace_each_other():
    """The changes of the previous variant are undone."""
    first = Variant(name="1", settings={"cold_start": {"kind": "provisioned", "minimum": 1}})
    then = Variant(name="2", settings={"cold_start": None})
    assert tomllib.loads(then.settings_in(first.settings_in(WRITTEN))) == tomllib.loads(WRITTEN)
