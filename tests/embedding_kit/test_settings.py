"""Test the rules of single settings and of combinations of settings."""

import re
from datetime import timedelta

import aws_cdk as cdk
import pytest
from pydantic import ValidationError

from embedding_kit.settings import (
    AlarmSettings,
    Experiment,
    FunctionSettings,
    Model,
    Provisioned,
    Release,
    ScheduledCapacity,
    SnapStart,
    check_compatible,
)
from embedding_kit.settings.base import format_duration
from embedding_kit.settings.model import TERMS
from model_compiler.source.catalog import CATALOG

WORKDAY = {"name": "workday", "at": "cron(0 8 ? * MON-FRI *)"}


@pytest.mark.parametrize(
    ("function", "cold_start", "release", "experiment", "message"),
    [
        (
            FunctionSettings(ephemeral_storage_mb=1024),
            SnapStart(),
            Release(),
            None,
            (
                "SnapStart takes no /tmp over 512 MB; found: function.ephemeral_storage_mb = 1024; "
                'allowed: 512, or another cold_start.kind than "snapstart"'
            ),
        ),
        (
            FunctionSettings(),
            SnapStart(),
            Release(),
            Experiment(version=3),
            (
                "with SnapStart every kept version is billed, so old ones are not kept to compare "
                'with; found: experiment with cold_start.kind = "snapstart"; '
                "allowed: no experiment, or another cold_start.kind"
            ),
        ),
        (
            FunctionSettings(),
            Provisioned(),
            Release(),
            Experiment(version=3, percent=10.0),
            (
                "AWS refuses to change the provisioned concurrency of an alias that has weights, "
                "so it could not be allocated or scaled for as long as the experiment runs; "
                'found: experiment.percent with cold_start.kind = "provisioned"; '
                "allowed: no experiment.percent, or another cold_start.kind"
            ),
        ),
        (
            FunctionSettings(),
            None,
            Release(kind="canary"),
            Experiment(version=3, percent=10.0),
            (
                "CodeDeploy owns the alias's weights while it shifts traffic; "
                'found: release.kind = "canary" with experiment.percent; '
                'allowed: release.kind = "all-at-once", or no experiment.percent'
            ),
        ),
        (
            FunctionSettings(reserved_concurrency=5),
            Provisioned(maximum=5),
            Release(),
            None,
            (
                "provisioned concurrency is part of the concurrency that the function may use, and "
                "the check of a new version needs some that is not provisioned; "
                "found: a maximum of 5; "
                "allowed: up to 4, which is function.reserved_concurrency less 1, or more of that"
            ),
        ),
        (
            FunctionSettings(account_concurrency=110),
            Provisioned(
                maximum=2,
                schedule=(ScheduledCapacity(**WORKDAY, minimum=2, maximum=11),),
            ),
            Release(),
            None,
            (
                "provisioned concurrency is part of the concurrency that the function may use, and "
                "the check of a new version needs some that is not provisioned; "
                "found: a maximum of 11; "
                "allowed: up to 10, which is function.account_concurrency less 100, or more of that"
            ),
        ),
    ],
)
def test_what_does_not_go_together_is_refused(function, cold_start, release, experiment, message):
    """A combination that would fail a deploy, or be billed without use, is refused with a rule."""
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole message is compared
        check_compatible(
            function=function, cold_start=cold_start, release=release, experiment=experiment
        )
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Provisioned(minimum=0),
            (
                "AWS refuses the next deploy if the minimum is 0, because scaling then removes the provisioned concurrency; "
                "found: 0; allowed: 1 or more"
            ),
        ),
        (
            lambda: ScheduledCapacity(**WORKDAY, minimum=0),
            (
                "AWS refuses the next deploy if the minimum is 0, because scaling then removes the provisioned concurrency; "
                "found: 0; allowed: 1 or more"
            ),
        ),
        (
            lambda: Provisioned(minimum=5, maximum=4),
            (
                "the floor is not above the ceiling; found: minimum = 5, maximum = 4; "
                "allowed: minimum up to maximum"
            ),
        ),
        (
            lambda: ScheduledCapacity(**WORKDAY),
            (
                "a scheduled capacity changes a bound; found: neither minimum nor maximum; "
                "allowed: one of them or both"
            ),
        ),
        (
            lambda: Provisioned(
                schedule=(
                    ScheduledCapacity(**WORKDAY, minimum=2),
                    ScheduledCapacity(**WORKDAY, minimum=3),
                )
            ),
            (
                "each scheduled capacity has a name of its own; found: workday, workday; "
                "allowed: different names"
            ),
        ),
        (
            lambda: ScheduledCapacity(name="x", at="0 8 * * *", minimum=1),
            (
                "a schedule is expected; found: 0 8 * * *; allowed: an expression of six fields such "
                'as "cron(0 8 ? * MON-FRI *)", or rate(...) or at(...)'
            ),
        ),
        (
            lambda: ScheduledCapacity(**WORKDAY, minimum=1, time_zone="Berlin"),
            (
                "a time zone is expected; found: Berlin; allowed: an IANA time zone such as "
                "Europe/Berlin"
            ),
        ),
        (
            lambda: Release(kind="canary", interval=timedelta(seconds=90)),
            "CodeDeploy shifts traffic by the minute; found: 90s; allowed: whole minutes, 1m to 2d",
        ),
        (
            lambda: Release(percent=10),
            (
                'a release all at once has no steps; found: percent with kind = "all-at-once"; '
                'allowed: kind = "canary" or "linear", or neither percent nor interval'
            ),
        ),
    ],
)
def test_a_setting_that_aws_would_refuse_says_its_rule(make, message):
    """Each error has the rule, the value found and the values allowed."""
    with pytest.raises(ValidationError) as refused:
        make()
    assert [error["msg"] for error in refused.value.errors()] == [message]


