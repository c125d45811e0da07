"""Requests to a Function URL of the emulated AWS need two permissions, as on AWS."""

import json

import pytest


@pytest.fixture(scope="module")
def deployed(aws, image):
    """Create a function, its alias and its URL, with the two permissions of a named role."""
    caller = aws.make_role("caller")
    client = aws.client("lambda")
    client.create_function(
        FunctionName="embedder",
        Role=caller,
        PackageType="Image",
        Code=image("functions:1"),
        Publish=True,
    )
    client.create_alias(FunctionName="embedder", Name="live", FunctionVersion="1")
    url = client.create_function_url_config(
        FunctionName="embedder", Qualifier="live", AuthType="AWS_IAM"
    )
    client.add_permission(
        FunctionName="embedder",
        Qualifier="live",
        StatementId="by-url",
        Action="lambda:InvokeFunctionUrl",
        Principal=caller,
        FunctionUrlAuthType="AWS_IAM",
    )
    client.add_permission(
        FunctionName="embedder",
        Qualifier="live",
        StatementId="function",
        Action="lambda:InvokeFunction",
        Principal=caller,
        InvokedViaFunctionUrl=True,
    )
    return {"Url": url["FunctionUrl"]}


@pytest.mark.parametrize("statement", ["by-url", "function"])
def test_a_caller_needs_both_permissions(aws, deployed, statement):
    """Each alone is refused, as on AWS since October 2025."""
    client = aws.client("lambda")
    where = {"FunctionName": "embedder", "Qualifier": "live"}
    caller = aws.assume("caller")
    assert aws.post(deployed["Url"], {}, who=caller).status_code == 200
    policy = json.loads(client.get_policy(**where)["Policy"])
    (removed,) = [each for each in policy["Statement"] if each["Sid"] == statement]
    client.remove_permission(**where, StatementId=statement)
    try:
        assert aws.post(deployed["Url"], {}, who=caller).status_code == 403
    finally:
        condition = (
            {"FunctionUrlAuthType": "AWS_IAM"}
            if statement == "by-url"
            else {"InvokedViaFunctionUrl": True}
        )
        client.add_permission(
            **where,
            StatementId=statement,
            Action=removed["Action"],
            Principal=f"arn:aws:iam::{aws.account}:role/caller",
            **condition,
        )
