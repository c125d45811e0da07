"""Test the alarms: thresholds, missing data, actions, descriptions, and runbook sections."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Match, Template

from embedding_kit import (
    AlarmSettings,
    AlarmTopic,
    Callers,
    EmbeddingEndpoint,
    EndpointAlarms,
    FunctionSettings,
    Provisioned,
    Release,
    SnapStart,
)
from tests.embedding_kit.endpoints import make_endpoint

ROOT = Path(__file__).resolve().parents[3]
QUIET = AlarmSettings()
EXPECTING = AlarmSettings.model_validate({"expected_traffic_interval": "1h"})


@pytest.fixture(scope="session")
def alarmed(synthesize, model):
    """Return the template of an endpoint with alarms; each is synthesized once."""
    made: dict[str, Template] = {}

    def make(
        *,
        cold_start=None,
        alarms=QUIET,
        function=FunctionSettings(),  # noqa: B008
        release=Release(),  # noqa: B008
        callers=None,
        watch="full",
    ) -> Template:
        key = repr((cold_start, alarms, function, release, callers, watch))

        def build(stack):
            endpoint = make_endpoint(
                stack,
                model=model,
                function=function,
                cold_start=cold_start,
                alarms=alarms,
                release=release,
                callers=callers,
                name="test",
            )
            notices = AlarmTopic(stack, "Notices", emails=["ops@example.com"])
            EndpointAlarms(stack, "Alarms", endpoint=endpoint, topic=notices.topic, watch=watch)

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
    "MissingPlatformLogs",
    "DurationP50",
    "InitDurationP99",
    "DurationP99",
    "InitDurationMax",
    "Throttles",
    "Url5xx",
}
ESSENTIAL = {
    "DurationP50",
    "DurationP99",
    "Errors",
    "InitDurationMax",
    "InitDurationP99",
    "Throttles",
    "Url5xx",
}
OF_A_RELEASE = {"EndpointReleaseCrashes", "EndpointReleaseFailures", "EndpointReleaseSlow"}


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({}, set()),
        (
            {"cold_start": Provisioned()},
            {
                "OtherVersionTraffic",
                "ProvisionedInitDurationMax",
                "ProvisionedConcurrencySpillover",
                "ProvisionedConcurrencyUtilization",
            },
        ),
        ({"cold_start": SnapStart()}, {"RestoreDurationP99"}),
        ({"alarms": EXPECTING}, {"NoTraffic"}),
        ({"release": Release(kind="canary")}, OF_A_RELEASE),
        ({"release": Release(kind="linear")}, OF_A_RELEASE),
    ],
    ids=["on demand", "provisioned", "snapstart", "traffic expected", "canary", "linear"],
)
def test_the_alarms_follow_the_settings(alarmed, settings, more):
    """Alarms on provisioned concurrency, SnapStart, silence and steps exist where they apply."""
    assert set(_alarms(alarmed(**settings))) == ALWAYS | more


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({}, set()),
        ({"cold_start": Provisioned()}, {"ProvisionedInitDurationMax"}),
        ({"cold_start": SnapStart()}, {"RestoreDurationP99"}),
        ({"alarms": EXPECTING}, {"NoTraffic"}),
        ({"release": Release(kind="canary")}, OF_A_RELEASE),
    ],
    ids=["on demand", "provisioned", "snapstart", "traffic expected", "canary"],
)
def test_the_essential_alarms_are_of_what_callers_notice(alarmed, settings, more):
    """Duration, init duration, errors, throttles and silence; those of a release stay."""
    found = _alarms(alarmed(**settings, watch="essential"))
    assert set(found) == ESSENTIAL | more
    whole = _alarms(alarmed(**settings))
    assert all(whole[name] == alarm for name, alarm in found.items())


@pytest.mark.parametrize(("duration", "threshold"), [(None, 0.9), ("50ms", 0.45), ("5s", 0.9)])
def test_provisioned_use_alarms_below_what_short_requests_can_reach(alarmed, duration, threshold):
    """At AWS's 10 requests per second, requests of 50 ms give a utilization of at most 0.5."""
    alarm = _alarms(alarmed(cold_start=Provisioned(request_duration=duration)))[
        "ProvisionedConcurrencyUtilization"
    ]
    assert alarm["Threshold"] == pytest.approx(threshold)


