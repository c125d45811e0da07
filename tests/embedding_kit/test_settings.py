"""Test the rules of single settings and of combinations of settings."""

import re
from datetime import timedelta

import aws_cdk as cdk
import pytest
from pydantic import ValidationError

from embedding_kit.settings import (
    AlarmSettings,
    FunctionSettings,
    ModelSettings,
    Provisioned,
    Release,
)
from embedding_kit.settings.base import format_duration
from embedding_kit.settings.compatibility import check_endpoint
from embedding_kit.settings.model import TERMS
from model_compiler.source.catalog import CATALOG

MINILM = ModelSettings(name="sentence-transformers/all-MiniLM-L6-v2")


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
