"""CloudFront in front of a function in the emulated AWS, called by our own client.

The stack is the constructs', with the check of keys as CloudFront gets it. What the emulated AWS
lacks: caches, the firewall's rules, and the delivery of the access log.
"""

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from aws_cdk import App, Stack
from aws_cdk import Environment as Where

from deploy_rehearsal.callers import make_role
from deploy_rehearsal.calls import send
from deploy_rehearsal.emulator import Emulator
from deploy_rehearsal.function import FunctionServer, Invocation
from embedder.artifact import Artifact
from embedding_client import EmbeddingClient, ForbiddenError
from embedding_kit import CloudFrontFront, DistributionAccess, EmbeddingDistribution
from local_function_url.runtime import Function, Runtime, start
from stacks.keys import KeyStore, new_key
from tests.rehearsal.conftest import echo

# Starts the emulated AWS and a real model, and deploys a stack.
pytestmark = pytest.mark.slow

SOURCE_ROOT = Path(__file__).parents[2] / "lambda_image"
EMBEDDER = "cloudfront-embedder"
TEXTS = ["hello world", "Grüße aus Köln ☕", "<script>alert(1)</script>"]


class Front(NamedTuple):
    """A deployed distribution."""

    domain: str
    id: str
    function_url: str
    store: KeyStore
    key: str


