"""Test the validation of a function that the app changed after it was constructed."""

from typing import Any

import pytest
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from embedding_kit import EmbeddingEndpoint, Provisioned, SnapStart


@pytest.fixture
def synthesize_changed(synthesize, model):
    """Synthesize an endpoint after a change of resources that the construct created."""

    def run(cold_start, change):
        def build(stack):
            endpoint = EmbeddingEndpoint(stack, "Endpoint", model=model, cold_start=cold_start)
            change(endpoint)

        return synthesize(build)

    return run


def _resource(construct: Construct) -> Any:
    """Return the resource of a construct of the CDK."""
    return construct.node.default_child


def _mount_efs(endpoint: EmbeddingEndpoint) -> None:
    arn = "arn:aws:elasticfilesystem:us-east-1:123456789012:access-point/fsap-0123456789abcdef0"
    _resource(endpoint.function).file_system_configs = [
        lambda_.CfnFunction.FileSystemConfigProperty(arn=arn, local_mount_path="/mnt/models")
    ]


def _grow_storage(endpoint: EmbeddingEndpoint) -> None:
    storage = lambda_.CfnFunction.EphemeralStorageProperty(size=1024)
    _resource(endpoint.function).ephemeral_storage = storage


def _scale(endpoint: EmbeddingEndpoint) -> None:
    endpoint.alias.add_auto_scaling(max_capacity=2)


def _count(endpoint: EmbeddingEndpoint) -> None:
    config = lambda_.CfnAlias.ProvisionedConcurrencyConfigurationProperty(
        provisioned_concurrent_executions=2
    )
    _resource(endpoint.alias).provisioned_concurrency_config = config


def _weigh(endpoint: EmbeddingEndpoint) -> None:
    weight = lambda_.CfnAlias.VersionWeightProperty(function_version="3", function_weight=0.1)
    routing = lambda_.CfnAlias.AliasRoutingConfigurationProperty(
        additional_version_weights=[weight]
    )
    _resource(endpoint.alias).routing_config = routing


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            _mount_efs,
            (
                "SnapStart takes no EFS file system; found: a file system on the function; "
                'allowed: no file system, or another cold_start.kind than "snapstart"'
            ),
        ),
        (
            _grow_storage,
            (
                "SnapStart takes no /tmp over 512 MB; found: 1024 MB; "
                'allowed: 512 MB, or another cold_start.kind than "snapstart"'
            ),
        ),
    ],
    ids=["EFS", "/tmp"],
)
def test_snapstart_refuses_what_it_cannot_snapshot(synthesize_changed, change, message):
    """Synth rejects a setting that AWS would reject at deploy, and names the rule."""
    with pytest.raises(RuntimeError) as refused:
        synthesize_changed(SnapStart(), change)
    assert message in str(refused.value)


@pytest.mark.parametrize("change", [_mount_efs, _grow_storage], ids=["EFS", "/tmp"])
def test_without_snapstart_both_are_allowed(synthesize_changed, change):
    """The rules apply only to SnapStart."""
    synthesize_changed(None, change).resource_count_is("AWS::Lambda::Url", 1)


@pytest.mark.parametrize("change", [_scale, _count], ids=["scaling", "static count"])
def test_snapstart_refuses_provisioned_concurrency(synthesize_changed, change):
    """The CDK does not detect this combination, and AWS rejects it only at deploy."""
    with pytest.raises(RuntimeError) as refused:
        synthesize_changed(SnapStart(), change)
    assert (
        "SnapStart takes no provisioned concurrency; found: both; "
        'allowed: no provisioned concurrency, or another cold_start.kind than "snapstart"'
    ) in str(refused.value)


def test_a_static_count_beside_scaling_is_refused(synthesize_changed):
    """Every deploy would overwrite the value that autoscaling has set."""
    with pytest.raises(RuntimeError, match="a static count of provisioned concurrency and its"):
        synthesize_changed(Provisioned(), _count)


def test_weights_beside_provisioned_concurrency_are_refused(synthesize_changed):
    """AWS would reject the update of the alias."""
    with pytest.raises(RuntimeError, match="AWS refuses to change the provisioned concurrency of"):
        synthesize_changed(Provisioned(), _weigh)