@pytest.mark.parametrize(
    ("name", "threshold"),
    [
        ("DurationP50", 2000),
        ("DurationP99", 10000),
        ("InitDurationP99", 5000),
        ("InitDurationMax", 8000),
        ("Errors", 1),
        ("Url5xx", 1),
        ("Throttles", 1),
        ("Concurrency", 16),
        ("AccountConcurrency", 400),
        ("Memory", 2700),
    ],
)
def test_thresholds_come_from_the_functions_own_limits(alarmed, name, threshold):
    """Thresholds are shares of the timeout, of Lambda's 10 s and of the function's limits."""
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
        ("duration_p99", "2s", "DurationP50", 400),
        ("duration_p99", "2s", "DurationP99", 2000),
        ("error_percent", 0.5, "Errors", 0.5),
        ("error_percent", 5.0, "Throttles", 5),
    ],
)
def test_a_threshold_that_is_set_is_used(alarmed, setting, value, name, threshold):
    """Every threshold can be set in the environment file."""
    alarms = AlarmSettings.model_validate({setting: value})
    assert _alarms(alarmed(alarms=alarms))[name]["Threshold"] == threshold


@pytest.mark.parametrize("name", sorted(ALWAYS - {"MissingPlatformLogs"}))
def test_missing_data_is_no_breach(alarmed, name):
    """An endpoint without traffic is not in ALARM."""
    assert _alarms(alarmed())[name]["TreatMissingData"] == "notBreaching"


@pytest.mark.parametrize("name", ["Errors", "Url5xx", "Throttles"])
def test_a_rate_without_traffic_is_zero(alarmed, name):
    """Metric math does not divide by zero when there are no requests."""
    alarm = _alarms(alarmed())[name]
    (rate,) = (metric for metric in alarm["Metrics"] if "Expression" in metric)
    assert rate["Expression"] == "IF(whole > 0, 100 * part / whole, 0)"


def test_missing_traffic_goes_into_alarm_where_it_is_expected(alarmed):
    """Twelve periods of five minutes without a request make up the configured hour."""
    alarm = _alarms(alarmed(alarms=EXPECTING))["NoTraffic"]
    assert alarm["TreatMissingData"] == "breaching"
    assert (alarm["Period"], alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (
        300,
        12,
        12,
    )
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("LessThanThreshold", 1)


def test_one_composite_alarm_pages(alarmed):
    """Alarms that callers notice go through the composite; the others notify the topic."""
    template = alarmed(alarms=EXPECTING)
    (page,) = template.find_resources("AWS::CloudWatch::CompositeAlarm").values()
    rule = str(page["Properties"]["AlarmRule"])
    paging = {name for name in ALWAYS | {"NoTraffic"} if f"Alarms{name}" in rule}
    assert paging == {"Errors", "NoTraffic", "DurationP99", "Throttles", "Url5xx"}
    alarms = _alarms(template)
    silent = {name for name, alarm in alarms.items() if "AlarmActions" not in alarm}
    assert silent == paging
    assert page["Properties"]["AlarmActions"] == page["Properties"]["OKActions"]


def test_nothing_pages_without_anything_to_notify(endpoint_with_alarms):
    """A composite alarm is billed, and only combines the notices of others."""
    template, alarms = endpoint_with_alarms()
    template.resource_count_is("AWS::CloudWatch::CompositeAlarm", 0)
    assert alarms.page is None
    assert set(alarms.alarms) == ALWAYS


def test_every_alarm_has_a_section_in_the_runbook(alarmed):
    """Each description links to a section of the runbook that exists."""
    sections = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in (ROOT / "docs" / "runbook.md").read_text().splitlines()
        if line.startswith("#")
    }
    described = {
        **_alarms(alarmed(cold_start=Provisioned(), alarms=EXPECTING)),
        **_alarms(alarmed(cold_start=SnapStart())),
    }
    links = {}
    for name, alarm in described.items():
        reason, _, link = alarm["AlarmDescription"].partition(". Runbook: docs/runbook.md#")
        assert len(reason) > 30, name
        links[name] = link
    missing = {name: link for name, link in links.items() if link not in sections}
    assert missing == {}