class ToEmulator(httpx.BaseTransport):
    """Sends requests for CloudFront's names to the emulated AWS, as a viewer with HTTPS."""

    def __init__(self, aws: Emulator) -> None:
        self._there = urlsplit(aws.url)
        self._http = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request with its own header Host."""
        request.headers["x-forwarded-proto"] = request.url.scheme
        request.url = request.url.copy_with(
            scheme="http", host=self._there.hostname, port=self._there.port
        )
        return self._http.handle_request(request)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


@pytest.fixture(scope="module")
def events(minilm_artifact: Artifact, function: FunctionServer) -> Iterator[list[dict[str, Any]]]:
    """Answer the function by the handler with the real model, and return its events."""
    runtime: Runtime = start(
        Function(
            handler="embedder.handler.handler",
            source_root=SOURCE_ROOT,
            environment={"EMBEDDING_ARTIFACT": str(minilm_artifact.folder)},
        )
    )
    found: list[dict[str, Any]] = []

    def answer(invocation: Invocation) -> bytes:
        found.append(json.loads(invocation.event))
        return runtime.invoke(invocation.event)

    function.serve(answer)
    yield found
    function.serve(echo)
    runtime.close()


def template(alias_arn: str, host: str) -> dict[str, Any]:
    """Synthesize the resources of the distribution and of its access."""
    app = App(analytics_reporting=False)
    built = Stack(app, "Cloudfront", env=Where(region="us-east-1"))
    settings = CloudFrontFront.model_validate(
        {"kind": "cloudfront", "firewall": {"blocked_addresses": ["203.0.113.0/24"]}}
    )
    front = EmbeddingDistribution(built, "Front", host=host, name="test", settings=settings)
    DistributionAccess(
        built,
        "Access",
        alias_arn=alias_arn,
        distribution_id=front.distribution.distribution_id,
    )
    resources: dict[str, Any] = app.synth().get_stack_by_name("Cloudfront").template["Resources"]
    return resources


def key_value_client(aws: Emulator) -> Any:
    """Create the client of `scripts/keys`, without the account in the name of its host."""

    def without_account(request: Any, **_: object) -> None:
        request.url = request.url.replace(f"//{aws.account}.", "//", 1)

    client = aws.client("cloudfront-keyvaluestore")
    client.meta.events.register_first("before-sign.cloudfront-keyvaluestore", without_account)
    return client


@pytest.fixture(scope="module")
def front(aws: Emulator, events: list[dict[str, Any]]) -> Iterator[Front]:
    """Deploy the distribution once, in front of the alias of a function."""
    client, role = aws.client("lambda"), make_role(aws, "cloudfront")
    client.create_function(
        FunctionName=EMBEDDER,
        PackageType="Image",
        Code={"ImageUri": f"{aws.registry}/cloudfront:1"},
        Role=role,
    )
    version = client.publish_version(FunctionName=EMBEDDER)["Version"]
    alias = client.create_alias(FunctionName=EMBEDDER, Name="live", FunctionVersion=version)
    url = client.create_function_url_config(
        FunctionName=EMBEDDER, Qualifier="live", AuthType="AWS_IAM"
    )["FunctionUrl"]
    resources = template(alias["AliasArn"], urlsplit(url).hostname or "")
    cloudformation = aws.client("cloudformation")
    cloudformation.create_stack(
        StackName="cloudfront",
        TemplateBody=json.dumps({"Resources": resources}),
        Capabilities=["CAPABILITY_IAM"],
    )
    wait = {"Delay": 1, "MaxAttempts": 60}
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName="cloudfront", WaiterConfig=wait
    )
    listed = cloudformation.list_stack_resources(StackName="cloudfront")["StackResourceSummaries"]
    ids = {one["ResourceType"]: one["PhysicalResourceId"] for one in listed}
    distribution = aws.client("cloudfront").get_distribution(
        Id=ids["AWS::CloudFront::Distribution"]
    )["Distribution"]
    (store,) = aws.client("cloudfront").list_key_value_stores()["KeyValueStoreList"]["Items"]
    keys = KeyStore(key_value_client(aws), store["ARN"])
    key = new_key()
    keys.add(key, "search", date(2026, 11, 22))
    yield Front(distribution["DomainName"], distribution["Id"], url, keys, key)
    cloudformation.delete_stack(StackName="cloudfront")
    cloudformation.get_waiter("stack_delete_complete").wait(
        StackName="cloudfront", WaiterConfig=wait
    )


@pytest.fixture
def http(aws: Emulator) -> Iterator[httpx.Client]:
    with httpx.Client(transport=ToEmulator(aws), timeout=60) as made:
        yield made


def test_our_client_gets_the_vectors_of_the_function(
    front: Front, http: httpx.Client, events: list[dict[str, Any]]
) -> None:
    """With a key and no credentials; neither the key nor its own signature reaches the function."""
    with EmbeddingClient(f"https://{front.domain}", api_key=front.key, http_client=http) as client:
        found = client.embed(TEXTS)
        assert client.info()["dimensions"]
    assert found.shape == (3, 384)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-3)
    headers = events[0]["headers"]
    assert events[0]["version"] == "2.0"
    assert "x-api-key" not in headers
    assert front.key not in json.dumps(events)
    assert headers["x-amz-content-sha256"]


def test_a_megabyte_of_text_passes(front: Front, http: httpx.Client) -> None:
    """Text that looks like HTML; the embedder itself says what it takes."""
    with EmbeddingClient(f"https://{front.domain}", api_key=front.key, http_client=http) as client:
        texts = ["<script>alert(1)</script> " * 40] * 1000
        assert len(json.dumps(texts)) > 1_000_000
        assert len(client.embed(texts, truncate="right")) == 1000


@pytest.mark.parametrize("key", [None, "wrong", ""])
def test_no_key_and_a_wrong_key_get_401(
    front: Front, http: httpx.Client, events: list[dict[str, Any]], key: str | None
) -> None:
    """Nothing reaches the function."""
    before = len(events)
    headers = {} if key is None else {"x-api-key": key}
    answer = http.post(f"https://{front.domain}/v1/embeddings", json={}, headers=headers)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert len(events) == before


def test_a_body_needs_its_own_hash(
    front: Front, http: httpx.Client, events: list[dict[str, Any]]
) -> None:
    """Without one the check of keys answers, and with another one Lambda refuses."""
    before, url = len(events), f"https://{front.domain}/"
    key = {"x-api-key": front.key}
    without = http.post(url, json={"text": "a"}, headers=key)
    assert (without.status_code, without.json()["error"]["code"]) == (400, "missing_body_hash")
    other = http.post(url, json={"text": "a"}, headers=key | {"x-amz-content-sha256": "0" * 64})
    assert other.status_code == 403, other.text
    assert len(events) == before


def test_a_call_past_the_distribution_gets_403(
    aws: Emulator, front: Front, events: list[dict[str, Any]]
) -> None:
    """Unsigned, or signed by a role without a policy of its own."""
    before = len(events)
    role = aws.assume(make_role(aws, "cloudfront-nobody"))
    for who in (None, role):
        assert send(aws, front.function_url, {"text": "a"}, who=who).status == 403
    assert len(events) == before


def test_plain_http_gets_403(front: Front, http: httpx.Client) -> None:
    """It is not redirected: the key has traveled in the clear."""
    answer = http.get(f"http://{front.domain}/info", headers={"x-api-key": front.key})
    assert answer.status_code == 403


def test_a_key_is_replaced_without_an_interruption(front: Front, http: httpx.Client) -> None:
    """Both are valid in between, and a revoked key is refused."""

    def status(key: str) -> int:
        return http.get(f"https://{front.domain}/info", headers={"x-api-key": key}).status_code

    old, new = new_key(), new_key()
    first = front.store.add(old, "rotated", date(2026, 11, 1))
    assert (status(old), status(new)) == (200, 401)
    front.store.add(new, "rotated", date(2026, 11, 22))
    assert (status(old), status(new)) == (200, 200)
    front.store.revoke(first.id)
    assert (status(old), status(new)) == (401, 200)
    assert [key.caller for key in front.store.all()] == ["rotated", "search"]


def test_the_client_names_the_refusal(front: Front, http: httpx.Client) -> None:
    """As for API Gateway's keys."""
    with (
        EmbeddingClient(f"https://{front.domain}", api_key="wrong", http_client=http) as client,
        pytest.raises(ForbiddenError, match="has no valid API key"),
    ):
        client.embed(["a"])


def test_the_web_acl_is_attached_to_the_distribution(aws: Emulator, front: Front) -> None:
    """As far as the emulated AWS has it: it does not evaluate the rules."""
    config = aws.client("cloudfront").get_distribution_config(Id=front.id)["DistributionConfig"]
    (acl,) = aws.client("wafv2").list_web_acls(Scope="CLOUDFRONT")["WebACLs"]
    assert config["WebACLId"] == acl["ARN"]
    rules = aws.client("wafv2").get_web_acl(Name=acl["Name"], Id=acl["Id"], Scope="CLOUDFRONT")
    assert len(rules["WebACL"]["Rules"]) == 5
