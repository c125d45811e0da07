"""Test the throw-away function where AWS refuses; tests/rehearsal/test_tune.py has the rest."""

from dataclasses import replace

import pytest
from botocore.exceptions import ClientError
from botocore.session import get_session
from botocore.stub import Stubber

from tuning.errors import SizeRefusedError
from tuning.live import LiveFunction
from tuning.sizes import SIZES
from tuning.throwaway import ThrowAway, throw_away

NAME = "EmbeddingKit-dev-Tune"
SESSION = get_session()
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/embedding-kit-dev@sha256:1234"
LIVE = LiveFunction(
    digest=IMAGE,
    package={"PackageType": "Image", "Code": {"ImageUri": IMAGE}},
    role="arn:aws:iam::123456789012:role/embedder",
    variables={"EMBEDDING_ENVIRONMENT": "dev", "EMBEDDING_THREADS": "1"},
    architectures=("arm64",),
    timeout=30,
    ephemeral_storage_mb=512,
)
VARIABLES = {
    "EMBEDDING_ENVIRONMENT": "dev",
    "EMBEDDING_THREADS": "2",
    "EMBEDDING_CACHE_ENTRIES": "0",
    "EMBEDDING_METRICS_NAMESPACE": "EmbeddingKit-tune",
    "TUNE_START": "0",
}
TAGS = {"team": "search", "embedding-kit:tune": "dev"}
CREATED = {
    "FunctionName": NAME,
    "Description": "Throw-away function of scripts/tune",
    "PackageType": "Image",
    "Code": {"ImageUri": IMAGE},
    "Role": LIVE.role,
    "Architectures": ["arm64"],
    "Timeout": 30,
    "MemorySize": 3538,
    "EphemeralStorage": {"Size": 512},
    "Environment": {"Variables": VARIABLES},
    "LoggingConfig": {
        "LogFormat": "JSON",
        "ApplicationLogLevel": "INFO",
        "SystemLogLevel": "INFO",
    },
    "Tags": TAGS,
}


@pytest.fixture
def aws():
    """Return a client with prepared answers; the test must use each of them."""
    client = SESSION.create_client(
        "lambda",
        region_name="us-east-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",
    )
    with Stubber(client) as stub:
        yield client, stub
        stub.assert_no_pending_responses()


@pytest.fixture
def lines():
    return []


@pytest.fixture
def created(aws, lines):
    """Return a block with the function, which did not exist before."""
    client, stub = aws
    _missing(stub)
    return throw_away(
        client,
        LIVE,
        environment="dev",
        size=SIZES[2],
        tags={"team": "search"},
        say=lines.append,
        poll=0,
    )


def _missing(stub) -> None:
    stub.add_client_error("get_function", "ResourceNotFoundException", "none")


def _active(stub) -> None:
    stub.add_response("create_function", {"FunctionName": NAME}, CREATED)
    stub.add_response("get_function", {"Configuration": {"State": "Active"}})


def test_it_is_a_copy_of_the_serving_version(aws, created, lines):
    """Image, role and variables are the same, other than threads, cache and metrics."""
    _active(aws[1])
    aws[1].add_response("delete_function", {}, {"FunctionName": NAME})
    with created:
        pass
    assert lines == []


def test_the_copy_of_a_zip_has_its_runtime(aws):
    """Lambda takes the content with the request."""
    client, stub = aws
    package = {
        "PackageType": "Zip",
        "Code": {"ZipFile": b"content"},
        "Runtime": "python3.13",
        "Handler": "embedder.handler.handler",
    }
    stub.add_response("create_function", {"FunctionName": NAME}, CREATED | package)
    function = ThrowAway(client, NAME, replace(LIVE, package=package), poll=0)
    function.create(SIZES[2], TAGS)


def test_what_was_not_created_is_not_deleted(aws, created):
    """The error of AWS is passed on."""
    aws[1].add_client_error("create_function", "AccessDeniedException", "not authorized")
    with pytest.raises(ClientError, match="not authorized"), created:
        pass


def test_an_interrupted_creation_is_deleted(aws, created, monkeypatch):
    """AWS may have created the function before the answer came."""
    client, stub = aws

    def interrupted(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(client, "create_function", interrupted)
    stub.add_response("delete_function", {}, {"FunctionName": NAME})
    with pytest.raises(KeyboardInterrupt), created:
        pass


def test_a_function_that_cannot_be_deleted_is_named(aws, created, lines):
    """The measurement is not lost; the line has the command that deletes the function."""
    _active(aws[1])
    aws[1].add_client_error("delete_function", "AccessDeniedException", "not authorized")
    with created:
        pass
    (line,) = lines
    assert line.startswith(f"warning: {NAME} could not be deleted")
    assert line.endswith(f"aws lambda delete-function --function-name {NAME}")


def test_a_function_that_is_gone_is_no_problem(aws, created, lines):
    """Someone else has deleted it."""
    _active(aws[1])
    aws[1].add_client_error("delete_function", "ResourceNotFoundException", "none")
    with created:
        pass
    assert lines == []


def test_a_size_that_the_account_does_not_allow_is_told_from_other_errors(aws):
    """A new account allows 3,008 MB."""
    client, stub = aws
    function = ThrowAway(client, NAME, LIVE, poll=0)
    stub.add_client_error(
        "update_function_configuration",
        "InvalidParameterValueException",
        "'MemorySize' value failed to satisfy constraint: Member must have value less than or "
        "equal to 3008",
    )
    with pytest.raises(SizeRefusedError, match="does not allow a function 3,538 MB"):
        function.start(SIZES[2], 1)
    stub.add_client_error("update_function_configuration", "TooManyRequestsException", "wait")
    with pytest.raises(ClientError, match="wait"):
        function.start(SIZES[2], 1)
