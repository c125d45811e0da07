"""The function that serves an environment now. It is only read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from tuning.errors import TuneError

__all__ = ["LiveFunction", "read_live"]

#: The largest zip, in MB of 1,024², that Lambda takes with the request that creates a function:
#: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
_ZIP_MB = 50
_DOWNLOAD_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFunction:
    """What a copy of the serving version needs."""

    #: The image by its digest, or the SHA-256 of the zip.
    digest: str
    #: The code, as `CreateFunction` takes it: `PackageType` and `Code`, and of a zip its runtime.
    package: Mapping[str, Any]
    #: The ARN of the execution role.
    role: str
    variables: Mapping[str, str]
    architectures: tuple[str, ...]
    #: Seconds.
    timeout: int
    ephemeral_storage_mb: int


def read_live(client: Any, function: str, alias: str) -> LiveFunction:
    """Read the version that an alias serves; of a zip, its content too.

    Args:
        client: The Lambda client.
        function: The function's name.
        alias: The alias.

    Raises:
        TuneError: The zip cannot be read, or is too large to be sent.
        ClientError: Lambda refuses.
    """
    found = client.get_function(FunctionName=function, Qualifier=alias)
    configuration = found["Configuration"]
    if configuration["PackageType"] == "Image":
        digest = found["Code"]["ResolvedImageUri"]
        package = {"PackageType": "Image", "Code": {"ImageUri": digest}}
    else:
        digest = f"zip {configuration['CodeSha256']}"
        package = {
            "PackageType": "Zip",
            "Code": {"ZipFile": _zip(found["Code"]["Location"], configuration["CodeSize"])},
            "Runtime": configuration["Runtime"],
            "Handler": configuration["Handler"],
        }
    return LiveFunction(
        digest=digest,
        package=package,
        role=configuration["Role"],
        variables=configuration["Environment"]["Variables"],
        architectures=tuple(configuration["Architectures"]),
        timeout=configuration["Timeout"],
        ephemeral_storage_mb=configuration["EphemeralStorage"]["Size"],
    )


def _zip(location: str, size: int) -> bytes:
    """Download the code from the address that Lambda has signed."""
    megabytes = size / (1 << 20)
    if megabytes > _ZIP_MB:
        raise TuneError(
            f"found: a zip of {megabytes:.0f} MB; allowed: up to {_ZIP_MB} MB, which Lambda takes "
            "in one request"
        )
    try:
        response = httpx.get(location, timeout=_DOWNLOAD_SECONDS)
        response.raise_for_status()
    except httpx.HTTPStatusError as error:
        raise TuneError(
            f"the function's zip cannot be read: status {error.response.status_code}"
        ) from None
    except httpx.HTTPError as error:
        # The message has no address: its signature is a secret for ten minutes.
        raise TuneError(f"the function's zip cannot be read: {type(error).__name__}") from None
    return response.content
