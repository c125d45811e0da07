"""One object in S3, read in parts with signed requests.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
"""

import http.client
import time
import zlib
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote

from embedder.artifact_download.faults import ObjectChangedError, TransferError, refusal
from embedder.artifact_download.layout import Part
from embedder.aws.connection import ConnectionPool
from embedder.aws.credentials import CredentialsProvider, NoCredentialsError
from embedder.aws.signing import Scope, sign
from embedder.errors import SettingsError

__all__ = ["ObjectLocation", "S3Object", "parse_location"]

#: The longest wait for a connection, and for the next bytes of a response.
_WAIT_SECONDS = 5.0
#: The longest time of a part. A connection gets some 20 MB/s, so a part of 16 MB takes a second; a
#: new connection is faster than one that takes this long.
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance-guidelines.html
_PART_SECONDS = 15.0
#: What is read, checked and written at once, in bytes. With TLS a read returns 16 kB of it, and
#: from 256 kB on the allocator maps memory for each read, which takes twice the time.
_CHUNK = 128 << 10
#: As much of an error's body as may have its code.
_ERROR_BYTES = 4096


class ObjectLocation(NamedTuple):
    """A bucket and a key."""

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


def parse_location(text: str) -> ObjectLocation:
    """Parse `s3://BUCKET/KEY`.

    Raises:
        SettingsError: If it is not one.
    """
    scheme, _, rest = text.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket or not key:
        raise SettingsError(f"EMBEDDING_ARTIFACT_LOCATION must be s3://BUCKET/KEY; found {text!r}.")
    return ObjectLocation(bucket, key)


class S3Object:
    """An object in S3. Threads may share it; each needs a connection of its own.

    Args:
        location: The object.
        region: The bucket's region.
        endpoint: The URL of S3, in which the bucket is a part of the path; by default the region's
            own, in which it is a part of the host.
        credentials: Whose requests they are; by default the function's role.
    """

    def __init__(
        self,
        location: ObjectLocation,
        *,
        region: str,
        endpoint: str | None = None,
        credentials: CredentialsProvider | None = None,
    ) -> None:
        self._region = region
        self._scope = Scope(region, "s3")
        key = quote(location.key, safe="/-_.~")
        if endpoint is None:
            suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
            endpoint = f"https://{location.bucket}.s3.{region}.{suffix}"
            self._target = f"/{key}"
        else:
            self._target = f"/{location.bucket}/{key}"
        self._pool = ConnectionPool(endpoint)
        self._credentials = credentials or CredentialsProvider()

    @property
    def url(self) -> str:
        """The object's URL."""
        return self._pool.url + self._target

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection, which opens with its first request."""
        return self._pool.open(_WAIT_SECONDS)

    def renew_credentials(self) -> None:
        """Drop temporary credentials, so that the next request asks for new ones."""
        self._credentials.forget()

    def read(
        self,
        connection: http.client.HTTPConnection,
        part: Part,
        write: Callable[[int, bytes], None],
        *,
        etag: str | None,
        total: int,
        deadline: float,
        begun: Callable[[str], None],
    ) -> None:
        """Read a part and check it. If it fails, the connection must be closed.

        Args:
            connection: One of `connect`.
            part: The part.
            write: Gets each piece of the part, with its place in the object. What it raises must
                be no `OSError`.
            etag: The ETag that the object must have; None for any.
            total: The bytes that the object must have.
            deadline: The `time.monotonic()` at which the read ends.
            begun: Gets the object's ETag before the first piece is written.

        Raises:
            TransferError: If the part did not arrive as it should.
        """
        deadline = min(deadline, time.monotonic() + _PART_SECONDS)
        try:
            response = self._request(connection, part, etag)
            self._check(response, part, etag=etag, total=total)
            begun(response.headers["etag"])
            self._stream(response, part, write, deadline)
        except TimeoutError as error:
            raise TransferError(f"S3 sent nothing for {_WAIT_SECONDS:g} s", retry=True) from error
        except (OSError, http.client.HTTPException) as error:
            raise TransferError(
                f"the connection failed ({type(error).__name__})", retry=True
            ) from error

    def _request(
        self, connection: http.client.HTTPConnection, part: Part, etag: str | None
    ) -> http.client.HTTPResponse:
        headers = {"host": self._pool.host, "range": part.range}
        if etag is not None:
            headers["if-match"] = etag
        try:
            credentials = self._credentials.get()
        except NoCredentialsError as error:
            raise TransferError(str(error).rstrip("."), retry=True) from error
        # Signed anew for each attempt: the time is part of the signature.
        signed = sign("GET", self._target, headers, b"", credentials=credentials, scope=self._scope)
        connection.request("GET", self._target, headers=signed)
        return connection.getresponse()

    def _check(
        self, response: http.client.HTTPResponse, part: Part, *, etag: str | None, total: int
    ) -> None:
        headers = {name.lower(): value for name, value in response.getheaders()}
        if response.status == 416:
            raise _other_size(f"less than {part.start + 1}", total)
        if response.status != 206:
            code = _error_code(response) if response.status >= 300 else ""
            raise refusal(response.status, code, headers, region=self._region)
        if etag is not None and headers.get("etag") != etag:
            raise ObjectChangedError
        sent, _, size = headers.get("content-range", "").removeprefix("bytes ").partition("/")
        if size != str(total):
            raise _other_size(size or "an unknown number of", total)
        if sent != part.range.removeprefix("bytes="):
            raise TransferError(
                f"S3 sent the bytes {sent} instead of {part.range.removeprefix('bytes=')}",
                retry=True,
            )
        if headers.get("content-length") != str(part.size):
            raise TransferError(
                f"S3 announced {headers.get('content-length')} of a part's {part.size} bytes",
                retry=True,
            )

    @staticmethod
    def _stream(
        response: http.client.HTTPResponse,
        part: Part,
        write: Callable[[int, bytes], None],
        deadline: float,
    ) -> None:
        done = checksum = 0
        while done < part.size:
            piece = response.read1(min(_CHUNK, part.size - done))
            if not piece:
                raise TransferError(f"{done} of a part's {part.size} bytes arrived", retry=True)
            checksum = zlib.crc32(piece, checksum)
            write(part.start + done, piece)
            done += len(piece)
            if time.monotonic() > deadline:
                raise TransferError(
                    f"{done} of a part's {part.size} bytes arrived in time", retry=True
                )
        if checksum != part.crc32:
            raise TransferError(
                f"the bytes from {part.start} on were altered: their CRC-32 is {checksum:08x}, "
                f"and the package says {part.crc32:08x}",
                retry=True,
            )
        # With the part's last byte the response is complete, and its connection free.
        response.read()


def _other_size(found: str, total: int) -> TransferError:
    return TransferError(
        f"the object has {found} bytes, and the manifest says {total}", retry=False
    )


def _error_code(response: http.client.HTTPResponse) -> str:
    """Return S3's code of an error; never its message, which may quote the request."""
    body = response.read(_ERROR_BYTES).decode("utf-8", errors="replace")
    code = body.partition("<Code>")[2].partition("</Code>")[0]
    return code if code.isalnum() else ""
