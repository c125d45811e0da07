"""Folders in S3, KMS keys, certificates and domain names, as settings name them.

Sources: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html,
https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html (safe characters)
"""

import re
from typing import Annotated, NamedTuple

from pydantic import AfterValidator

from embedding_kit.settings.base import allowed, rule_error


def arn_form(what: str, service: str, example: str, form: str) -> allowed:
    """Describe the ARN of a service's resource by an example, and the form, of its last part."""
    return allowed(
        f"{what} such as arn:aws:{service}:eu-central-1:111122223333:{example}",
        pattern=rf"^arn:aws[a-z-]*:{service}:[a-z0-9-]+:[0-9]{{12}}:{form}$",
    )


Certificate = Annotated[
    str, arn_form("an ARN", "acm", "certificate/1234abcd", "certificate/[A-Za-z0-9-]+")
]
DomainName = Annotated[
    str,
    allowed(
        "a name such as embeddings.example.com",
        pattern=r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}$",
    ),
]


_ALLOWED = (
    "s3://BUCKET or s3://BUCKET/PREFIX; a bucket's name has 3 to 63 lower-case letters, digits, "
    "hyphens and dots, and a prefix letters, digits and ! - _ . ' ( ) /"
)
_URL = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])((?:/[A-Za-z0-9!_.'()-]+)*)/?")
#: Names that S3 refuses although they fit the pattern: IP addresses and reserved words.
_REFUSED_NAME = re.compile(
    r".*\.\..*|\d+\.\d+\.\d+\.\d+|(xn--|sthree-|amzn-s3-demo-).*|.*(-s3alias|--ol-s3|\.mrap|--x-s3)"
)


class Location(NamedTuple):
    """A folder in S3. The prefix is empty, or ends with a slash."""

    bucket: str
    prefix: str


def location_of(url: str) -> Location:
    """Return the bucket and the prefix of a folder's URL.

    Raises:
        PydanticCustomError: A `ValueError` if S3 or a policy takes no such folder.
    """
    match = _URL.fullmatch(url)
    if match is None or _REFUSED_NAME.fullmatch(match[1]):
        raise rule_error("a folder in S3 is expected", found=url, allowed=_ALLOWED)
    return Location(match[1], f"{match[2][1:]}/" if match[2] else "")


def _checked(url: str) -> str:
    location_of(url)
    return url


#: The URL of a folder in S3.
FolderUrl = Annotated[str, AfterValidator(_checked), allowed(_ALLOWED)]
#: The ARN of a KMS key.
KeyArn = Annotated[str, arn_form("a key's ARN", "kms", "key/1234abcd-12ab", "key/[A-Za-z0-9-]+")]
