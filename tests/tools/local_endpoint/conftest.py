"""The echo function in AWS's emulator behind a local Function URL, once for this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tools.local_endpoint.endpoint import LocalFunctionUrl
from tools.local_endpoint.runtime import Function, start
from tools.local_endpoint.signature import Verifier

CREDENTIALS = Credentials("AKIDEXAMPLE", "a secret")


@pytest.fixture(scope="session")
def echo() -> Function:
    return Function(handler="echo.handler", source_root=Path(__file__).parent, timeout=60)


@pytest.fixture(scope="session")
def endpoint(echo: Function) -> Iterator[LocalFunctionUrl]:
    verifier = Verifier(credentials=CREDENTIALS, region="us-east-1")
    with LocalFunctionUrl(runtime=start(echo), verifier=verifier) as running:
        yield running


@pytest.fixture
def signed():
    """Sign a request with botocore. Return its method, URL, headers and body."""

    def sign(
        url,
        *,
        body=b"",
        method="POST",
        headers=None,
        credentials=CREDENTIALS,
        region="us-east-1",
        service="lambda",
    ):
        request = AWSRequest(method, url, headers=headers or {}, data=body)
        SigV4Auth(credentials, service, region).add_auth(request)
        prepared = request.prepare()
        return {
            "method": method,
            "url": url,
            "headers": dict(prepared.headers.items()),
            "content": body,
        }

    return sign
