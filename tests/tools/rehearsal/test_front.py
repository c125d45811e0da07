"""The REST API in front of a function in the emulated AWS, called by unmodified clients.

The stack is the construct's, deployed with its keys, usage plans and answers. The events that the
emulated API Gateway makes go to the embedder's handler in Lambda's runtime, with a real model.
"""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import numpy as np
import openai
import pytest
from aws_cdk import App, Stack

from embedder.core.artifact import Artifact
from embedding_client import ApiKeyAuth, EmbeddingClient, ForbiddenError
from embedding_kit import ApiGatewayFront, EmbeddingEndpoint, EmbeddingRestApi
from tests.fixtures.npm_packages import embedded_by_tool
from tests.fixtures.waiting import PATIENCE
from tests.tools.rehearsal.conftest import echo
from tools.local_endpoint.runtime import Function, Runtime, start
from tools.rehearsal.deploy.deployed_functions import FunctionServer, Invocation
from tools.rehearsal.deploy.emulator import Emulator

# Starts the emulated AWS and a real model, and deploys stacks.
pytestmark = pytest.mark.slow

SOURCE_ROOT = Path(__file__).parents[3] / "lambda_image"
EMBEDDER, AUTHORIZER = "front-embedder", "front-authorizer"
TEXTS = ["hello world", "Grüße aus Köln ☕"]
MODEL = "all-MiniLM-L6-v2"
#: The limits are far above what a test sends, except of those that test them.
CALLERS: list[dict[str, Any]] = [
    {"name": "search", "keys": ["1", "2"], "rate": 1000, "burst": 1000},
    {"name": "slow", "rate": 0.001, "burst": 2},
    {"name": "small", "rate": 1000, "burst": 1000, "monthly_requests": 2},
]


class Front(NamedTuple):
    """A deployed API."""

    url: str
    #: The secret of each key, by caller and label.
    keys: dict[str, str]

    def headers(self, key: str = "search-1") -> dict[str, str]:
        """Return the header with a key."""
        return {"x-api-key": self.keys[key]}


@pytest.fixture(scope="module")
def runtime(minilm_artifact: Artifact) -> Iterator[Runtime]:
    """Run the handler with the real model, in Lambda's emulator if it has a binary here."""
    made = start(
        Function(
            handler="embedder.aws_lambda.handler.handler",
            source_root=SOURCE_ROOT,
            environment={"EMBEDDING_ARTIFACT": str(minilm_artifact.folder), "EMBEDDING_MCP": "on"},
        )
    )
    yield made
    made.close()


@pytest.fixture(scope="module")
def events(runtime: Runtime, function: FunctionServer) -> Iterator[list[dict[str, Any]]]:
    """Answer functions, and return the events that they get."""
    found: list[dict[str, Any]] = []

    def answer(invocation: Invocation) -> bytes:
        event = json.loads(invocation.event)
        called = {"function": invocation.function, "functionVersion": invocation.version}
        found.append(event | called)
        if invocation.function == AUTHORIZER:
            return _decision(event)
        return runtime.invoke(invocation.event)

    function.serve = answer
    yield found
    function.serve = echo


def _decision(event: dict[str, Any]) -> bytes:
    """Allow the team `search`, as a REQUEST authorizer returns it."""
    allowed = event["headers"].get("x-team") == "search"
    statement = {
        "Action": "execute-api:Invoke",
        "Effect": "Allow" if allowed else "Deny",
        "Resource": event["methodArn"],
    }
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    return json.dumps({"principalId": "caller", "policyDocument": policy}).encode()