def test_the_topic_is_encrypted_and_only_aws_publishes_to_it(alarmed):
    """Only CloudWatch and AWS Budgets may use key and topic, and only for this account."""
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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "DurationP99",
            (
                "p99 duration above 15,000 ms for 3 of 5 minutes. Likely large batches or cold "
                "starts. Requests fail at the timeout of 30,000 ms"
            ),
        ),
        (
            "InitDurationMax",
            (
                "Maximum init duration above 8,000 ms for 1 minute. "
                "At 10,000 ms Lambda restarts the initialization while the caller waits"
            ),
        ),
        (
            "Concurrency",
            "Concurrency above 800 of 1,000 (80%) for 3 of 5 minutes. Throttling is next",
        ),
        (
            "NoTraffic",
            "No requests for 60 minutes. Callers cannot reach the URL or have lost permission",
        ),
    ],
)
def test_a_description_states_condition_and_cause(alarmed, name, text):
    """An alarm's email says which limit was exceeded, for how long, and the likely cause."""
    description = _alarms(alarmed(alarms=EXPECTING))[name]["AlarmDescription"]
    assert description == f"{text}. Runbook: docs/runbook.md#{name.lower()}"


def test_the_runbooks_url_can_be_set(alarmed):
    """Mail clients turn a URL into a link; the alarm's section is its fragment."""
    url = "https://git.example.com/kit/docs/runbook.md"
    template = alarmed(alarms=AlarmSettings(runbook_url=url))
    for name, alarm in _alarms(template).items():
        section = "release" if name in OF_A_RELEASE else name.lower()
        assert alarm["AlarmDescription"].endswith(f". Runbook: {url}#{section}")
    (page,) = template.find_resources("AWS::CloudWatch::CompositeAlarm").values()
    assert page["Properties"]["AlarmDescription"].endswith(f". Runbook: {url}#page")


@pytest.fixture(scope="session")
def endpoint_with_alarms(synthesize, model):
    """Build an endpoint and alarms with these properties; return both."""

    def make(*, topic=False, **properties):
        made = {}

        def build(stack):
            endpoint = EmbeddingEndpoint(stack, "Endpoint", model=model, name="test")
            made["alarms"] = EndpointAlarms(
                stack,
                "Alarms",
                endpoint=endpoint,
                topic=AlarmTopic(stack, "Notices").topic if topic else None,
                **properties,
            )

        return synthesize(build), made["alarms"]

    return make


def test_an_alarm_can_be_left_out(endpoint_with_alarms):
    """Neither a disabled alarm nor a reference to it in the composite alarm remains."""
    template, alarms = endpoint_with_alarms(disabled=["Memory", "Throttles"], topic=True)
    assert set(alarms.alarms) == ALWAYS - {"Memory", "Throttles"}
    (page,) = template.find_resources("AWS::CloudWatch::CompositeAlarm").values()
    assert "Errors" in str(page)
    assert "Throttles" not in str(page)


@pytest.mark.parametrize(
    ("disabled", "message"),
    [
        (
            ["NoTraffic"],
            "no alarm of this endpoint has this name; found: NoTraffic; allowed: DurationP50,",
        ),
        (
            ["DurationP99", "Errors", "Url5xx", "Throttles"],
            (
                "the composite alarm needs an alarm that pages; found: all of them disabled; "
                "allowed: at least one of DurationP99, Errors, Url5xx, Throttles"
            ),
        ),
    ],
)
def test_disabling_an_unknown_alarm_or_all_that_page_is_an_error(
    endpoint_with_alarms, disabled, message
):
    """A misspelled name would silently leave the alarm on."""
    with pytest.raises(ValueError, match=re.escape(message)):
        endpoint_with_alarms(disabled=disabled)


