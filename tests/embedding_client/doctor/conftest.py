"""The input of a check, without AWS."""

import functools
from datetime import UTC, datetime
from pathlib import Path

import botocore.session
import httpx2
import pytest
from botocore.stub import Stubber

from embedding_client.doctor import State
from embedding_client.doctor.probes import Aws, Web
from embedding_client.doctor.snapshot import DoctorOptions, Snapshot

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
ACCOUNT = "123456789012"
ALIAS = f"arn:aws:lambda:eu-central-1:{ACCOUNT}:function:embedder:live"
URL = "https://abcdefghijklmnopqrstuvwxyz012345.lambda-url.eu-central-1.on.aws"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/caller"
SPACE = "model@1/int8/abc/384"
OK, WARNING, FAILED, SKIPPED = State


_SESSION = botocore.session.Session()


@functools.cache
def _client(service):
    # Creating one takes long, so all tests share it.
    return _SESSION.create_client(
        service, region_name="eu-central-1", aws_access_key_id="none", aws_secret_access_key="none"
    )


class Stubs:
    """botocore's clients, with the answers of a test."""

    def __init__(self):
        self._stubs = {}

    def __call__(self, service):
        """Return the client of a service."""
        if service not in self._stubs:
            self._stubs[service] = Stubber(_client(service))
            self._stubs[service].activate()
        return _client(service)

    def close(self):
        """Let another test use the clients."""
        for stub in self._stubs.values():
            stub.deactivate()

    def answers(self, service, operation, answer, asked=None):
        """Answer the next call of a service."""
        self(service)
        self._stubs[service].add_response(operation, answer, asked)

    def refuses(self, service, operation, code="AccessDeniedException", message="no"):
        """Refuse the next call of a service."""
        self(service)
        self._stubs[service].add_client_error(operation, code, message)


@pytest.fixture
def aws():
    stubs = Stubs()
    yield stubs
    stubs.close()


@pytest.fixture
def snapshot(aws, tmp_path):
    """Return what makes snapshot: AWS answers with stubs, and the endpoint with a function."""

    def make(answer=lambda _: httpx2.Response(403), *, region="eu-central-1", **asked):
        http = httpx2.Client(transport=httpx2.MockTransport(answer))
        return Snapshot(
            options=DoctorOptions(**({"url": URL} | asked)),
            aws=Aws(aws),
            web=Web(http, httpx2.BasicAuth("a", "b")),
            region=region,
            memory=Path(tmp_path) / "state" / "spaces.json",
            clock=lambda: NOW,
        )

    return make


def stack(part="Endpoint", status="UPDATE_COMPLETE", environment="dev", **outputs):
    """Describe a stack."""
    return {
        "StackName": f"EmbeddingKit-{environment}-{part}",
        "CreationTime": NOW,
        "StackStatus": status,
        "Outputs": [{"OutputKey": key, "OutputValue": value} for key, value in outputs.items()],
    }


def identify(aws, arn=f"arn:aws:sts::{ACCOUNT}:assumed-role/caller/me", account=ACCOUNT):
    """Answer who the caller is."""
    aws.answers("sts", "get_caller_identity", {"UserId": "a", "Account": account, "Arn": arn})


def deployed(aws, *others, caller=None, **outputs):
    """Answer who the caller is, and with the stack that has the URL and others."""
    identify(aws, **(caller or {}))
    found = stack(**({"Url": f"{URL}/", "AliasArn": ALIAS} | outputs))
    aws.answers("cloudformation", "describe_stacks", {"Stacks": [found, *others]})


def raises(error):
    """Return an endpoint that does not answer."""

    def raise_it(*_):
        raise error

    return raise_it


def resources(kinds):
    """Describe the resources of a stack, by the names of each type."""
    items = [
        {
            "ResourceType": kind,
            "LogicalResourceId": name,
            "PhysicalResourceId": name,
            "LastUpdatedTimestamp": NOW,
            "ResourceStatus": "CREATE_COMPLETE",
        }
        for kind, names in kinds.items()
        for name in names
    ]
    return {"StackResourceSummaries": items}
