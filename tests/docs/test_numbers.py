"""The numbers on the pages are those that were measured and those that are computed."""

import json
import sys

import pytest

from .pages import ROOT

sys.path.insert(0, str(ROOT / "docs"))

from page_tables import measured_table

RUN = json.loads((ROOT / "docs" / "performance.json").read_text("utf-8"))["embeddinggemma-300m"]


@pytest.mark.parametrize("row", ["init", "peak memory", "64 texts of 8 tokens, each"])
def test_what_the_first_page_says_is_less_than_the_best_of_the_others(row):
    """Its numbers are generated from the same run."""
    (values,) = (entry["values"] for entry in RUN["rows"] if entry["name"] == row)
    assert values["kit"] < min(values[name] for name in values.keys() - {"kit", "kit-plain"})


def _size(*starts: float) -> dict[str, object]:
    requests = [{"tokens": 8, "ms": [9.4, 12.0, 10.2]}, {"tokens": 256, "ms": [90.0]}]
    return {"init_ms": starts, "first_ms": [30.0], "requests": requests}


def test_before_the_first_run_there_is_no_number(tmp_path):
    """The page says what the command will measure."""
    said = measured_table(tmp_path / "none.json")
    assert said.startswith("Not measured yet. `scripts/prove` will measure at 1,769 and 3,538 MB:")
    assert said.endswith("search of 8 tokens.")


def test_a_cell_has_the_median_and_the_range(tmp_path):
    """What AWS refused is said where the number would be."""
    measured = {
        "model": "any/model",
        "region": "eu-central-1",
        "date": "2026-12-01",
        "memory_mb": 2048,
        "memory 1769": _size(310.0, 290.6, 1200.0),
        "memory 3538": {"refused": "at most 3008"},
        "callers": {"requests": _size()["requests"]},
        "restores": {"restore_ms": [500.0, 700.0]},
        "search": {"ms": [20.0]},
    }
    file = tmp_path / "measured.json"
    file.write_text(json.dumps({"dev": measured}))
    lines = measured_table(file).splitlines()
    assert lines[0].startswith("`dev`: any/model in eu-central-1, 2026-12-01.")
    assert lines[2] == "|  | 1,769 MB | 3,538 MB | for a caller, 2,048 MB |"
    refused = "refused: at most 3008"
    assert lines[4:8] == [
        f"| start | 310 (291 to 1,200) | {refused} | – |",
        f"| first request after it | 30 (30 to 30) | {refused} | – |",
        f"| 8 tokens | 10 (9 to 12) | {refused} | 10 (9 to 12) |",
        f"| 256 tokens | 90 (90 to 90) | {refused} | 90 (90 to 90) |",
    ]
    assert "2 × SnapStart restore: 600 (500 to 700)." in lines
    assert "1 × search of 8 tokens: 20 (20 to 20)." in lines
    assert not any("provisioned" in line for line in lines)