@pytest.mark.parametrize(
    ("percent", "interval", "message"),
    [
        (1, "29m", None),
        (
            1,
            "30m",
            (
                "CodeDeploy allows 48 hours between the first and the last shift of traffic; "
                "found: percent = 1, interval = 30m: 99 intervals, 2970m in all; "
                "allowed: an interval up to 29m, or a larger percent"
            ),
        ),
        (
            1,
            "2d",
            (
                "CodeDeploy allows 48 hours between the first and the last shift of traffic; "
                "found: percent = 1, interval = 2d: 99 intervals, 198d in all; "
                "allowed: an interval up to 29m, or a larger percent"
            ),
        ),
        (30, "16h", None),  # 30, 60, 90 and 100 percent: three intervals.
        (
            30,
            "961m",
            (
                "CodeDeploy allows 48 hours between the first and the last shift of traffic; "
                "found: percent = 30, interval = 961m: 3 intervals, 2883m in all; "
                "allowed: an interval up to 16h, or a larger percent"
            ),
        ),
        (50, "2d", None),
    ],
)
def test_a_linear_release_ends_within_codedeploys_limit(percent, interval, message):
    """The limit applies to the whole shift; the error shows both durations."""
    if message is None:
        assert Release(kind="linear", percent=percent, interval=interval).percent == percent
        return
    with pytest.raises(ValidationError) as refused:
        Release(kind="linear", percent=percent, interval=interval)
    assert [error["msg"] for error in refused.value.errors()] == [message]


def test_a_canary_release_has_one_interval_of_up_to_48_hours():
    """The rest shifts after one interval, however small the first part was."""
    assert Release(kind="canary", percent=1, interval="2d").interval == timedelta(days=2)


def test_every_scheduled_maximum_counts_for_the_ceiling():
    """The account's quota must cover the highest scheduled maximum."""
    provisioned = Provisioned(
        maximum=3,
        schedule=(
            ScheduledCapacity(**WORKDAY, minimum=2, maximum=8),
            ScheduledCapacity(name="night", at="cron(0 20 ? * MON-FRI *)", maximum=2),
        ),
    )
    assert provisioned.ceiling == 8


def test_provisioned_concurrency_leaves_one_of_the_reservation():
    """One is for the check of a new version; AWS itself keeps a part of the quota unreserved."""
    for function in (
        FunctionSettings(reserved_concurrency=7),
        FunctionSettings(account_concurrency=106),
    ):
        check_compatible(
            function=function,
            cold_start=Provisioned(maximum=6),
            release=Release(),
            experiment=None,
        )


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(milliseconds=250), "250ms"),
        (timedelta(seconds=90), "90s"),
        (timedelta(minutes=5), "5m"),
        (timedelta(hours=36), "36h"),
        (timedelta(days=2), "2d"),
    ],
)
def test_durations_are_written_in_the_largest_exact_unit(span, text):
    """An error shows a duration in the same format as the file."""
    assert format_duration(span) == text


