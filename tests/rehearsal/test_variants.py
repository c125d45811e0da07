"""Variants of an environment: sections that differ, and nothing else."""

import tomllib

from deploy_rehearsal.variants import Variant

WRITTEN = """
[model]
name = "a"

[callers]
roles = ["arn"]

[release]
kind = "linear"
percent = 25
"""


def test_a_section_is_replaced_whole_or_taken_away():
    """What another kind of release needs does not stay behind."""
    variant = Variant(name="v", settings={"release": {"kind": "all-at-once"}, "cold_start": None})
    assert tomllib.loads(variant.settings_in(WRITTEN)) == {
        "model": {"name": "a"},
        "callers": {"roles": ["arn"]},
        "release": {"kind": "all-at-once"},
    }


def test_variants_replace_each_other():
    """Each is written over the one before."""
    first = Variant(name="1", settings={"cold_start": {"kind": "provisioned", "minimum": 1}})
    then = Variant(name="2", settings={"cold_start": None})
    assert tomllib.loads(then.settings_in(first.settings_in(WRITTEN))) == tomllib.loads(WRITTEN)
