"""Test provisioned concurrency: its bounds stay ordered whichever schedule acted last."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pydantic import ValidationError

from embedding_kit import Provisioned, ScheduledCapacity
from stacks.environment_file import load_environment

AT = "cron(0 8 ? * MON-FRI *)"


def _entry(hour: int, minimum: int | None, maximum: int | None) -> ScheduledCapacity:
    return ScheduledCapacity(at=f"cron(0 {hour} * * ? *)", minimum=minimum, maximum=maximum)


def test_entries_that_set_both_bounds_may_be_far_apart():
    """Each entry replaces both bounds of the entry before it."""
    provisioned = Provisioned(
        minimum=1, maximum=4, schedule=(_entry(8, 5, 20), _entry(19, 1, 3), _entry(12, 30, 40))
    )
    assert provisioned.ceiling == 40


PAIRS = some.tuples(some.integers(1, 9), some.integers(0, 9)).map(lambda p: (p[0], p[0] + p[1]))
ENTRIES = some.lists(
    PAIRS | PAIRS.map(lambda p: (p[0], None)) | PAIRS.map(lambda p: (None, p[1])), max_size=3
)


def _disordered(initial: tuple[int, int], entries: list[tuple[int | None, int | None]]) -> bool:
    """Return whether an order of the entries, each acting twice, puts a minimum above a maximum."""
    for order in permutations([*entries, initial]):
        minimum, maximum = initial
        for low, high in (*order, *order):
            minimum, maximum = low or minimum, high or maximum
            if minimum > maximum:
                return True
    return False


@given(initial=PAIRS, entries=ENTRIES)
def test_exactly_the_schedules_that_can_get_out_of_order_are_refused(initial, entries):
    """A schedule is refused exactly if AWS could reject it at run time."""
    schedule = tuple(_entry(n, *bounds) for n, bounds in enumerate(entries))
    try:
        Provisioned(minimum=initial[0], maximum=initial[1], schedule=schedule)
    except ValidationError:
        assert _disordered(initial, entries)
    else:
        assert not _disordered(initial, entries)


def test_a_schedule_is_read_from_a_file(tmp_path):
    """An array of tables in TOML becomes a tuple of settings."""
    (tmp_path / "test.toml").write_text(
        '[model]\nname = "any/model"\n'
        '[cold_start]\nkind = "provisioned"\nminimum = 2\nmaximum = 8\n'
        f'[[cold_start.schedule]]\nat = "{AT}"\n'
        'time_zone = "Europe/Berlin"\nminimum = 5\nmaximum = 20\n'
        '[[cold_start.schedule]]\nat = "rate(1 day)"\nmaximum = 9\n'
    )
    assert load_environment("test", folder=tmp_path).cold_start == Provisioned(
        minimum=2,
        maximum=8,
        schedule=(
            ScheduledCapacity(at=AT, time_zone="Europe/Berlin", minimum=5, maximum=20),
            ScheduledCapacity(at="rate(1 day)", maximum=9),
        ),
    )


@pytest.mark.parametrize(
    ("target", "duration"), [(0.7, None), (0.7, "20ms"), (0.7, "10ms"), (0.5, "50ms")]
)
def test_a_target_that_the_limit_of_requests_keeps_out_of_reach_is_named(
    snapshot, target, duration
):
    """The warning has the numbers and names the setting to change."""
    settings = Provisioned(target_utilization=target, request_duration=duration)
    assert settings.warning == snapshot


@pytest.mark.parametrize(("target", "duration"), [(0.35, "50ms"), (0.9, "100ms"), (0.9, "5s")])
def test_a_target_within_reach_has_no_warning(target, duration):
    """The limit of requests then lets an environment pass the target."""
    assert Provisioned(target_utilization=target, request_duration=duration).warning is None


@pytest.mark.parametrize(("duration", "highest"), [(None, 1), ("50ms", 0.5), ("2s", 1)])
def test_short_requests_cannot_use_a_whole_environment(duration, highest):
    """Ten requests per second of 50 ms each are half a second of work."""
    assert Provisioned(request_duration=duration).highest_utilization == highest
