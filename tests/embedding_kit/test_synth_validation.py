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


CONFLICT = "SnapStart takes no provisioned concurrency; found: both; allowed: no provisioned"


@pytest.mark.parametrize(
    ("cold_start", "change", "message"),
    [
        (SnapStart(), _mount_efs, "SnapStart takes no EFS file system; found: a file system"),
        (SnapStart(), _grow_storage, "SnapStart takes no /tmp over 512 MB; found: 1024 MB"),
        # The CDK does not detect this combination.
        (SnapStart(), _scale, CONFLICT),
        (SnapStart(), _count, CONFLICT),
        # Every deploy would overwrite the value that autoscaling has set.
        (Provisioned(), _count, "a static count of provisioned concurrency and its"),
        (Provisioned(), _weigh, "AWS refuses to change the provisioned concurrency of"),
    ],
)
def test_what_aws_would_refuse_at_deploy_is_refused(
    synthesize_changed, cold_start, change, message
):
    """Synth names the rule, and without SnapStart its rules do not apply."""
    with pytest.raises(RuntimeError) as refused:
        synthesize_changed(cold_start, change)
    assert message in str(refused.value)
    if isinstance(cold_start, SnapStart):
        synthesize_changed(None, change).resource_count_is("AWS::Lambda::Url", 1)