def test_actions_can_differ_between_paging_and_other_alarms(synthesize, model):
    """A page may open an incident while the other alarms post to a chat."""
    page, other = ("arn:aws:sns:us-east-1:123456789012:" + name for name in ("page", "other"))

    def build(stack):
        topics = [
            actions.SnsAction(sns.Topic.from_topic_arn(stack, arn[-5:], arn))
            for arn in (page, other)
        ]
        endpoint = EmbeddingEndpoint(stack, "Endpoint", model=model, name="test")
        EndpointAlarms(
            stack,
            "Alarms",
            endpoint=endpoint,
            page_actions=[topics[0]],
            other_actions=[topics[1]],
        )

    template = synthesize(build)
    (composite,) = template.find_resources("AWS::CloudWatch::CompositeAlarm").values()
    assert composite["Properties"]["AlarmActions"] == [page]
    assert composite["Properties"]["OKActions"] == [page]
    alarms = _alarms(template)
    assert alarms["Memory"]["AlarmActions"] == [other]
    assert "AlarmActions" not in alarms["Errors"]


@pytest.mark.parametrize(
    ("release", "period", "periods"),
    [
        (Release(), 300, 6),
        (Release(kind="canary", interval=timedelta(minutes=10)), 300, 8),
        (Release(kind="linear", percent=10, interval=timedelta(hours=2)), 300, 222),
        (Release(kind="canary", interval=timedelta(days=2)), 3600, 49),
    ],
    ids=["all at once", "canary", "linear", "the longest"],
)
def test_stuck_weights_are_noticed_after_the_longest_release(alarmed, release, period, periods):
    """The alarm covers more time than the longest release, within CloudWatch's limits."""
    alarm = _alarms(alarmed(cold_start=Provisioned(), release=release))["OtherVersionTraffic"]
    assert alarm["EvaluationPeriods"] == alarm["DatapointsToAlarm"] == periods
    assert alarm["Threshold"] == 5
    assert alarm["TreatMissingData"] == "ignore"
    sources = {
        metric["Id"]: metric["MetricStat"] for metric in alarm["Metrics"] if "MetricStat" in metric
    }
    assert {source["Period"] for source in sources.values()} == {period}
    assert set(sources) == {"invocations", "errors", "deployed"}
    version = sources["deployed"]["Metric"]["Dimensions"][1]
    assert version["Name"] == "Version"
    assert "Version" in version["Value"]["Fn::GetAtt"]
    assert period * periods <= (86400 if period < 3600 else 604800)
    longest = release.shift.total_seconds()
    assert longest + 1800 <= period * periods


@pytest.mark.parametrize(
    ("data", "percent"),
    [
        ({"invocations": 100, "deployed": 90}, 10),
        ({"invocations": 100, "deployed": 90, "errors": 10}, 0),
        # Before the release, which the alarm covers as soon as it names the new version.
        ({"invocations": 100}, None),
        ({}, None),
    ],
    ids=["stuck weights", "errors", "before the release", "no requests"],
)
def test_only_requests_beside_those_of_the_deployed_version_count(alarmed, data, percent):
    """Else each release would set off the alarm, as another version has answered before it."""
    alarm = _alarms(alarmed(cold_start=Provisioned()))["OtherVersionTraffic"]
    (expression,) = (m["Expression"] for m in alarm["Metrics"] if "Expression" in m)
    # Metric math with data is Python's arithmetic, and without data it has no value.
    known = {name: data.get(name) for name in ("invocations", "errors", "deployed")}
    functions = {"FILL": lambda value, fill: fill if value is None else value}
    try:
        found = eval(expression, {**functions, **known})
    except TypeError:
        found = None
    assert found == percent


def test_calls_by_invoke_are_counted_where_callers_may_invoke(alarmed):
    """The URL's own metrics lack them, so the alarms on traffic and throttles read Lambda's."""
    invoke = Callers(principals=("arn:aws:iam::111122223333:role/search",), invoke=True)
    alarms = _alarms(alarmed(alarms=EXPECTING, callers=invoke))
    assert alarms["NoTraffic"]["MetricName"] == "Invocations"
    names = {
        metric["MetricStat"]["Metric"]["MetricName"]
        for metric in alarms["Throttles"]["Metrics"]
        if "MetricStat" in metric
    }
    assert names == {"Invocations", "Throttles"}
