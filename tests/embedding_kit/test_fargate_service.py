"""Test the server: tasks, network, keys, scaling, alarms, dashboard."""

import json
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Template

from embedder.core.settings import EmbedderSettings
from embedding_kit import (
    AlarmSettings,
    EmbeddingService,
    FunctionSettings,
    PartAlarms,
    ServerSettings,
    VectorIndex,
)
from embedding_kit.monitoring import parts as monitoring
from tests.embedding_kit.endpoints import add_alarms, once
from tests.embedding_kit.roles import HOME, of_kind, only, statements

SECRET = f"arn:aws:secretsmanager:us-east-1:{HOME}:secret:keys-AbCdEf"
KEY = f"arn:aws:kms:us-east-1:{HOME}:key/1111aaaa"
CERTIFICATE = f"arn:aws:acm:us-east-1:{HOME}:certificate/1234abcd"
PRIVATE: dict[str, Any] = {
    "vpc": "vpc-0123456789abcdef0",
    "subnets": ("subnet-0aaaaaaaaaaaaaaa1", "subnet-0aaaaaaaaaaaaaaa2"),
    "clients": ("10.0.0.0/16", "192.168.0.0/24"),
}
WITH_KEYS = {
    "certificate": CERTIFICATE,
    "domain_name": "embeddings.example.com",
    "keys_secret": SECRET,
}


@pytest.fixture(scope="module")
def make(synthesize, model):
    """Return a function that synthesizes a server with alarms and dashboard, once."""

    @once
    def template(*, service: dict[str, Any] | None = None, **changes: Any) -> Template:
        settings = ServerSettings(**{**PRIVATE, **changes})
        properties = {"name": "test", "existing_keys": [KEY], **(service or {})}

        def build(stack: Stack) -> None:
            server = EmbeddingService(stack, "Server", model=model, settings=settings, **properties)
            add_alarms(stack, server)

        return synthesize(build)

    return template


@pytest.fixture(scope="module")
def template(make) -> Template:
    return make(**WITH_KEYS)


@pytest.fixture(scope="module")
def open_template(make) -> Template:
    return make(no_keys=True)


def container_of(template: Template) -> dict[str, Any]:
    (container,) = only(template, "AWS::ECS::TaskDefinition")["ContainerDefinitions"]
    return dict(container)


def variables_of(template: Template) -> dict[str, str]:
    return {entry["Name"]: entry["Value"] for entry in container_of(template)["Environment"]}


def test_without_keys_the_server_is_told_so(open_template):
    """There is no secret; the load balancer speaks HTTP in the private network."""
    assert "Secrets" not in container_of(open_template)
    assert variables_of(open_template)["EMBEDDING_SERVER_NO_KEYS"] == "true"
    listener = only(open_template, "AWS::ElasticLoadBalancingV2::Listener")
    assert (listener["Port"], listener["Protocol"]) == (80, "HTTP")
    assert "secretsmanager" not in json.dumps(open_template.to_json())


def test_the_server_knows_its_variables_and_is_given_time(open_template, template):
    """Its own defaults fit the load balancer's idle timeout and the time until ECS kills it."""
    from embedder.server.options import PREFIX, parse

    variables = variables_of(open_template)
    settings = parse([], variables)
    of_embedder = {name: text for name, text in variables.items() if not name.startswith(PREFIX)}
    assert EmbedderSettings.from_env(of_embedder).environment == "test"
    assert settings.no_keys
    assert settings.drain < container_of(open_template)["StopTimeout"] <= 120
    assert settings.keep_alive > 60
    assert settings.timeout == monitoring._SERVER_TIMEOUT.total_seconds()
    secrets = container_of(template)["Secrets"]
    assert parse([], {entry["Name"]: "a" for entry in secrets}).keys == "a"


def test_workers_are_the_tasks_vcpus(make):
    """A task sees the cores of a larger machine, and would start too many threads."""
    for cpu, memory, workers in ((256, 1024, "1"), (4096, 8192, "4")):
        template = make(no_keys=True, cpu=cpu, memory_mb=memory)
        assert variables_of(template)["EMBEDDING_SERVER_WORKERS"] == workers


