"""The alarms: thresholds from the function's limits, silence at no traffic, a runbook for each."""

import re
from pathlib import Path

import pytest
from aws_cdk.assertions import Match, Template

from embedding_kit import (
    AlarmSettings,
    EmbeddingEndpoint,
    EndpointAlarms,
    FunctionSettings,
    NoticeTopic,
    OnDemand,
    Provisioned,
    SnapStart,
)

ROOT = Path(__file__).resolve().parents[2]
QUIET = AlarmSettings()
EXPECTING = AlarmSettings.model_validate({"traffic_every": "1h"})


@pytest.fixture(scope="session")
def alarmed(synthesize, model):
    """Return the template of an endpoint with alarms; each is synthesized once."""
    made: dict[str, Template] = {}

    def make(*, cold_start=OnDemand(), alarms=QUIET, function=FunctionSettings()) -> Template:  # noqa: B008
        key = repr((cold_start, alarms, function))

        def build(stack):
            endpoint = EmbeddingEndpoint(
                stack,
                "Endpoint",
                model=model,
                function=function,
                cold_start=cold_start,
                alarms=alarms,
                name="test",
            )
            notices = NoticeTopic(stack, "Notices", emails=["ops@example.com"])
            EndpointAlarms(stack, "Alarms", endpoint=endpoint, topic=notices.topic)

        return made.setdefault(key, made.get(key) or synthesize(build))

    return make


def _alarms(template: Template) -> dict[str, dict]:
    found = {
        re.sub(r"[0-9A-F]{8}$", "", name): resource["Properties"]
        for name, resource in template.find_resources("AWS::CloudWatch::Alarm").items()
    }
    return {name.removeprefix("Alarms"): alarm for name, alarm in found.items()}


ALWAYS = {
    "AccountConcurrency",
    "Concurrency",
    "Errors",
    "Memory",
    "NoRecords",
    "SlowMedian",
    "SlowStart",
    "SlowTail",
    "SlowestStart",
    "Throttles",
    "UrlErrors",
}
OF_A_RELEASE = {"EndpointReleaseCrashes", "EndpointReleaseFailures", "EndpointReleaseSlow"}


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({}, set()),
        (
            {"cold_start": Provisioned()},
            {"SlowProvisionedStart", "Spillover", "ProvisionedUse"},
        ),
        ({"cold_start": SnapStart()}, {"SlowRestore"}),
        ({"alarms": EXPECTING}, {"NoTraffic"}),
    ],
    ids=["on demand", "provisioned", "snapstart", "traffic expected"],
)
def test_what_is_watched_follows_what_is_deployed(alarmed, settings, more):
    """Nothing is watched that is not there."""
    assert set(_alarms(alarmed(**settings))) == ALWAYS | OF_A_RELEASE | more


@pytest.mark.parametrize(("duration", "threshold"), [(None, 0.9), ("50ms", 0.45), ("5s", 0.9)])
def test_provisioned_use_alarms_below_what_short_requests_can_reach(alarmed, duration, threshold):
    """At 10 requests a second of 50 ms an environment is never more than half busy."""
    alarm = _alarms(alarmed(cold_start=Provisioned(request_duration=duration)))["ProvisionedUse"]
    assert alarm["Threshold"] == pytest.approx(threshold)


@pytest.mark.parametrize(
    ("name", "threshold"),
    [
        ("SlowMedian", 2000),
        ("SlowTail", 10000),
        ("SlowStart", 5000),
        ("SlowestStart", 8000),
        ("Errors", 1),
        ("UrlErrors", 1),
        ("Throttles", 1),
        ("Concurrency", 16),
        ("AccountConcurrency", 400),
        ("Memory", 2700),
    ],
)
def test_thresholds_come_from_the_functions_own_limits(alarmed, name, threshold):
    """A tenth and half of the timeout, of Lambda's 10 s, 80% and 90% of what there is."""
    function = FunctionSettings.model_validate(
        {
            "timeout": "20s",
            "memory_mb": 3000,
            "reserved_concurrency": 20,
            "account_concurrency": 500,
        }
    )
    assert _alarms(alarmed(function=function))[name]["Threshold"] == threshold


