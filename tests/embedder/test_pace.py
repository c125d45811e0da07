"""Predictions of the duration of a run."""

from embedder.pace import Pace


def pace_of(*runs: tuple[int, float]) -> Pace:
    """Return a pace with these measured runs, each with tokens and seconds."""
    pace = Pace()
    for tokens, seconds in runs:
        pace.measured(tokens, seconds)
    return pace


def test_it_needs_three_comparable_runs() -> None:
    """Two runs are too few, and runs of less than half or over twice the size do not count."""
    assert pace_of().seconds(100) is None
    assert pace_of((100, 1.0), (100, 1.0)).seconds(100) is None
    assert pace_of((100, 1.0), (100, 1.0), (49, 1.0), (201, 1.0)).seconds(100) is None
    assert pace_of((100, 1.0), (50, 0.5), (200, 2.0)).seconds(100) == 1.0


def test_it_is_the_median_per_token() -> None:
    """One slow run of three does not change the prediction, which is scaled by the tokens."""
    pace = pace_of((100, 1.0), (100, 90.0), (100, 2.0))
    assert pace.seconds(100) == 2.0
    assert pace.seconds(150) == 3.0


def test_newer_runs_replace_older_ones() -> None:
    """The prediction follows the new speed after a few runs."""
    pace = pace_of(*[(100, 50.0)] * 100, *[(100, 1.0)] * 5)
    assert pace.seconds(100) == 1.0


def test_runs_of_other_sizes_do_not_push_out_everything_forever() -> None:
    """The history is limited, so that old runs are dropped."""
    pace = pace_of(*[(100, 1.0)] * 3, *[(8, 0.1)] * 100)
    assert pace.seconds(100) is None
    assert pace.seconds(8) == 0.1


def test_forgetting_drops_what_the_prediction_used_and_nothing_else() -> None:
    """Comparable runs are dropped, and other runs are kept."""
    pace = pace_of(*[(100, 1.0)] * 3, *[(8, 0.1)] * 3)
    pace.forget(100)
    assert pace.seconds(100) is None
    assert pace.seconds(8) == 0.1