@pytest.fixture(scope="module")
def functions(aws: Emulator, image: Callable[[str], dict[str, str]]) -> dict[str, str]:
    """Create the functions, which the stack does not: ARNs of the alias and of the authorizer."""
    client, role = aws.client("lambda"), aws.make_role("front")
    for name in (EMBEDDER, AUTHORIZER):
        code = image("front:1")
        client.create_function(FunctionName=name, PackageType="Image", Code=code, Role=role)
    version = client.publish_version(FunctionName=EMBEDDER)["Version"]
    alias = client.create_alias(FunctionName=EMBEDDER, Name="live", FunctionVersion=version)
    place = f"arn:aws:lambda:{aws.region}:{aws.account}:function"
    return {"alias": alias["AliasArn"], "authorizer": f"{place}:{AUTHORIZER}"}


def template(functions: dict[str, str], **changes: Any) -> dict[str, Any]:
    """Synthesize the resources of a stack with the API."""
    app = App(analytics_reporting=False)
    built = Stack(app, "Front")
    endpoint = EmbeddingEndpoint.from_embedding_endpoint_attributes(
        built,
        "Endpoint",
        alias_arn=functions["alias"],
        url="https://x.lambda-url.us-east-1.on.aws/",
        name="test",
    )
    settings = ApiGatewayFront.model_validate({"callers": CALLERS, **changes})
    EmbeddingRestApi(built, "Front", endpoint=endpoint, settings=settings)
    # Without the rule on bootstrap's version, which this stack does not need.
    return {"Resources": app.synth().get_stack_by_name("Front").template["Resources"]}


def deployed(aws: Emulator, name: str) -> Front:
    """Find the API of a stack, and its keys as the documentation does: by their names."""
    resources = aws.client("cloudformation").list_stack_resources(StackName=name)
    ids = {
        resource["ResourceType"]: resource["PhysicalResourceId"]
        for resource in resources["StackResourceSummaries"]
    }
    prefix = "embedding-kit-test-"
    keys = aws.client("apigateway").get_api_keys(nameQuery=prefix, includeValues=True)["items"]
    api = ids["AWS::ApiGateway::RestApi"]
    return Front(
        f"{aws.url}/_aws/execute-api/{api}/live",
        {key["name"].removeprefix(prefix): key["value"] for key in keys},
    )


@pytest.fixture(scope="module")
def front(
    aws: Emulator, functions: dict[str, str], events: list[dict[str, Any]]
) -> Iterator[Front]:
    """Deploy the API once, with a domain, a firewall and the role for logs."""
    cloudformation = aws.client("cloudformation")
    name = "embeddings.example.com"
    certificate = aws.client("acm").request_certificate(DomainName=name)["CertificateArn"]
    built = template(
        functions,
        domain={"name": name, "certificate": certificate},
        firewall={},
        manage_log_role=True,
    )
    # On AWS a domain switches the default name off. The tests call by it: no DNS has the other.
    (api,) = (r for r in built["Resources"].values() if r["Type"] == "AWS::ApiGateway::RestApi")
    assert api["Properties"].pop("DisableExecuteApiEndpoint") is True
    cloudformation.create_stack(
        StackName="front", TemplateBody=json.dumps(built), Capabilities=["CAPABILITY_IAM"]
    )
    wait = {"Delay": 1, "MaxAttempts": PATIENCE}
    cloudformation.get_waiter("stack_create_complete").wait(StackName="front", WaiterConfig=wait)
    yield deployed(aws, "front")
    cloudformation.delete_stack(StackName="front")
    cloudformation.get_waiter("stack_delete_complete").wait(StackName="front", WaiterConfig=wait)


@pytest.fixture(scope="module")
def vectors(runtime: Runtime) -> Any:
    """Return the vectors of TEXTS as the function itself answers a Function URL's event."""
    event = {
        "version": "2.0",
        "rawPath": "/",
        "requestContext": {"http": {"method": "POST"}},
        "body": json.dumps({"texts": TEXTS}),
    }
    answer = json.loads(runtime.invoke(json.dumps(event).encode()))
    return np.array(json.loads(answer["body"])["embeddings"], np.float32)