@pytest.mark.parametrize(
    ("setting", "value", "name", "threshold"),
    [
        ("duration_p50", "150ms", "SlowMedian", 150),
        ("duration_p99", "2s", "SlowTail", 2000),
        ("init_p99", "900ms", "SlowStart", 900),
        ("init_maximum", "3s", "SlowestStart", 3000),
        ("error_percent", 0.5, "Errors", 0.5),
        ("throttle_percent", 5.0, "Throttles", 5),
        ("concurrency_percent", 50.0, "Concurrency", 500),
        ("memory_percent", 75.0, "Memory", 1536),
    ],
)
def test_a_threshold_that_is_set_is_used(alarmed, setting, value, name, threshold):
    """Every threshold can be set in the environment's file."""
    alarms = AlarmSettings.model_validate({setting: value})
    assert _alarms(alarmed(alarms=alarms))[name]["Threshold"] == threshold


@pytest.mark.parametrize("name", sorted(ALWAYS - {"NoRecords"}))
def test_no_traffic_rings_nothing(alarmed, name):
    """A quiet night is no incident: missing data is no breach."""
    assert _alarms(alarmed())[name]["TreatMissingData"] == "notBreaching"


@pytest.mark.parametrize("name", ["Errors", "UrlErrors", "Throttles"])
def test_a_rate_of_nothing_is_no_rate(alarmed, name):
    """Metric math divides by the traffic only where there is some."""
    alarm = _alarms(alarmed())[name]
    (rate,) = (metric for metric in alarm["Metrics"] if "Expression" in metric)
    assert rate["Expression"] == "IF(whole > 0, 100 * part / whole, 0)"


def test_silence_rings_where_traffic_is_expected(alarmed):
    """Twelve empty spans of five minutes are the hour that was set."""
    alarm = _alarms(alarmed(alarms=EXPECTING))["NoTraffic"]
    assert alarm["TreatMissingData"] == "breaching"
    assert (alarm["Period"], alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (
        300,
        12,
        12,
    )
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("LessThanThreshold", 1)


def test_one_alarm_wakes_somebody(alarmed):
    """What callers feel goes through one composite; the rest tells the topic by itself."""
    template = alarmed(alarms=EXPECTING)
    (page,) = template.find_resources("AWS::CloudWatch::CompositeAlarm").values()
    rule = str(page["Properties"]["AlarmRule"])
    paging = {name for name in ALWAYS | {"NoTraffic"} if f"Alarms{name}" in rule}
    assert paging == {"Errors", "NoTraffic", "SlowTail", "Throttles", "UrlErrors"}
    alarms = _alarms(template)
    silent = {name for name, alarm in alarms.items() if "AlarmActions" not in alarm}
    assert silent == paging | OF_A_RELEASE
    assert page["Properties"]["AlarmActions"] == page["Properties"]["OKActions"]


def test_every_alarm_says_why_and_where_to_read_on(alarmed):
    """Each description ends at a section of the runbook, which is there."""
    sections = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in (ROOT / "docs" / "runbook.md").read_text().splitlines()
        if line.startswith("#")
    }
    told = {
        **_alarms(alarmed(cold_start=Provisioned(), alarms=EXPECTING)),
        **_alarms(alarmed(cold_start=SnapStart())),
    }
    links = {}
    for name, alarm in told.items():
        reason, _, link = alarm["AlarmDescription"].partition(". Runbook: docs/runbook.md#")
        assert len(reason) > 30, name
        links[name] = link
    missing = {name: link for name, link in links.items() if link not in sections}
    assert missing == {}


def test_notices_are_encrypted_and_only_aws_publishes_them(alarmed):
    """CloudWatch and Budgets may use key and topic, for this account; nobody else may."""
    template = alarmed()
    template.has_resource_properties(
        "AWS::SNS::Topic", {"KmsMasterKeyId": {"Fn::GetAtt": Match.any_value()}}
    )
    template.has_resource_properties("AWS::KMS::Key", {"EnableKeyRotation": True})
    publishers = {"Service": ["budgets.amazonaws.com", "cloudwatch.amazonaws.com"]}
    here = {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
    template.has_resource_properties(
        "AWS::SNS::TopicPolicy",
        {
            "PolicyDocument": {
                "Statement": Match.array_with(
                    [
                        Match.object_like(
                            {
                                "Action": "sns:Publish",
                                "Effect": "Allow",
                                "Principal": publishers,
                                "Condition": here,
                            }
                        )
                    ]
                )
            }
        },
    )
    template.has_resource_properties(
        "AWS::KMS::Key",
        {
            "KeyPolicy": {
                "Statement": Match.array_with(
                    [
                        Match.object_like(
                            {
                                "Action": ["kms:Decrypt", "kms:GenerateDataKey*"],
                                "Principal": publishers,
                                "Condition": here,
                            }
                        )
                    ]
                )
            }
        },
    )
