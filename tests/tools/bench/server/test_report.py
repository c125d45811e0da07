"""The report of `scripts/bench server`: ratios within a round, targets, and the picture."""

import itertools
import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from tools.bench.server.load import Load, Sent, bodies
from tools.bench.server.measure import LOADS, Cell, Fairness
from tools.bench.server.picture import as_svg
from tools.bench.server.report import Process, Results, as_json, as_table, missed

SHORT_64 = Load("short", 64)


def cell(*cpu_ms: float) -> Cell:
    rounds = len(cpu_ms)
    return Cell(list(cpu_ms), [100.0] * rounds, [10.0] * rounds, [50.0] * rounds)


@pytest.fixture
def results() -> Results:
    """Return results in which everything reaches its target."""
    cells = {("kit", load): cell(2.0, 2.0, 4.0) for load in LOADS}
    cells |= {("one by one", load): cell(4.0, 4.0, 8.0) for load in LOADS}
    cells |= {("infinity", load): cell(10.0, 10.0, 20.0) for load in LOADS}
    return Results(
        cpu="A CPU",
        load_average=1.5,
        labels={"kit": "Embedding Kit", "one by one": "one by one", "infinity": "infinity"},
        cells=cells,
        processes={
            "kit": Process(1.0, 0.5, 100.0),
            "one by one": Process(1.0, 0.5, 100.0),
            "infinity": Process(50.0, 20.0, 900.0),
        },
        fairness=Fairness(p50_ms=20.0, p99_ms=60.0, run_ms=25.0, singles=100, lists=5),
    )


def test_a_ratio_is_the_median_of_the_rounds_ratios(results: Results) -> None:
    """What slows a round slows all servers in it, so rounds are compared with themselves."""
    cells = {**results.cells, ("infinity", SHORT_64): cell(10.0, 12.0, 40.0)}
    assert replace(results, cells=cells).ratio("infinity", SHORT_64) == 6.0


def test_the_table_has_every_load_and_its_target(results: Results) -> None:
    """A load is a row with the CPU time of each server, the ratios, and the target."""
    table = as_table(results)
    assert "| short, 64 clients | 2.00 | 4.00 | 10.00 | ×2.00 | ×5.00 | ≥ 4 (infinity) |" in table
    assert "| mixed, 1 client | 2.00 |" in table
    assert "p99 60 ms, which is 2.4 runs of 256 tokens (25 ms each)" in table


def test_what_misses_its_target_is_named(results: Results) -> None:
    """Nothing else is."""
    assert missed(results) == []
    cells = {
        **results.cells,
        ("infinity", Load("short", 1)): cell(6.0, 6.0, 12.0),
        ("one by one", SHORT_64): cell(2.8, 2.8, 5.6),
    }
    slow = replace(
        results,
        cells=cells,
        processes={**results.processes, "infinity": Process(10.0, 5.0, 300.0)},
        fairness=Fairness(p50_ms=20.0, p99_ms=100.0, run_ms=25.0, singles=100, lists=5),
    )
    assert missed(slow) == [
        "short, 1 clients: ×3.00, target 3.5",
        "merging, short, 64 clients: ×1.40, target 1.5",
        "start: 1/10.0 of infinity's, target 1/40",
        "memory: 1/3.0 of infinity's, target 1/5",
        "single texts beside lists: 4.0 runs, target 3",
    ]


def test_without_infinity_its_targets_are_left_out(results: Results) -> None:
    """The table and the picture have the servers that were measured."""
    alone = replace(
        results,
        cells={key: value for key, value in results.cells.items() if key[0] != "infinity"},
        labels={name: name for name in ("kit", "one by one")},
        processes={name: results.processes[name] for name in ("kit", "one by one")},
    )
    assert missed(alone) == []
    assert "infinity ÷" not in as_table(alone)
    assert ET.fromstring(as_svg(alone)).tag.endswith("svg")


def test_the_json_has_every_round(results: Results) -> None:
    """So that another run can be compared with it."""
    value = json.loads(as_json(results))
    assert len(value["cells"]) == 18
    assert value["cells"][0]["cpu_ms"] == [2.0, 2.0, 4.0]


def test_the_picture_has_a_line_for_each_server_and_kind(results: Results) -> None:
    """Each line has a point for 1, 8 and 64 clients."""
    root = ET.fromstring(as_svg(results))
    lines = [element for element in root.iter() if element.tag.endswith("polyline")]
    assert len(lines) == 6
    assert all(len(line.attrib["points"].split()) == 3 for line in lines)


def test_labels_of_points_that_are_close_do_not_cover_each_other(results: Results) -> None:
    """Two servers may be almost alike; each point's number is still readable."""
    cells = {
        (name, load): replace(cell, per_second=[rate + load.clients], p50_ms=[10.0 + load.clients])
        for (name, load), cell in results.cells.items()
        for rate in [{"kit": 100.0, "one by one": 112.0, "infinity": 20.0}[name]]
    }
    root = ET.fromstring(as_svg(replace(results, cells=cells)))
    labels = [
        (float(text.attrib["x"]), float(text.attrib["y"]), 4 * len(text.text or ""))
        for text in root.iter()
        if (text.text or "").isdigit()
    ]
    assert len(labels) == 18
    covered = [
        (one, other)
        for one, other in itertools.combinations(labels, 2)
        if abs(one[0] - other[0]) < one[2] + other[2] and abs(one[1] - other[1]) < 8
    ]
    assert covered == []


def test_texts_differ_and_can_be_had_again() -> None:
    """A cache answers none of them, and another run sends the same."""
    made = bodies("mixed", texts=4, seed=3)
    assert len(set(made)) == len(made) == 1000
    assert made == bodies("mixed", texts=4, seed=3)
    assert len(json.loads(made[0])["input"]) == 4


def test_a_load_that_is_never_answered_is_an_error() -> None:
    """A server that answers errors has no CPU time of a request."""
    with pytest.raises(RuntimeError, match=r"no request was answered; statuses: \{429: 7\}"):
        Cell().add(Sent(statuses={429: 7}, seconds=1.0), 0.5)
