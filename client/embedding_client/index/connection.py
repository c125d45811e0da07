"""Requests to one index of S3 Vectors, with the caller's own AWS credentials."""

import re
from typing import Any, ClassVar

import botocore.exceptions
import botocore.session
from botocore.config import Config

from embedding_client.errors import ConfigurationError, CredentialsError, EmbeddingClientError

__all__ = ["SPACE_TAG", "IndexConnection", "VectorIndexError"]

#: The tag of the index that names the vector space of its vectors.
SPACE_TAG = "embedding-kit:vector-space"
_ARN = re.compile(
    r"arn:aws[a-z0-9-]*:s3vectors:(?P<region>[a-z0-9-]+):\d{12}:bucket/[a-z0-9.-]+/index/[a-z0-9.-]+"
)


class VectorIndexError(EmbeddingClientError):
    """AWS refuses a request to the index, or does not answer."""


class IndexConnection:
    """One index.

    Args:
        arn: The ARN of the index.
        profile: An AWS profile.
        connections: How many requests may be under way at a time.

    Raises:
        ConfigurationError: If the ARN is not one of an index, or there are no credentials.
    """

    #: What the errors of this index are.
    error: ClassVar[type[EmbeddingClientError]] = VectorIndexError

    def __init__(self, arn: str, *, profile: str | None = None, connections: int = 1) -> None:
        found = _ARN.fullmatch(arn)
        if found is None:
            raise ConfigurationError(
                "The index must be given by its ARN, such as "
                f"arn:aws:s3vectors:eu-central-1:123456789012:bucket/b/index/i; found {arn!r}."
            )
        self._arn = arn
        config = Config(retries={"mode": "standard"}, max_pool_connections=connections)
        try:
            session = botocore.session.Session(profile=profile)
            self._client = session.create_client(
                "s3vectors", region_name=found["region"], config=config
            )
        except botocore.exceptions.BotoCoreError as error:
            raise ConfigurationError(f"{error}.") from error

    def _call(self, operation: str, **arguments: Any) -> Any:
        try:
            return getattr(self._client, operation)(**arguments)
        except botocore.exceptions.ClientError as error:
            reason = error.response["Error"]
            message = f"AWS refused: {reason.get('Message') or reason['Code']}"
            raise self.error(message) from error
        except botocore.exceptions.NoCredentialsError as error:
            raise CredentialsError(f"AWS cannot be reached: {error}.") from error
        except botocore.exceptions.BotoCoreError as error:
            raise self.error(f"AWS cannot be reached: {error}.") from error
