"""Calls of a function in the emulated AWS by Lambda's Invoke, with our client and as a role."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from botocore.credentials import Credentials

from embedder.core.artifact import Artifact
from embedding_client import (
    EmbeddingClient,
    ForbiddenError,
    RequestError,
    RetryPolicy,
    ServiceError,
    SigV4Auth,
)
from tests.tools.rehearsal.conftest import echo
from tools.local_endpoint.endpoint import endpoint
from tools.local_endpoint.runtime import Runtime
from tools.rehearsal.deploy.emulator import Emulator
from tools.rehearsal.deploy.function_server import FunctionServer, Invocation

# Starts the emulated AWS and a real model.
pytestmark = pytest.mark.slow

NAME = "invoked"
TEXTS = ["hello world", "Grüße aus Köln ☕"]


class Served:
    """The function: a real model, or a failure if one is set."""

    def __init__(self, runtime: Runtime) -> None:
        self.failure: bytes | None = None
        self.runtime = runtime
        self.invocations: list[Invocation] = []

    def answer(self, invocation: Invocation) -> bytes:
        """Answer an event."""
        self.invocations.append(invocation)
        return self.failure or self.runtime.invoke(invocation.event)


@pytest.fixture(scope="module")
def served(minilm_artifact: Artifact, function: FunctionServer) -> Iterator[tuple[Served, str]]:
    """Serve the model to the emulated AWS, and at a local Function URL."""
    url, runtime = endpoint(Path(minilm_artifact.folder))
    with url:
        made = Served(runtime)
        function.serve = made.answer
        yield made, url.url
    function.serve = echo


@pytest.fixture(scope="module")
def alias(aws: Emulator, served: object, image: Callable[[str], dict[str, str]]) -> str:
    """Create the function with its alias, and let one role invoke it as `[callers]` does."""
    client, role = aws.client("lambda"), aws.make_role("invoked-function")
    client.create_function(
        FunctionName=NAME,
        PackageType="Image",
        Code=image("invoked:1"),
        Role=role,
    )
    version = client.publish_version(FunctionName=NAME)["Version"]
    made = client.create_alias(FunctionName=NAME, Name="live", FunctionVersion=version)
    client.add_permission(
        FunctionName=NAME,
        Qualifier="live",
        StatementId="caller",
        Action="lambda:InvokeFunction",
        Principal=aws.make_role("invoker"),
    )
    aws.make_role("other")
    return str(made["AliasArn"])


@pytest.fixture
def connect(aws: Emulator, alias: str) -> Any:
    """Return a function that makes a client as a role of the account."""

    def client(role: str = "invoker", function: str = alias, **options: Any) -> EmbeddingClient:
        who = aws.assume(f"arn:aws:iam::{aws.account}:role/{role}")
        auth = SigV4Auth(credentials=Credentials(*who[:3]), region=aws.region)
        retries = RetryPolicy(base=0, attempts=2)
        return EmbeddingClient(
            function=function,
            endpoint_url=aws.url,
            region=aws.region,
            auth=auth,
            **{"retries": retries, **options},
        )

    return client


def test_the_vectors_are_those_of_the_url(connect: Any, served: tuple[Served, str]) -> None:
    """The same bits and the same errors, from the version behind the alias."""
    made, url = served
    with connect() as invoking, EmbeddingClient(url) as by_url:
        assert np.array_equal(invoking.embed(TEXTS), by_url.embed(TEXTS))
        assert invoking.vector_space == by_url.vector_space
        assert made.invocations[0].version == "1"
        for client in (invoking, by_url):
            with pytest.raises(RequestError, match="must be 384") as refused:
                client.embed(TEXTS, dimensions=7)
            assert refused.value.field == "size"


def test_the_name_of_the_function_is_enough_in_its_account(aws: Emulator, alias: str) -> None:
    """Without the rest of the ARN."""
    # As the account's root: the emulated AWS finds the alias's policy by its ARN only.
    auth = SigV4Auth(credentials=Credentials(*aws.root[:3]), region=aws.region)
    name = alias.rpartition("function:")[2]
    with EmbeddingClient(
        function=name, endpoint_url=aws.url, region=aws.region, auth=auth
    ) as client:
        assert len(client.embed_one("hello world")) == 384


def test_only_the_listed_role_may_invoke_and_only_the_alias(connect: Any) -> None:
    """Another role is refused, and so is the caller at a version."""
    with connect("other") as client, pytest.raises(ForbiddenError):
        client.embed(TEXTS)
    with connect(function=f"{NAME}:1") as client, pytest.raises(ForbiddenError):
        client.embed(TEXTS)


def test_a_failure_of_the_function_is_a_service_error(
    connect: Any, served: tuple[Served, str]
) -> None:
    """Lambda's header for it, and the reason of the runtime."""
    made, _ = served
    error = {"errorType": "Sandbox.Timedout", "errorMessage": "Task timed out after 30.00 seconds"}
    made.failure = json.dumps(error).encode()
    before = len(made.invocations)
    with connect() as client, pytest.raises(ServiceError, match="Task timed out") as caught:
        client.embed(TEXTS)
    made.failure = None
    assert caught.value.code == "Sandbox.Timedout"
    assert len(made.invocations) - before == 2
