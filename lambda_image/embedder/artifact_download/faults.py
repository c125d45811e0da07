"""Why a part did not arrive, and whether another request may help.

https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
"""

from collections.abc import Mapping

__all__ = ["DiskError", "ObjectChangedError", "TransferError", "refusal"]

#: Statuses that say that a later request may succeed; 503 is S3's `SlowDown`.
_LATER = frozenset({408, 429, 500, 502, 503, 504})
_REDIRECTS = frozenset({301, 302, 307, 308})
#: A code of status 400 that says the same.
_LATER_CODES = frozenset({"RequestTimeout"})
#: What a status or a code means here. IAM may take seconds to know a new role's permissions, so a
#: 403 is worth a retry. It is also the status of a missing object, to those who may not list it.
_MEANINGS: Mapping[int | str, str] = {
    200: "the whole object instead of a part",
    403: "the role may not read the object or use its key, or the object is missing",
    404: "the object is missing; deploy again to upload it",
    "ExpiredToken": "the credentials are expired",
}


class TransferError(Exception):
    """A part did not arrive, or not as it should.

    Args:
        reason: What happened, as the end of a sentence; it names no credentials.
        retry: Whether the same request may succeed later.
        renew: Whether the credentials may be at fault, so that a retry should ask for new ones.
    """

    def __init__(self, reason: str, *, retry: bool, renew: bool = False) -> None:
        super().__init__(reason)
        self.retry = retry
        self.renew = renew


class DiskError(Exception):
    """A piece of a part cannot be written; its cause is the `OSError`."""


class ObjectChangedError(TransferError):
    """The object is not the one that the first part was of."""

    def __init__(self) -> None:
        super().__init__("the object was replaced while it was read", retry=False)


def refusal(status: int, code: str, headers: Mapping[str, str], *, region: str) -> TransferError:
    """Return the error of a response that is not the part.

    Args:
        status: The HTTP status.
        code: S3's own code in the response's body, such as `AccessDenied`; empty if it has none.
        headers: The response's headers, with names in lower case.
        region: The region that was asked.
    """
    if status == 412:
        return ObjectChangedError()
    request = headers.get("x-amz-request-id")
    said = f"S3 responded with {status} {code}".rstrip() + (
        f" (request {request})" if request else ""
    )
    found = headers.get("x-amz-bucket-region", "another region")
    if status in _REDIRECTS or code == "AuthorizationHeaderMalformed":
        return TransferError(
            f"{said}: the bucket is in {found}, and the function reads in {region}; deploy both in "
            "one region",
            retry=False,
        )
    renew = status == 403 or code == "ExpiredToken"
    meaning = _MEANINGS.get(code) or _MEANINGS.get(status)
    return TransferError(
        f"{said}: {meaning}" if meaning else said,
        retry=renew or status in _LATER or code in _LATER_CODES,
        renew=renew,
    )
