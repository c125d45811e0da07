"""Test which sizes an environment can have."""

import pytest

from embedding_kit.environment import Environment
from embedding_kit.settings import FunctionSettings, Model
from tuning.sizes import SIZES, sizes_of


def environment(**function):
    return Environment(
        name="dev", model=Model(name="any/model"), function=FunctionSettings(**function)
    )


def test_three_sizes_are_measured():
    """One vCPU, the default, and two vCPUs with two threads."""
    assert [str(size) for size in SIZES] == [
        "1,769 MB, 1 thread",
        "2,048 MB, 1 thread",
        "3,538 MB, 2 threads",
    ]
    assert sizes_of(environment()) == (SIZES, ())


def test_a_size_above_the_accounts_quota_is_left_out():
    """With a note."""
    sizes, notes = sizes_of(environment(memory_mb=1769, account_memory_mb=3008))
    assert sizes == SIZES[:2]
    assert notes == ("3,538 MB, 2 threads is left out: account_memory_mb = 3008",)


@pytest.mark.parametrize("memory", [128, 3008])
def test_the_present_size_does_not_matter(memory):
    """It is not measured."""
    assert sizes_of(environment(memory_mb=memory))[0] == SIZES