def test_synth_and_compiler_know_the_same_terms():
    """Synth refuses the same models without accepted terms as the compiler, by the same names."""
    asked = {entry.name: entry.license for entry in CATALOG if entry.license.must_be_accepted}
    assert asked
    for name, terms in asked.items():
        accepted = Model(name=name, accept_license=terms.name)
        assert (accepted.license_to_accept, TERMS[terms.name]) == (terms.name, terms.url)
        with pytest.raises(ValidationError, match=terms.name):
            Model(name=name)
    free = [entry.name for entry in CATALOG if entry.name not in asked]
    assert [Model(name=name).license_to_accept for name in free] == [None] * len(free)


def test_a_revision_is_a_commit_of_a_hubs_repository(tmp_path):
    """A branch or a tag could move, and a folder has no commits."""
    assert Model(name="acme/model", revision="0123456789" * 4).revision == "0123456789" * 4
    with pytest.raises(ValidationError, match="revision"):
        Model(name="acme/model", revision="main")
    with pytest.raises(ValidationError, match="allowed: folder or revision"):
        Model(name="acme/model", folder=tmp_path, revision="a" * 40)


@pytest.mark.parametrize("kind", ["canary", "linear"])
@pytest.mark.parametrize(
    ("interval", "accepted"),
    [("1m", True), ("2d", True), ("2881m", False), ("3d", False), ("59s", False), ("61s", False)],
)
def test_an_interval_is_whole_minutes_from_one_minute_to_two_days(kind, interval, accepted):
    """CodeDeploy counts in minutes and limits a shift to 48 hours."""
    if accepted:
        assert (
            format_duration(Release(kind=kind, percent=50, interval=interval).interval) == interval
        )
        return
    with pytest.raises(ValidationError, match=f"found: {interval}; allowed: whole minutes, 1m"):
        Release(kind=kind, percent=50, interval=interval)


@pytest.mark.parametrize(
    ("make", "first", "last"),
    [
        (lambda value: Release(kind="canary", percent=value), 1, 99),
        (lambda value: Release(kind="linear", percent=value, interval="1m"), 1, 99),
        (lambda value: Experiment(version=value), 1, None),
        (lambda value: Experiment(version=value, percent=10.0), 1, None),
    ],
    ids=["canary", "linear", "alias", "weights"],
)
def test_the_numbers_of_releases_and_experiments_have_bounds(make, first, last):
    """Published versions start at 1, and a step shifts a part of the traffic."""
    assert make(first)
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        make(first - 1)
    if last:
        assert make(last)
        with pytest.raises(ValidationError, match="less than or equal to 99"):
            make(last + 1)


@pytest.mark.parametrize(
    ("settings", "field", "rest"),
    [
        (FunctionSettings, "timeout", {}),
        (Provisioned, "request_duration", {}),
        (AlarmSettings, "duration_p99", {}),
        (Release, "interval", {"kind": "canary"}),
    ],
)
def test_a_duration_of_the_cdk_is_that_duration(settings, field, rest):
    """In Python, a CDK app writes its durations as it does for other constructs."""
    by_cdk, by_text = ({**rest, field: value} for value in (cdk.Duration.minutes(2), "2m"))
    assert settings(**by_cdk) == settings(**by_text)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (cdk.Duration.seconds(0), "a duration is positive"),
        (cdk.Duration.millis(1500), "Lambda takes a timeout in whole seconds, up to 15 minutes"),
        (
            cdk.Duration.seconds(cdk.Token.as_number({"Ref": "Seconds"})),
            (
                "a duration must be known at synth; found: a Duration from a token; "
                "allowed: a Duration of a number"
            ),
        ),
    ],
    ids=["zero", "fraction", "token"],
)
def test_a_duration_of_the_cdk_obeys_the_same_rules(value, message):
    """Zero, a fraction of a second, and a number that only the deploy knows are refused."""
    with pytest.raises(ValidationError, match=re.escape(message)):
        FunctionSettings(timeout=value)
