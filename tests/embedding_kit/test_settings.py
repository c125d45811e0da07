"""Test the rules of single settings and of combinations of settings."""

import re
from collections.abc import Callable
from datetime import timedelta

import aws_cdk as cdk
import pytest
from pydantic import ValidationError

from embedding_kit.settings import (
    AlarmSettings,
    ColdStart,
    Experiment,
    FunctionSettings,
    ModelSettings,
    Provisioned,
    Release,
    ScheduledCapacity,
    SnapStart,
)
from embedding_kit.settings.base import format_duration
from embedding_kit.settings.compatibility import check_endpoint
from embedding_kit.settings.model import TERMS
from model_compiler.source.catalog import CATALOG

MINILM = ModelSettings(name="sentence-transformers/all-MiniLM-L6-v2")
WORKDAY = {"at": "cron(0 8 ? * MON-FRI *)"}


#: Function, cold start, release and experiment that do not go together.
TOGETHER: tuple[tuple[FunctionSettings, ColdStart | None, Release, Experiment | None], ...] = (
    (FunctionSettings(), SnapStart(), Release(), Experiment(version=3)),
    (FunctionSettings(), Provisioned(), Release(), Experiment(version=3, percent=10.0)),
    (FunctionSettings(), None, Release(kind="canary"), Experiment(version=3, percent=10.0)),
    (FunctionSettings(reserved_concurrency=5), Provisioned(maximum=5), Release(), None),
    (
        FunctionSettings(account_concurrency=110),
        Provisioned(maximum=2, schedule=(ScheduledCapacity(**WORKDAY, minimum=2, maximum=11),)),
        Release(),
        None,
    ),
)


def test_what_does_not_go_together_is_refused(snapshot):
    """A combination that would fail a deploy, or be billed without use, is refused with a rule."""
    messages = []
    for function, cold_start, release, experiment in TOGETHER:
        with pytest.raises(ValueError, match=r"; found: .*; allowed: ") as refused:
            check_endpoint(
                model=MINILM,
                function=function,
                cold_start=cold_start,
                release=release,
                experiment=experiment,
                alarms=AlarmSettings(),
            )
        messages.append(str(refused.value))
    assert messages == snapshot


#: Each makes a setting that AWS would refuse.
REFUSED: tuple[Callable[[], object], ...] = (
    lambda: Provisioned(minimum=0),
    lambda: ScheduledCapacity(**WORKDAY, minimum=0),
    lambda: Provisioned(minimum=5, maximum=4),
    lambda: ScheduledCapacity(**WORKDAY),
    lambda: Provisioned(
        schedule=(ScheduledCapacity(**WORKDAY, minimum=2), ScheduledCapacity(**WORKDAY, minimum=3))
    ),
    lambda: ScheduledCapacity(at="0 8 * * *", minimum=1),
    lambda: ScheduledCapacity(**WORKDAY, minimum=1, time_zone="Berlin"),
    lambda: Release(kind="canary", interval=timedelta(seconds=90)),
    lambda: Release(percent=10),
    lambda: Release(kind="linear", percent=1, interval="30m"),
    lambda: Release(kind="linear", percent=1, interval="2d"),
    lambda: Release(kind="linear", percent=30, interval="961m"),
)


def test_a_setting_that_aws_would_refuse_says_its_rule(snapshot):
    """Each error has the rule, the value found and the values allowed."""
    messages = []
    for make in REFUSED:
        with pytest.raises(ValidationError) as refused:
            make()
        messages += [error["msg"] for error in refused.value.errors()]
    assert messages == snapshot


def test_provisioned_concurrency_leaves_one_of_the_reservation():
    """One is for the check of a new version; AWS itself keeps a part of the quota unreserved."""
    for function in (
        FunctionSettings(reserved_concurrency=7),
        FunctionSettings(account_concurrency=106),
    ):
        check_endpoint(
            model=MINILM,
            function=function,
            cold_start=Provisioned(maximum=6),
            release=Release(),
            experiment=None,
            alarms=AlarmSettings(),
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
    licenses = {entry.name: entry.license for entry in CATALOG if entry.license.must_be_accepted}
    assert set(licenses) == {
        "google/embeddinggemma-300m",
        "onnx-community/embeddinggemma-300m-ONNX",
    }
    for name, terms in licenses.items():
        accepted = ModelSettings(name=name, accept_license=terms.name)
        assert (accepted.license_to_accept, TERMS[terms.name]) == (terms.name, terms.url)
        with pytest.raises(ValidationError, match=terms.name):
            ModelSettings(name=name)
    free = [entry.name for entry in CATALOG if entry.name not in licenses]
    assert [ModelSettings(name=name).license_to_accept for name in free] == [None] * len(free)


def test_a_revision_is_a_commit_of_a_hubs_repository(tmp_path):
    """A branch or a tag could move, and a folder has no commits."""
    assert ModelSettings(name="acme/model", revision="0123456789" * 4).revision == "0123456789" * 4
    with pytest.raises(ValidationError, match="revision"):
        ModelSettings(name="acme/model", revision="main")
    with pytest.raises(ValidationError, match="allowed: folder or revision"):
        ModelSettings(name="acme/model", folder=tmp_path, revision="a" * 40)


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
