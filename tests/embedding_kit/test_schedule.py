"""Test the schedule expressions against the rules that AWS documents."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from embedding_kit.settings.schedule import check_schedule, firing_times


@pytest.mark.parametrize(
    "expression",
    [
        "cron(0 8 ? * MON-FRI *)",
        "cron(30 6 ? * MON *)",
        "cron(0/15 8-17,20 L * ? 2026-2030)",
        "cron(*/5 * * * ? *)",
        "cron(59 23 31 12 ? 2199)",
        "cron(0 0 1 1 ? 1970)",
        "cron(0/59 0/23 1/31 JAN,DEC ? *)",
        "cron(0-30/10 0 1-31/2 2/3 ? 2026/2)",
        "cron(0 8 3W * ? *)",
        "cron(0 8 31W 1 ? *)",
        "cron(0 8 ? * L *)",
        "cron(0 8 ? * 6L *)",
        "cron(0 8 ? * 3#2 *)",
        "cron(0 8 ? * FRI#5 *)",
        "cron(0 8 ? * 1,7 *)",
        "cron(0 0 29 FEB ? *)",
        "cron(0 0 29 2 ? 2028)",
        "cron(0  8  ?  *  MON  *)",
        "at(2028-02-29T23:59:59)",
        "rate(1 minute)",
        "rate(1 hour)",
        "rate(1 day)",
        "rate(2 days)",
        "rate(10 minutes)",
    ],
)
def test_what_aws_documents_is_accepted(expression):
    """Names, ranges, lists, steps, `?`, `L`, `W` and `#` are accepted up to their bounds."""
    check_schedule(expression)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            "cron(99 99 99 99 FOO 1)",
            "minutes of cron(...) is not valid; found: 99; allowed: 0-59, and , - * /",
        ),
        (
            "cron(60 8 ? * MON *)",
            "minutes of cron(...) is not valid; found: 60; allowed: 0-59, and , - * /",
        ),
        (
            "cron(0 24 ? * MON *)",
            "hours of cron(...) is not valid; found: 24; allowed: 0-23, and , - * /",
        ),
        (
            "cron(0 8 0 * ? *)",
            "day of month of cron(...) is not valid; found: 0; allowed: 1-31, and , - * / ? L W",
        ),
        (
            "cron(0 8 32W * ? *)",
            "day of month of cron(...) is not valid; found: 32W; allowed: 1-31, and , - * / ? L W",
        ),
        (
            "cron(0 8 1 13 ? *)",
            "month of cron(...) is not valid; found: 13; allowed: 1-12 or JAN-DEC, and , - * /",
        ),
        (
            "cron(0 8 ? * FOO *)",
            (
                "day of week of cron(...) is not valid; found: FOO; "
                "allowed: 1-7 or SUN-SAT, and , - * ? L #"
            ),
        ),
        (
            "cron(0 8 ? * 0 *)",
            (
                "day of week of cron(...) is not valid; found: 0; "
                "allowed: 1-7 or SUN-SAT, and , - * ? L #"
            ),
        ),
        (
            "cron(0 8 ? * MON#6 *)",
            (
                "day of week of cron(...) is not valid; found: MON#6; "
                "allowed: 1-7 or SUN-SAT, and , - * ? L #"
            ),
        ),
        (
            "cron(0 8 ? * 3#1,6#3 *)",
            (
                "day of week of cron(...) is not valid; found: 3#1,6#3; "
                "allowed: 1-7 or SUN-SAT, and , - * ? L #"
            ),
        ),
        (
            "cron(0 8 ? * 2/2 *)",
            (
                "day of week of cron(...) is not valid; found: 2/2; "
                "allowed: 1-7 or SUN-SAT, and , - * ? L #"
            ),
        ),
        (
            "cron(0 8 ? * FRI-MON *)",
            (
                "day of week of cron(...) is not valid; found: FRI-MON; "
                "allowed: 1-7 or SUN-SAT, and , - * ? L #"
            ),
        ),
        (
            "cron(0 8 1 * ? 2200)",
            "year of cron(...) is not valid; found: 2200; allowed: 1970-2199, and , - * /",
        ),
        (
            "cron(*/0 8 1 * ? *)",
            "minutes of cron(...) is not valid; found: */0; allowed: 0-59, and , - * /",
        ),
        (
            "cron(*/60 8 1 * ? *)",
            "minutes of cron(...) is not valid; found: */60; allowed: 0-59, and , - * /",
        ),
        (
            "cron(0, 8 1 * ? *)",
            "minutes of cron(...) is not valid; found: 0,; allowed: 0-59, and , - * /",
        ),
        (
            "cron(0 8 * * MON-FRI *)",
            (
                "exactly one of day of month and day of week is ?; found: 0 8 * * MON-FRI *; "
                'allowed: a ? in one of them, such as "cron(0 8 ? * MON-FRI *)"'
            ),
        ),
        (
            "cron(0 8 ? * ? *)",
            (
                "exactly one of day of month and day of week is ?; found: 0 8 ? * ? *; "
                'allowed: a ? in one of them, such as "cron(0 8 ? * MON-FRI *)"'
            ),
        ),
        (
            "cron(0 8 * * ?)",
            (
                "cron(...) takes 6 fields, and 5 are given; found: 0 8 * * ?; "
                'allowed: an expression of six fields such as "cron(0 8 ? * MON-FRI *)", '
                "or rate(...) or at(...)"
            ),
        ),
        (
            "cron(0 0 30 FEB ? *)",
            "no date matches; found: 0 0 30 FEB ? *; allowed: a day that the month has",
        ),
        (
            "cron(0 0 29 2 ? 2027)",
            "no date matches; found: 0 0 29 2 ? 2027; allowed: a day that the month has",
        ),
        (
            "at(2026-99-99T99:99:99)",
            (
                "at(...) takes one moment; found: 2026-99-99T99:99:99; "
                "allowed: a date and a time that exist, such as at(2027-01-31T08:00:00)"
            ),
        ),
        (
            "at(2027-02-29T08:00:00)",
            (
                "at(...) takes one moment; found: 2027-02-29T08:00:00; "
                "allowed: a date and a time that exist, such as at(2027-01-31T08:00:00)"
            ),
        ),
        (
            "at(2027-01-31)",
            (
                "at(...) takes one moment; found: 2027-01-31; "
                "allowed: a date and a time that exist, such as at(2027-01-31T08:00:00)"
            ),
        ),
        *(
            (
                f"rate({text})",
                (
                    "rate(...) takes a whole number and a unit, singular for 1 and plural above; "
                    f"found: {text}; allowed: rate(1 minute), rate(1 hour), rate(1 day), "
                    "or a plural such as rate(2 hours)"
                ),
            )
            for text in ("1 days", "5 minute", "0 hours", "01 hour", "1.5 hours", "2 weeks")
        ),
        (
            "0 8 * * *",
            (
                "a schedule is expected; found: 0 8 * * *; "
                'allowed: an expression of six fields such as "cron(0 8 ? * MON-FRI *)", '
                "or rate(...) or at(...)"
            ),
        ),
    ],
)
def test_what_aws_refuses_is_refused_with_the_field(expression, message):
    """An expression is refused if the deploy would fail or no date would ever match."""
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole message is compared
        check_schedule(expression)
    assert str(refused.value) == message


def fired(expression, *, zone="Etc/UTC", start="2027-03-01", days=31):
    """Return the local times at which an expression fires in some days, as text."""
    zone = ZoneInfo(zone)
    begin = datetime.fromisoformat(start).replace(tzinfo=zone)
    found = firing_times(expression, begin, begin + timedelta(days=days), zone=zone)
    return [moment.strftime("%a %d %H:%M") for moment in found]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("cron(30 7 ? * MON-FRI *)", 23),
        ("cron(0 8,20 * * ? *)", 62),
        ("cron(0 8 L * ? *)", ["Wed 31 08:00"]),
        ("cron(0 8 6W * ? *)", ["Fri 05 08:00"]),
        ("cron(0 8 7W * ? *)", ["Mon 08 08:00"]),
        ("cron(0 8 ? * L *)", ["Sat 06 08:00", "Sat 13 08:00", "Sat 20 08:00", "Sat 27 08:00"]),
        ("cron(0 8 ? * 6L *)", ["Fri 26 08:00"]),
        ("cron(0 8 ? * 3#2 *)", ["Tue 09 08:00"]),
        ("cron(0 8 ? * FRI#4 *)", ["Fri 26 08:00"]),
        ("cron(0 8 1 APR ? *)", []),
        ("cron(0 8 1 * ? 2028)", []),
        ("at(2027-03-02T08:00:00)", ["Tue 02 08:00"]),
        ("at(2027-04-02T08:00:00)", []),
        ("rate(2 hours)", ["Mon 01 00:00"]),
    ],
)
def test_an_expression_fires_when_aws_documents(expression, expected):
    """All forms of cron expressions, and one moment of the others."""
    found = fired(expression)
    assert (len(found) if isinstance(expected, int) else found) == expected


def test_an_expression_fires_in_its_time_zone():
    """A clock that is changed for summer time still shows the same hour."""
    found = fired("cron(0 8 * * ? *)", zone="Europe/Berlin", start="2027-03-27", days=3)
    assert found == ["Sat 27 08:00", "Sun 28 08:00", "Mon 29 08:00"]
