"""Requests to AWS and to the endpoint: errors by their kind, pages, one request at a time."""

import botocore.exceptions
import httpx2
import pytest

from embedding_client.doctor import SkippedError, probes
from embedding_client.doctor.probes import (
    Aws,
    AwsCallError,
    NotPermittedError,
    NoValidCredentialsError,
)
from embedding_client.doctor.snapshot import NoAnswer
from embedding_client.errors import CredentialsError

from .conftest import identify, raises


@pytest.mark.parametrize(
    ("service", "operation", "arguments", "action"),
    [
        ("lambda", "get_account_settings", {}, "lambda:GetAccountSettings"),
        ("stepfunctions", "list_executions", {"stateMachineArn": "a"}, "states:ListExecutions"),
        ("codedeploy", "get_deployment", {"deploymentId": "d"}, "codedeploy:GetDeployment"),
    ],
)
def test_a_missing_permission_is_named_as_in_a_policy(aws, service, operation, arguments, action):
    """Not as a method of botocore."""
    aws.refuses(service, operation)
    with pytest.raises(NotPermittedError, match=f"no permission for {action}"):
        Aws(aws).call(service, operation, **arguments)


def test_invalid_credentials_are_not_a_missing_permission(aws):
    """Every check would name another one."""
    aws.refuses("sts", "get_caller_identity", "InvalidClientTokenId", "invalid")
    with pytest.raises(NoValidCredentialsError, match="no valid credentials, see above") as raised:
        Aws(aws).call("sts", "get_caller_identity")
    assert raised.value.reason == "InvalidClientTokenId: invalid"


@pytest.mark.parametrize(
    "error",
    [botocore.exceptions.NoCredentialsError(), botocore.exceptions.ProfileNotFound(profile="none")],
)
def test_no_credentials_are_recognized(error):
    """Before anything is sent."""
    with pytest.raises(NoValidCredentialsError) as raised:
        Aws(raises(error)).call("sts", "get_caller_identity")
    assert raised.value.reason == str(error)


def test_no_answer_of_aws_is_an_error():
    """With the kind of it."""
    error = botocore.exceptions.ConnectTimeoutError(endpoint_url="https://sts")
    with pytest.raises(AwsCallError) as raised:
        Aws(raises(error)).call("sts", "get_caller_identity")
    assert raised.value.code == "ConnectTimeoutError"


def test_pages_are_read_to_the_end_or_to_a_limit(aws, monkeypatch):
    """A limit keeps a check of a large account short."""
    monkeypatch.setattr(probes, "_MOST_PAGES", 2)
    for token in ("b", "c", None):
        page = {"Stacks": [{"StackName": "a", "CreationTime": 0, "StackStatus": "s"}]}
        more = {"NextToken": token} if token else {}
        aws.answers("cloudformation", "describe_stacks", {**page, **more})
    read = Aws(aws).pages("cloudformation", "describe_stacks", "Stacks")
    assert len(read) == 2
    read = Aws(aws).pages("cloudformation", "describe_stacks", "Stacks")
    assert len(read) == 1


def test_each_fact_is_read_once(aws, snapshot):
    """Its error is kept, too."""
    asked = snapshot()
    identify(aws)
    assert asked.identity() is asked.identity()
    aws.refuses("cloudformation", "describe_stacks")
    for _ in range(2):
        with pytest.raises(SkippedError, match="cloudformation:DescribeStacks"):
            asked.stack()


def test_a_request_without_credentials_is_skipped(snapshot):
    """As are all checks that need an answer."""
    with pytest.raises(NoValidCredentialsError):
        snapshot(raises(CredentialsError("none"))).signed()
    late = raises(httpx2.ReadTimeout(""))
    assert snapshot(late).signed() == NoAnswer("ReadTimeout")


def test_a_url_of_no_stack_has_no_function(aws, snapshot):
    """Then only the endpoint itself is looked at."""
    identify(aws)
    aws.answers("cloudformation", "describe_stacks", {"Stacks": []})
    with pytest.raises(SkippedError, match="no stack of this account and region has the URL"):
        snapshot().alias()