def test_requests_are_answered_as_by_the_function_beside_it(synthesize, model):
    """Callers that move see the same limits, and the same index."""
    index_arn = f"arn:aws:s3vectors:us-east-1:{HOME}:bucket/vectors/index/docs"

    def build(stack: Stack) -> None:
        EmbeddingService(
            stack,
            "Server",
            model=model,
            settings=ServerSettings(**PRIVATE, no_keys=True),
            name="test",
            function=FunctionSettings(truncate="right", cache_entries=0),
            vector_index=VectorIndex.from_index_arn(stack, "Index", index_arn),
        )

    template = synthesize(build)
    assert {
        "EMBEDDING_TRUNCATE": "right",
        "EMBEDDING_CACHE_ENTRIES": "0",
        "EMBEDDING_VECTOR_INDEX": index_arn,
    }.items() <= variables_of(template).items()
    role = only(template, "AWS::ECS::TaskDefinition")["TaskRoleArn"]
    (statement,) = statements(template, role["Fn::GetAtt"][0])
    assert "s3vectors:QueryVectors" in statement["Action"]
    assert statement["Resource"] == index_arn


def test_traces_go_to_the_collector(make, open_template):
    """The tasks may connect to its port, and only then."""
    from embedder.server.options import parse

    template = make(no_keys=True, otlp_endpoint="http://collector.internal:4318")
    variables = variables_of(template)
    assert parse([], variables).otlp_endpoint == "http://collector.internal:4318"
    assert variables["OTEL_RESOURCE_ATTRIBUTES"] == "deployment.environment.name=test"
    assert ports_of_tasks(template) == [443, 4318]
    assert ports_of_tasks(make(no_keys=True, otlp_endpoint="https://collector.internal")) == [443]
    assert "OTEL_" not in json.dumps(open_template.to_json())
    assert ports_of_tasks(open_template) == [443]


def ports_of_tasks(template: Template) -> list[int]:
    """Return the ports to which the tasks may connect."""
    groups = of_kind(template, "AWS::EC2::SecurityGroup")
    (group,) = (group for group in groups if group["GroupDescription"] == "Tasks of test")
    return [rule["ToPort"] for rule in group["SecurityGroupEgress"]]


def test_a_public_server_has_the_subnets_of_its_load_balancer(make):
    """The tasks stay in the private ones."""
    public = ("subnet-0bbbbbbbbbbbbbbb1", "subnet-0bbbbbbbbbbbbbbb2")
    template = make(**WITH_KEYS, public=True, load_balancer_subnets=public)
    balancer = only(template, "AWS::ElasticLoadBalancingV2::LoadBalancer")
    assert (balancer["Scheme"], balancer["Subnets"]) == ("internet-facing", list(public))
    network = only(template, "AWS::ECS::Service")["NetworkConfiguration"]["AwsvpcConfiguration"]
    assert (network["AssignPublicIp"], network["Subnets"]) == ("DISABLED", list(PRIVATE["subnets"]))


def test_failed_requests_page_and_all_else_notifies(synthesize, model):
    """The page has its own topic, and says when it is over; its warning is a notice."""
    arns = {name: f"arn:aws:sns:us-east-1:123456789012:{name}" for name in ("page", "notice")}

    def build(stack: Stack) -> None:
        page, notice = (sns.Topic.from_topic_arn(stack, name, arn) for name, arn in arns.items())
        settings = ServerSettings(**PRIVATE, no_keys=True)
        server = EmbeddingService(stack, "Server", model=model, settings=settings)
        thresholds = AlarmSettings(warning_percent=50.0, error_percent=2.0)
        PartAlarms(stack, "Alarms", part=server, settings=thresholds, topic=notice, page_topic=page)

    alarms = of_kind(synthesize(build), "AWS::CloudWatch::Alarm")
    failed = sorted(
        (alarm["Threshold"], alarm["AlarmActions"], alarm.get("OKActions"))
        for alarm in alarms
        if alarm["AlarmDescription"].endswith("#server5xx")
    )
    page, notice = ([arn] for arn in arns.values())
    assert failed == [(1, notice, None), (2, page, page)]
    assert [alarm["AlarmActions"] for alarm in alarms].count(notice) == len(alarms) - 1


def test_a_protected_server_is_not_deleted_with_its_stack(make):
    """Its load balancer refuses; the address of callers would be lost."""
    template = make(no_keys=True, service={"deletion_protection": True})
    balancer = only(template, "AWS::ElasticLoadBalancingV2::LoadBalancer")
    assert {"Key": "deletion_protection.enabled", "Value": "true"} in balancer[
        "LoadBalancerAttributes"
    ]
