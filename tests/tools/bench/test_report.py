"""The report of a benchmark run: ratios, targets and absent contenders."""

import json
from typing import Any

import pytest

from tools.bench.report import Machine, Results, Row, as_json, as_table


@pytest.fixture
def results() -> Results:
    """Two contenders measured, one of them over a target, and one absent."""
    return Results(
        model="replica <full>",
        exported_by="torch.onnx.export(dynamo=True)",
        machine=Machine("A CPU", 2, 0.5, "1.31.1", 5e11),
        labels={"baseline": "baseline", "kit": "Embedding Kit", "peer": "a peer"},
        absent={"a peer": "peer is not installed"},
        rows=[
            Row("8 tokens", "ms", {"baseline": 10.0, "kit": 8.0}),
            Row("512 tokens", "ms", {"baseline": 300.0, "kit": 290.0}),
            Row("other", "MB", {"baseline": 100.0, "kit": 450.0}),
        ],
        notes=["a note"],
        full_size=True,
    )


def test_ratios_are_relative_to_the_baseline(results: Results) -> None:
    """And a contender without a value has none."""
    assert results.rows[0].ratio("kit") == pytest.approx(0.8)
    assert results.rows[0].ratio("peer") is None


def test_what_is_over_its_target_is_named(results: Results) -> None:
    """290 of 300 is more than 0.94; the row without a target cannot miss it."""
    assert results.missed() == ["512 tokens"]


def test_a_smaller_model_has_no_targets(results: Results) -> None:
    """They were set for the full size."""
    small = Results(**{**_fields(results), "full_size": False})
    assert small.missed() == []


def test_the_table_has_values_ratios_targets_and_the_absent(results: Results) -> None:
    """Never silently left out."""
    table = as_table(results)
    assert "| 8 tokens, ms | 10.0 | 8.0 (0.80) | ≤ 0.88 |" in table
    assert "- a note" in table
    assert "- a peer: absent (peer is not installed)" in table


def test_the_json_has_the_ratios(results: Results) -> None:
    """For programs that compare runs."""
    value = json.loads(as_json(results))
    assert value["rows"][0]["ratios"] == {"baseline": 1.0, "kit": 0.8}
    assert value["missed"] == ["512 tokens"]


def _fields(results: Results) -> dict[str, Any]:
    return {name: getattr(results, name) for name in Results.__dataclass_fields__}
