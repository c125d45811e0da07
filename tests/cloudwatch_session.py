"""A session whose CloudWatch has prepared answers."""

from typing import Any

from botocore.session import get_session
from botocore.stub import Stubber

#: One for all tests: it keeps the model of the service, which takes most of a client's time.
_SESSION = get_session()


class CloudWatchSession:
    """A session that creates a client of CloudWatch in eu-central-1.

    Attributes:
        client: The client.
        stub: The answers of the client, to be added.
    """

    def __init__(self) -> None:
        self.client = _SESSION.create_client(
            "cloudwatch",
            region_name="us-east-1",
            aws_access_key_id="none",
            aws_secret_access_key="none",
        )
        self.stub = Stubber(self.client)
        self.stub.activate()

    def create_client(self, name: str, *, region_name: str) -> Any:
        """Return the only client that the command may use."""
        assert (name, region_name) == ("cloudwatch", "eu-central-1")
        return self.client
