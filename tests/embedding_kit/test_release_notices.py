"""Test the notices of failed and stopped releases."""

import pytest
from aws_cdk.assertions import Match

from embedding_kit import AlarmTopic, EmbeddingEndpoint, ReleaseNotices


@pytest.fixture(scope="module")
def template(synthesize, model):
    def build(stack):
        endpoint = EmbeddingEndpoint(stack, "Endpoint", model=model)
        notices = AlarmTopic(stack, "Notices")
        assert endpoint.deployment_group is not None
        ReleaseNotices(
            stack, "Releases", deployment_group=endpoint.deployment_group, topic=notices.topic
        )

    return synthesize(build)


def test_the_rule_may_publish_and_encrypt(template):
    """The topic is encrypted; without both permissions a notice is dropped silently."""
    for action, resource in (
        ("sns:Publish", {"Ref": Match.string_like_regexp("^NoticesTopic")}),
        (
            Match.array_with(["kms:Decrypt", "kms:GenerateDataKey*"]),
            {"Fn::GetAtt": [Match.string_like_regexp("^NoticesKey"), "Arn"]},
        ),
    ):
        template.has_resource_properties(
            "AWS::IAM::Policy",
            {
                "PolicyDocument": {
                    "Statement": Match.array_with(
                        [Match.object_like({"Action": action, "Resource": resource})]
                    )
                },
                "Roles": [{"Ref": Match.string_like_regexp("Events")}],
            },
        )
