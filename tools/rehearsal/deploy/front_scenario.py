"""An API in front of the endpoint in the emulated AWS: its stack, and requests with its keys."""

from typing import Any

from stacks.names import front_stack_name
from tools.rehearsal.deploy.callers import CALLER
from tools.rehearsal.deploy.calls import request, send
from tools.rehearsal.deploy.cdk import Cdk
from tools.rehearsal.deploy.emulator import Emulator
from tools.rehearsal.image.report import Report

__all__ = ["FRONT_SETTINGS", "check_front", "set_log_role"]

#: The settings of `[front]`. Each key may send one request, and then one in a quarter of an hour.
FRONT_SETTINGS: dict[str, Any] = {
    "callers": [{"name": "rehearsal", "rate": 0.001, "burst": 1}],
    "firewall": {"requests_per_five_minutes": 1000},
}
_BODY = {"text": "hello, embedding"}
_BY = "the emulated API Gateway, whose events our handler answers in AWS's runtime"


def set_log_role(aws: Emulator) -> None:
    """Set the account's role for API Gateway's logs, without which scripts/deploy stops."""
    role = f"arn:aws:iam::{aws.account}:role/rehearsal-logs"
    change = {"op": "replace", "path": "/cloudwatchRoleArn", "value": role}
    aws.client("apigateway").update_account(patchOperations=[change])


def check_front(report: Report, cdk: Cdk, *, url: str) -> None:
    """Send requests to the deployed API: with its key, once too often, and without a key.

    Args:
        report: The report of the checks.
        cdk: Runs the scripts.
        url: The endpoint's Function URL.
    """
    aws = cdk.aws
    environment = cdk.checkout.environment
    listed = aws.client("cloudformation").list_stack_resources(
        StackName=front_stack_name(environment)
    )
    ids = {
        item["ResourceType"]: str(item["PhysicalResourceId"])
        for item in listed["StackResourceSummaries"]
    }
    (key,) = aws.client("apigateway").get_api_keys(
        nameQuery=f"embedding-kit-{environment}-rehearsal-", includeValues=True
    )["items"]
    path = f"/_aws/execute-api/{ids['AWS::ApiGateway::RestApi']}/live/"
    with report.step("calling the API with its key, and without one"):
        answers = [
            request(aws, path, _BODY, headers=headers | {"content-type": "application/json"})
            for headers in ({"x-api-key": key["value"]}, {"x-api-key": key["value"]}, {})
        ]
        caller = aws.assume(f"arn:aws:iam::{aws.account}:role/{CALLER}")
        by_url = send(aws, url, _BODY, who=caller)
    same = ("embedding", "vector_space")
    report.check(
        "front",
        "a request with a key gets the vector of the Function URL, to the last bit",
        answers[0].status == by_url.status == 200
        and all(answers[0].json()[name] == by_url.json()[name] for name in same),
        by=_BY,
        found=f"{answers[0].status}, {by_url.status}",
    )
    refused = [(answer.status, answer.json()["error"]["code"]) for answer in answers[1:]]
    report.check(
        "front",
        "one over the key's burst gets 429, and one without a key 401, in OpenAI's form",
        refused == [(429, "rate_limit_exceeded"), (401, "invalid_api_key")],
        by=_BY,
        found=str(refused),
    )
