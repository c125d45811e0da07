"""The report of one family: ratios, targets and what missed them."""

import json

import pytest

from tools.bench.families.report import FamilyResults, FamilyRow, as_json, as_table, target


@pytest.fixture
def results() -> FamilyResults:
    """One measurement under its target, and one over it."""
    return FamilyResults(
        family="all-mpnet-base-v2",
        base="plain ONNX export",
        machine="A CPU",
        sizes={"artifact": 117.4},
        rows=[
            FamilyRow("init", "ms", kit=90.0, base=900.0, target=0.2),
            FamilyRow("256 tokens", "ms", kit=9.5, base=10.0, target=0.5),
        ],
    )


def test_the_table_has_values_ratios_and_targets(results: FamilyResults) -> None:
    """A ratio over its target is marked."""
    table = as_table(results)
    assert "| init, ms | 900 | 90.0 (0.10) | ≤ 0.20 |" in table
    assert "| 256 tokens, ms | 10.0 | 9.5 (0.95) **missed** | ≤ 0.50 |" in table
    assert "artifact: 117 MB on disk" in table


def test_the_json_has_the_ratios(results: FamilyResults) -> None:
    """For programs that compare runs."""
    value = json.loads(as_json(results))
    assert [row["ratio"] for row in value["rows"]] == [0.1, 0.95]


def test_a_large_vocabulary_has_a_stricter_target_for_the_start() -> None:
    """Loading such a tokenizer is most of a usual start."""
    assert target("init", vocabulary=30_522) == 1 / 5
    assert target("init", vocabulary=250_002) == 1 / 8
    assert target("peak memory", vocabulary=250_002) == 0.5
