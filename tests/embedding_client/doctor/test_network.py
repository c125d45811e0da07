"""The function's VPC, and calls by Lambda's Invoke."""

import json

import httpx
import pytest

from embedding_client.doctor.findings import SkippedError, State
from embedding_client.doctor.network import check_invoke, check_subnets, judge_subnets

from .conftest import ROLE, SPACE, deployed


def subnet(number, zone, free):
    return {
        "SubnetId": f"subnet-{number}",
        "AvailabilityZone": zone,
        "AvailableIpAddressCount": free,
    }


@pytest.mark.parametrize(
    ("subnets", "state", "words"),
    [
        ([subnet(1, "a", 200), subnet(2, "b", 9)], State.OK, "2 in 2 Availability Zones, at least"),
        ([subnet(1, "a", 200), subnet(2, "b", 7)], State.WARNING, "subnet-2: 2 in 2 "),
        ([subnet(1, "a", 1200)], State.WARNING, "1 in 1 Availability Zone, at least 1,200 "),
        ([subnet(1, "a", 0), subnet(2, "b", 9)], State.ILL, "subnet-1 has no free address; "),
    ],
)  # fmt: skip
def test_the_free_addresses_of_the_subnets(subnets, state, words):
    """Without one, Lambda cannot make a network interface."""
    found = judge_subnets(subnets)
    assert found.state == state
    assert found.found.startswith(words)


def test_the_subnets_are_those_of_the_version_behind_the_alias(aws, facts):
    """Only they are read."""
    deployed(aws)
    ids = ["subnet-1", "subnet-2"]
    network = {"VpcConfig": {"SubnetIds": ids, "SecurityGroupIds": ["sg-1"], "VpcId": "vpc-1"}}
    aws.answers("lambda", "get_function_configuration", network)
    found = [subnet(1, "a", 99), subnet(2, "b", 99)]
    aws.answers("ec2", "describe_subnets", {"Subnets": found}, {"SubnetIds": ids})
    assert check_subnets(facts()).state == State.OK


def test_a_function_without_a_vpc_is_skipped(aws, facts):
    """Lambda's answer then has no subnets."""
    deployed(aws)
    aws.answers("lambda", "get_function_configuration", {"VpcConfig": {"SubnetIds": []}})
    with pytest.raises(SkippedError, match="in no VPC"):
        check_subnets(facts())


BY_URL = {"Bool": {"lambda:InvokedViaFunctionUrl": "true"}}
PLAIN = {"Effect": "Allow", "Principal": {"AWS": ROLE}, "Action": "lambda:InvokeFunction"}
GATEWAY = PLAIN | {"Principal": {"Service": "apigateway.amazonaws.com"}}


def policy(aws, *statements):
    """Answer with the policy of the alias."""
    aws.answers("lambda", "get_policy", {"Policy": json.dumps({"Statement": statements})})


@pytest.mark.parametrize("statement", [PLAIN | {"Condition": BY_URL}, GATEWAY])
def test_callers_without_invoke_are_skipped(aws, facts, statement):
    """The URL's own permission and API Gateway's are no such thing."""
    deployed(aws)
    policy(aws, statement)
    with pytest.raises(SkippedError, match=r"\[callers\] has no invoke"):
        check_invoke(facts())


def served(vector):
    """Answer at the URL with a vector."""
    return httpx.Response(200, json={"embedding": vector}, headers={"x-vector-space": SPACE})


def invoked(vector):
    """Answer with the result of the function."""
    body = {"statusCode": 200, "body": json.dumps({"embedding": vector}), "headers": {}}
    return httpx.Response(200, json=body)


def no_route(_):
    raise httpx.ConnectTimeout("")


@pytest.mark.parametrize(
    ("answer", "state", "words"),
    [
        (lambda _: invoked([0.5]), State.OK, "the vector of the URL in "),
        (lambda _: invoked([0.6]), State.ILL, "another vector than by the URL"),
        (lambda _: httpx.Response(403), State.WARNING, "Lambda refuses these credentials"),
        (lambda _: httpx.Response(404), State.ILL, "the status is 404"),
        (
            lambda _: httpx.Response(200, json={}, headers={"x-amz-function-error": "Unhandled"}),
            State.ILL,
            "the status is 502",
        ),
        (
            no_route,
            State.WARNING,
            "no answer (ConnectTimeout at lambda.eu-central-1.amazonaws.com)",
        ),
    ],
    ids=["ok", "another vector", "refused", "missing", "failed", "no route"],
)
def test_the_answer_by_invoke_is_that_of_the_url(aws, facts, monkeypatch, answer, state, words):  # noqa: PLR0917 - a table
    """It is the same request to the same alias."""
    monkeypatch.delenv("AWS_ENDPOINT_URL_LAMBDA", raising=False)
    deployed(aws)
    policy(aws, PLAIN)

    def respond(request):
        if request.url.host != "lambda.eu-central-1.amazonaws.com":
            return served([0.5])
        assert "embedder/invocations?Qualifier=live" in str(request.url)
        assert json.loads(json.loads(request.content)["body"]) == {"text": "hello world"}
        return answer(request)

    found = check_invoke(facts(respond))
    assert (found.state, found.found[: len(words)]) == (state, words)
