"""What is refused of a function that somebody changed after it was constructed."""

import pytest
from aws_cdk import aws_lambda as lambda_

from embedding_kit import EmbeddingEndpoint, SnapStart


@pytest.fixture
def synthesize_changed(synthesize, model):
    """Synthesize an endpoint whose CfnFunction was changed behind the construct's back."""

    def run(cold_start, change):
        def build(stack):
            endpoint = EmbeddingEndpoint(stack, "Endpoint", model=model, cold_start=cold_start)
            change(endpoint.function.node.default_child)

        return synthesize(build)

    return run


def _mount_efs(function: lambda_.CfnFunction) -> None:
    arn = "arn:aws:elasticfilesystem:us-east-1:123456789012:access-point/fsap-0123456789abcdef0"
    function.file_system_configs = [
        lambda_.CfnFunction.FileSystemConfigProperty(arn=arn, local_mount_path="/mnt/models")
    ]


def _grow_storage(function: lambda_.CfnFunction) -> None:
    function.ephemeral_storage = lambda_.CfnFunction.EphemeralStorageProperty(size=1024)


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
    """AWS would refuse it at deploy; synth does before, with the rule."""
    with pytest.raises(RuntimeError) as refused:
        synthesize_changed(SnapStart(), change)
    assert message in str(refused.value)


@pytest.mark.parametrize("change", [_mount_efs, _grow_storage], ids=["EFS", "/tmp"])
def test_without_snapstart_both_are_allowed(synthesize_changed, change):
    """The rules are SnapStart's, not ours."""
    synthesize_changed(None, change).resource_count_is("AWS::Lambda::Url", 1)
