"""The function that serves an environment now. It is only read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["LiveFunction", "read_live"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFunction:
    """What a copy of the serving version needs."""

    #: The image by its digest.
    image: str
    #: The ARN of the execution role.
    role: str
    variables: Mapping[str, str]
    architectures: tuple[str, ...]
    #: Seconds.
    timeout: int
    ephemeral_storage_mb: int


def read_live(client: Any, function: str, alias: str) -> LiveFunction:
    """Read the version that an alias serves.

    Args:
        client: The Lambda client.
        function: The function's name.
        alias: The alias.

    Raises:
        ClientError: Lambda refuses.
    """
    found = client.get_function(FunctionName=function, Qualifier=alias)
    configuration = found["Configuration"]
    return LiveFunction(
        image=found["Code"]["ResolvedImageUri"],
        role=configuration["Role"],
        variables=configuration["Environment"]["Variables"],
        architectures=tuple(configuration["Architectures"]),
        timeout=configuration["Timeout"],
        ephemeral_storage_mb=configuration["EphemeralStorage"]["Size"],
    )
