"""Test the alarms: thresholds, missing data, actions, descriptions, and runbook sections."""

import re
from datetime import timedelta

import pytest
from aws_cdk.assertions import Template

from embedding_kit import (
    AlarmSettings,
    AlarmTopic,
    EndpointAlarms,
    FunctionSettings,
    Provisioned,
    Release,
)
from tests.embedding_kit.endpoints import make_endpoint, once
from tests.embedding_kit.roles import only


@pytest.fixture(scope="session")
def alarmed(synthesize, model):
    """Return the template of an endpoint with alarms; each is synthesized once."""

    @once
    def make(*, notifies=True, watch="full", disabled=(), **properties) -> Template:
        def build(stack):
            endpoint = make_endpoint(stack, model=model, name="test", **properties)
            topic = AlarmTopic(stack, "Notices").topic if notifies else None
            EndpointAlarms(
                stack, "Alarms", endpoint=endpoint, topic=topic, watch=watch, disabled=disabled
            )

        return synthesize(build)

    return make


def _alarms(template: Template) -> dict[str, dict]:
    by_id = {
        re.sub(r"[0-9A-F]{8}$", "", name): resource["Properties"]
        for name, resource in template.find_resources("AWS::CloudWatch::Alarm").items()
    }
    return {name.removeprefix("Alarms"): alarm for name, alarm in by_id.items()}


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
OF_A_RELEASE = {"EndpointReleaseCrashes", "EndpointReleaseFailures", "EndpointReleaseSlow"}


@pytest.mark.parametrize(("duration", "threshold"), [(None, 0.9), ("50ms", 0.45), ("5s", 0.9)])
def test_provisioned_use_alarms_below_what_short_requests_can_reach(alarmed, duration, threshold):
    """At AWS's 10 requests per second, requests of 50 ms give a utilization of at most 0.5."""
    alarm = _alarms(alarmed(cold_start=Provisioned(request_duration=duration)))[
        "ProvisionedConcurrencyUtilization"
    ]
    assert alarm["Threshold"] == pytest.approx(threshold)


def test_thresholds_come_from_the_functions_own_limits(alarmed):
    """Thresholds are shares of the timeout, of Lambda's 10 s and of the function's limits."""
    function = FunctionSettings.model_validate(
        {
            "timeout": "20s",
            "memory_mb": 3000,
            "reserved_concurrency": 20,
            "account_concurrency": 500,
        }
    )
    alarms = _alarms(alarmed(function=function))
    assert {name: alarm["Threshold"] for name, alarm in alarms.items()} == {
        "DurationP50": 2000,
        "DurationP99": 10000,
        "InitDurationP99": 5000,
        "InitDurationMax": 8000,
        "Errors": 1,
        "Url5xx": 1,
        "Throttles": 1,
        "Concurrency": 16,
        "AccountConcurrency": 400,
        "Memory": 2700,
        "MissingPlatformLogs": 0,
    }


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


@pytest.mark.parametrize("watch", ["essential", "full"])
def test_a_warning_comes_before_each_page_that_a_rising_value_causes(alarmed, watch):
    """It notifies itself and does not page, at its share of the threshold that pages."""
    settings = AlarmSettings(warning_percent=40.0, expected_traffic_interval=timedelta(hours=1))
    template = alarmed(alarms=settings, watch=watch)
    alarms = _alarms(template)
    warnings = {name for name in alarms if name.endswith("Warning")}
    paging = {"DurationP99", "Errors", "Throttles", "Url5xx"}
    assert {name.removesuffix("Warning") for name in warnings} == paging
    for name in paging:
        paged, warned = alarms[name], alarms[f"{name}Warning"]
        assert warned["Threshold"] == pytest.approx(0.4 * paged["Threshold"])
        assert warned["AlarmActions"]
        assert warned["AlarmDescription"].endswith(f"#{name.lower()}")
    assert "Warning" not in str(only(template, "AWS::CloudWatch::CompositeAlarm"))


def test_nothing_pages_without_anything_to_notify(alarmed):
    """A composite alarm is billed, and only combines the notices of others."""
    template = alarmed(notifies=False)
    template.resource_count_is("AWS::CloudWatch::CompositeAlarm", 0)
    assert _alarms(template).keys() == ALWAYS


def test_the_runbooks_url_can_be_set(alarmed):
    """Mail clients turn a URL into a link; the alarm's section is its fragment."""
    url = "https://git.example.com/kit/docs/runbook.md"
    template = alarmed(alarms=AlarmSettings(runbook_url=url))
    for name, alarm in _alarms(template).items():
        section = "release" if name in OF_A_RELEASE else name.lower()
        assert alarm["AlarmDescription"].endswith(f". Runbook: {url}#{section}")
    page = only(template, "AWS::CloudWatch::CompositeAlarm")
    assert page["AlarmDescription"].endswith(f". Runbook: {url}#page")


def test_an_alarm_can_be_left_out(alarmed):
    """Neither a disabled alarm nor a reference to it in the composite alarm remains."""
    template = alarmed(disabled=["Memory", "Throttles"])
    assert _alarms(template).keys() == ALWAYS - {"Memory", "Throttles"}
    page = str(only(template, "AWS::CloudWatch::CompositeAlarm"))
    assert "Errors" in page
    assert "Throttles" not in page


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
def test_disabling_an_unknown_alarm_or_all_that_page_is_an_error(alarmed, disabled, message):
    """A misspelled name would silently leave the alarm on."""
    with pytest.raises(ValueError, match=re.escape(message)):
        alarmed(disabled=disabled)


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
    metrics = {name: data.get(name) for name in ("invocations", "errors", "deployed")}
    functions = {"FILL": lambda value, fill: fill if value is None else value}
    try:
        value = eval(expression, {**functions, **metrics})
    except TypeError:
        value = None
    assert value == percent
