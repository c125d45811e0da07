"""Test reading the serving version of either package."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from botocore.session import get_session
from botocore.stub import Stubber

from tuning.errors import TuneError
from tuning.live import read_live

SESSION = get_session()
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/embedding-kit-dev"
CONFIGURATION = {
    "Role": "arn:aws:iam::123456789012:role/embedder",
    "Environment": {"Variables": {"EMBEDDING_ENVIRONMENT": "dev"}},
    "Architectures": ["arm64"],
    "Timeout": 30,
    "EphemeralStorage": {"Size": 512},
    "CodeSha256": "c2hhMjU2",
    "CodeSize": 7,
}
ZIP = {"PackageType": "Zip", "Runtime": "python3.13", "Handler": "embedder.handler.handler"}


class Handler(BaseHTTPRequestHandler):
    """Serves one zip."""

    def do_GET(self):
        """Answer with the content, or 403 without the signature."""
        signed = self.path.endswith("?signature=1")
        self.send_response(200 if signed else 403)
        self.end_headers()
        self.wfile.write(b"content" if signed else b"")

    def log_message(self, *_):
        """Write no log."""


@pytest.fixture
def address():
    """Serve the zip as S3 does."""
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/zip"
        server.shutdown()
        thread.join()


@pytest.fixture
def read():
    """Return a function that reads a version with this configuration and code."""

    def read(configuration, code):
        client = SESSION.create_client(
            "lambda",
            region_name="us-east-1",
            aws_access_key_id="none",
            aws_secret_access_key="none",
        )
        with Stubber(client) as stub:
            stub.add_response(
                "get_function",
                {"Configuration": CONFIGURATION | configuration, "Code": code},
                {"FunctionName": "embedder", "Qualifier": "live"},
            )
            return read_live(client, "embedder", "live")

    return read


def test_an_image_is_named_by_its_digest(read):
    """A tag could be another image by now."""
    live = read(
        {"PackageType": "Image"},
        {"ImageUri": f"{IMAGE}:1", "ResolvedImageUri": f"{IMAGE}@sha256:1234"},
    )
    assert live.digest == f"{IMAGE}@sha256:1234"
    assert live.package == {"PackageType": "Image", "Code": {"ImageUri": live.digest}}
    assert (live.timeout, live.ephemeral_storage_mb, live.architectures) == (30, 512, ("arm64",))


def test_a_zip_is_copied_with_its_runtime(read, address):
    """Its content comes from the address that Lambda has signed."""
    live = read(ZIP, {"RepositoryType": "S3", "Location": f"{address}?signature=1"})
    assert live.digest == "zip c2hhMjU2"
    assert live.package == {**ZIP, "Code": {"ZipFile": b"content"}}


def test_a_zip_that_cannot_be_read_is_an_error_without_its_address(read, address):
    """The address has a signature."""
    with pytest.raises(TuneError, match=r"^the function's zip cannot be read: status 403$"):
        read(ZIP, {"RepositoryType": "S3", "Location": address})
    with pytest.raises(TuneError, match=r"^the function's zip cannot be read: ConnectError$"):
        read(ZIP, {"RepositoryType": "S3", "Location": "http://127.0.0.1:1/?signature=1"})


def test_a_zip_that_lambda_takes_only_from_a_bucket_is_refused(read):
    """With its size, before it is downloaded."""
    with pytest.raises(TuneError, match="found: a zip of 80 MB; allowed: up to 50 MB"):
        read({**ZIP, "CodeSize": 80 << 20}, {"RepositoryType": "S3", "Location": "none"})
