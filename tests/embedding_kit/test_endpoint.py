"""Test the properties of the endpoint that must never change silently."""

import re
import subprocess
import sys
from datetime import timedelta

import pytest
from aws_cdk import App, Duration, Environment, Stack
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Template

import embedding_kit
from embedder.core.settings import EmbedderSettings
from embedding_kit import (
    Callers,
    EmbeddingEndpoint,
    EndpointAlarms,
    EndpointDashboard,
    Experiment,
    FunctionSettings,
    Provisioned,
)
from tests.embedding_kit.roles import of_kind, only

ROLE = "arn:aws:iam::111122223333:role/search"


def test_nobody_may_call_by_default(endpoint_template):
    """An unsigned URL is open to all, and one on the function bypasses alias and release."""
    template = endpoint_template()
    url = only(template, "AWS::Lambda::Url")
    assert (url["AuthType"], url["Qualifier"]) == ("AWS_IAM", "live")
    template.resource_count_is("AWS::Lambda::Permission", 0)


def test_the_embedder_parses_what_the_construct_sets(endpoint_template):
    """Infrastructure and embedder agree on the name and format of every variable."""
    settings = FunctionSettings(truncate="left", cache_entries=0, timeout=timedelta(seconds=20))
    template = endpoint_template(function=settings, name="staging")
    functions = of_kind(template, "AWS::Lambda::Function")
    (function,) = (candidate for candidate in functions if candidate["Timeout"] == 20)
    parsed = EmbedderSettings.from_env(function["Environment"]["Variables"])
    assert parsed.truncate == "left"
    assert parsed.cache_entries == 0
    assert parsed.environment == "staging"
    assert parsed.metrics_namespace == "EmbeddingKit/staging"


def test_two_aliases_have_a_url_each_and_the_same_callers(endpoint_template):
    """Where weights are impossible, the callers divide the traffic themselves."""
    template = endpoint_template(
        cold_start=Provisioned(),
        experiment=Experiment(version=12),
        callers=Callers(principals=(ROLE,)),
    )
    template.resource_count_is("AWS::Lambda::Permission", 4)


def test_settings_that_do_not_go_together_are_refused_by_the_construct(synthesize, model):
    """Another app gets the same errors as an environment file."""
    with pytest.raises(ValueError, match="AWS refuses to change the provisioned concurrency"):
        synthesize(
            lambda stack: EmbeddingEndpoint(
                stack,
                "Endpoint",
                model=model,
                cold_start=Provisioned(),
                experiment=Experiment(version=12, percent=10.0),
            )
        )


@pytest.mark.slow
def test_the_packages_example_works_in_another_app(tmp_path):
    """The example in the docstring imports only `embedding_kit` and synthesizes in any folder."""
    (example,) = re.findall(r"```python\n(.*?)```", embedding_kit.__doc__, flags=re.DOTALL)
    (tmp_path / "foreign.py").write_text(example.replace("App()", 'App(outdir="out")'))
    subprocess.run([sys.executable, "foreign.py"], cwd=tmp_path, check=True)
    template = Template.from_string((tmp_path / "out" / "Search.template.json").read_text())
    template.resource_count_is("AWS::Lambda::Url", 1)


def test_the_metrics_that_people_ask_for_have_methods(synthesize, model):
    """Another app can add alarms on speed, cold starts and failures without metric names."""
    statistics, labels = {}, {}

    def build(stack):
        endpoint = EmbeddingEndpoint(stack, "Endpoint", model=model, name="test")
        for metric in (
            endpoint.metric_duration(statistic="p90"),
            endpoint.metric_errors(),
            endpoint.metric_invocations(period=Duration.hours(1), label="Requests"),
            endpoint.metric_throttles(),
            endpoint.metric_init_duration(),
            endpoint.metric_texts(),
            endpoint.metric("UrlRequestCount", statistic="Sum"),
        ):
            statistics[metric.metric_name] = (metric.namespace, metric.statistic)
            if metric.label:
                labels[metric.label] = metric.period.to_minutes()

    synthesize(build)
    assert labels == {"Requests": 60}
    assert statistics == {
        "Invocations": ("AWS/Lambda", "Sum"),
        "Throttles": ("AWS/Lambda", "Sum"),
        "Duration": ("AWS/Lambda", "p90"),
        "Errors": ("AWS/Lambda", "Sum"),
        "InitDuration": ("EmbeddingKit/test", "p99"),
        "Texts": ("EmbeddingKit/test", "Sum"),
        "UrlRequestCount": ("AWS/Lambda", "Sum"),
    }


def test_two_endpoints_of_one_name_are_refused(model):
    """Two endpoints of one name would share a metrics namespace and each other's alarms."""
    app = App()
    EmbeddingEndpoint(Stack(app, "One"), "Endpoint", model=model, name="search")
    two = Stack(app, "Two")
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole message is compared
        EmbeddingEndpoint(two, "Endpoint", model=model, name="search")
    assert str(refused.value) == (
        "an endpoint's name is its metrics' namespace, so two would count as one; "
        "found: two endpoints named search; allowed: a name for each"
    )


def test_one_name_in_two_regions_is_accepted(model):
    """Metrics and logs belong to a region; the dashboard's global name includes the region."""
    app = App()
    for region in ("eu-central-1", "us-east-1"):
        where = Environment(account="123456789012", region=region)
        stack = Stack(app, region, env=where)
        endpoint = EmbeddingEndpoint(stack, "Endpoint", model=model, name="search")
        alarms = EndpointAlarms(stack, "Alarms", endpoint=endpoint, topic=sns.Topic(stack, "Topic"))
        EndpointDashboard(stack, "Dashboard", endpoint=endpoint, alarms=alarms)
    assembly = app.synth()
    names = [
        resource["Properties"]["DashboardName"]
        for stack in assembly.stacks
        for resource in stack.template["Resources"].values()
        if resource["Type"] == "AWS::CloudWatch::Dashboard"
    ]
    assert names == ["EmbeddingKit-search-eu-central-1", "EmbeddingKit-search-us-east-1"]


@pytest.mark.parametrize("name", ["a b", "a/b", "x" * 101])
def test_a_name_that_no_dashboard_can_have_is_refused(model, name):
    """A name that CloudWatch would refuse for a dashboard is refused before the deploy."""
    with pytest.raises(ValueError, match="1 to 100 letters, digits, hyphens and underscores"):
        EmbeddingEndpoint(Stack(App(), "One"), "Endpoint", model=model, name=name)
