"""Clients of AWS's APIs, with errors that are the package's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import botocore.exceptions
import botocore.session
from botocore.config import Config

from embedding_client.errors import AwsError, ConfigurationError, CredentialsError


def aws_client(
    service: str, region: str | None, *, profile: str | None = None, connections: int = 1
) -> Any:
    """Return botocore's client of a service."""
    config = Config(retries={"mode": "standard"}, max_pool_connections=connections)
    try:
        session = botocore.session.Session(profile=profile)
        return session.create_client(service, region_name=region, config=config)
    except botocore.exceptions.BotoCoreError as error:
        raise ConfigurationError(f"{error}.") from error


@contextmanager
def aws_errors() -> Iterator[None]:
    """Raise AWS's errors as the package's own."""
    try:
        yield
    except botocore.exceptions.ClientError as error:
        reason = error.response["Error"]
        raise AwsError(f"AWS refused: {reason.get('Message') or reason['Code']}") from error
    except botocore.exceptions.NoCredentialsError as error:
        raise CredentialsError(f"AWS cannot be reached: {error}.") from error
    except botocore.exceptions.BotoCoreError as error:
        raise AwsError(f"AWS cannot be reached: {error}.") from error