def test_our_own_client_and_command_send_their_key(front, vectors):
    """`ApiKeyAuth` in programs, and a variable with the key on the command line."""
    with EmbeddingClient(front.url, auth=ApiKeyAuth(front.keys["search-1"])) as client:
        assert np.array_equal(client.embed(TEXTS), vectors)
    with (
        EmbeddingClient(front.url, auth=ApiKeyAuth("wrong")) as client,
        pytest.raises(ForbiddenError, match="has no valid API key"),
    ):
        client.embed(TEXTS)
    ran = subprocess.run(
        [Path(sys.executable).with_name("embed"), "--api-key-env", "KEY", TEXTS[0]],
        env=os.environ | {"KEY": front.keys["search-1"], "EMBEDDING_URL": front.url},
        capture_output=True,
        text=True,
        check=True,
    )
    assert np.allclose(json.loads(ran.stdout)["embedding"], vectors[0], atol=1e-6)


def test_the_clients_on_the_page_run(front):
    """The example in the documentation, with this address and key."""
    page = (SOURCE_ROOT.parent / "docs" / "front.md").read_text(encoding="utf-8")
    example = page.partition("```python\n")[2].partition("```")[0]
    assert "OpenAI(" in example
    assert "EmbeddingClient(" in example
    url = "https://abc123.execute-api.eu-central-1.amazonaws.com/live"
    program = example.replace(url, front.url).replace('"KEY"', repr(front.keys["search-1"]))
    command = [sys.executable, "-W", "error", "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_the_protocols_inspector_sends_a_key(front, vectors, tmp_path):
    """An agent needs no bridge here: the key is a header, as its programs allow."""
    ((name, key),) = front.headers().items()
    target = [f"{front.url}/mcp", "--transport", "http", "--header", f"{name}: {key}"]
    found = embedded_by_tool(tmp_path, target, TEXTS)
    assert np.array_equal(np.array(found, np.float32), vectors)


def test_errors_of_the_embedder_arrive_as_they_are(front):
    """API Gateway validates nothing: also unknown paths and wrong methods are answered by ours."""
    with httpx2.Client(base_url=front.url, headers=front.headers(), timeout=PATIENCE) as http:
        assert http.post("/embed", json={"inputs": 7}).json()["error_type"] == "Validation"
        assert http.post("/v1/embeddings", json={}).json()["error"]["code"] == "invalid_field"
        assert http.get("/nothing").status_code == 404
        assert http.get("/embed").headers["allow"] == "POST"
        assert http.get("/health").status_code == 200


def test_gzip_travels_both_ways(front, vectors):
    """A body in gzip is inflated, and an answer of 16 KB or more comes in gzip if it is wanted."""
    body = gzip.compress(json.dumps({"texts": TEXTS * 10}).encode())
    headers = front.headers() | {"content-encoding": "gzip", "content-type": "application/json"}
    post = partial(httpx2.post, f"{front.url}/", content=body, timeout=PATIENCE)
    packed = post(headers=headers)
    assert packed.headers["content-encoding"] == "gzip"
    plain = post(headers=headers | {"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert np.array_equal(np.array(plain.json()["embeddings"][:2], np.float32), vectors)
    assert packed.json() == plain.json()


@pytest.mark.parametrize("headers", [{}, {"x-api-key": "wrong"}, {"x-api-key": ""}])
@pytest.mark.parametrize("path", ["/v1/embeddings", "/embed", "/nothing", "/"])
def test_without_a_key_nothing_reaches_the_function(front, events, path, headers):
    """No key and a wrong key get 401 in the form of OpenAI's errors, on every path."""
    before = len(events)
    answer = httpx2.post(f"{front.url}{path}", json={"input": "a"}, headers=headers)
    assert answer.status_code == 401
    assert answer.json()["error"] == {
        "message": "The header x-api-key is missing or has no valid API key.",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_api_key",
    }
    assert len(events) == before


def test_openais_client_knows_the_refusals(front):
    """A wrong key is an AuthenticationError, a caller over its burst a RateLimitError."""

    def client(headers: dict[str, str]) -> openai.OpenAI:
        return openai.OpenAI(
            base_url=f"{front.url}/v1", api_key="-", default_headers=headers, max_retries=0
        )

    with client({"x-api-key": "wrong"}) as wrong, pytest.raises(openai.AuthenticationError):
        wrong.embeddings.create(model=MODEL, input="a")
    with client(front.headers("slow-1")) as slow:
        for _ in range(2):
            slow.embeddings.create(model=MODEL, input="a")
        with pytest.raises(openai.RateLimitError) as refused:
            slow.embeddings.create(model=MODEL, input="a")
    assert refused.value.code == "rate_limit_exceeded"
    assert refused.value.response.headers["retry-after"] == "1"


def test_a_caller_over_its_quota_is_refused_once(front, events):
    """OpenAI's client would repeat a 429, and does not: the quota is over for the month."""
    before = len(events)
    with openai.OpenAI(
        base_url=f"{front.url}/v1", api_key="-", default_headers=front.headers("small-1")
    ) as client:
        for _ in range(2):
            client.embeddings.create(model=MODEL, input="a")
        with pytest.raises(openai.RateLimitError) as refused:
            client.embeddings.create(model=MODEL, input="a")
    assert refused.value.code == "insufficient_quota"
    assert refused.value.response.headers["x-should-retry"] == "false"
    assert len(events) == before + 2


def test_a_key_is_replaced_without_an_interruption(aws, functions, events, stack):
    """Both keys are valid in between; a removed key is refused, and so is a caller without keys."""

    def callers(*labels: str) -> list[dict[str, Any]]:
        return [{"name": "rotated", "keys": list(labels), "rate": 1000, "burst": 1000}]

    def update(*labels: str) -> None:
        changed = template(functions, callers=callers(*labels))
        cloudformation = aws.client("cloudformation")
        cloudformation.update_stack(StackName="front-keys", TemplateBody=json.dumps(changed))
        cloudformation.get_waiter("stack_update_complete").wait(
            StackName="front-keys", WaiterConfig={"Delay": 1, "MaxAttempts": PATIENCE}
        )

    stack("front-keys", template(functions, callers=callers("1"))["Resources"])
    first = deployed(aws, "front-keys")

    def status(key: str) -> int:
        answer = httpx2.get(f"{first.url}/health", headers={"x-api-key": key}, timeout=PATIENCE)
        return answer.status_code

    old = first.keys["rotated-1"]
    assert status(old) == 200
    update("1", "2")
    new = deployed(aws, "front-keys").keys["rotated-2"]
    assert (status(old), status(new)) == (200, 200)
    update("2")
    assert (status(old), status(new)) == (401, 200)
    update()
    assert (status(old), status(new)) == (401, 401)


def test_an_authorizer_refuses_for_certain(aws, functions, events, stack):
    """It is asked about each request, also a second time; a request needs a key as well."""
    changed = template(functions, authorizer=functions["authorizer"])
    stack("front-authorizer", changed["Resources"])
    api = deployed(aws, "front-authorizer")
    key = {"x-api-key": api.keys["search-1"]}

    def answered(headers: dict[str, str]) -> tuple[int, list[str]]:
        before = len(events)
        answer = httpx2.get(f"{api.url}/health", headers=headers, timeout=PATIENCE)
        return answer.status_code, [event["function"] for event in events[before:]]

    assert answered(key | {"x-team": "search"}) == (200, [AUTHORIZER, EMBEDDER])
    assert answered(key | {"x-team": "search"}) == (200, [AUTHORIZER, EMBEDDER])
    assert answered(key | {"x-team": "other"}) == (403, [AUTHORIZER])
    assert answered(key) == (403, [AUTHORIZER])
    status, asked = answered({"x-team": "search"})
    assert status == 401
    assert EMBEDDER not in asked
