"""Reads all parts of an object over several connections, and repeats what failed."""

import http.client
import random
import threading
import time
from collections import deque
from collections.abc import Callable

from embedder.artifact_download.faults import TransferError
from embedder.artifact_download.layout import Layout, Part
from embedder.artifact_download.s3_object import S3Object

__all__ = ["Transfer"]

#: Lambda gives a function 625 Mbit/s, and a connection to S3 has 85 MB/s: two would do, and four
#: hide the time to the first byte of each part.
#: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
_CONNECTIONS = 4
_ATTEMPTS = 8
#: The first delay before a retry in seconds; it doubles with each attempt. Eight attempts take 15
#: to 20 seconds, in which IAM learns of a new role's permissions.
_BASE_SECONDS = 0.2
_CEILING_SECONDS = 8.0


class Transfer:
    """One download of an object.

    The first part's response names the object's ETag, and all other parts must have the same one.

    Args:
        source: The object.
        layout: Its parts.
        write: Gets each piece with its place in the object, from several threads; it raises a
            `DiskError` if it cannot write one.
        deadline: The `time.monotonic()` until which failed parts are retried.
    """

    def __init__(
        self,
        source: S3Object,
        layout: Layout,
        write: Callable[[int, bytes], None],
        *,
        deadline: float,
    ) -> None:
        self._source = source
        self._total = layout.size
        self._parts = deque(layout.parts)
        self._write = write
        self._deadline = deadline
        self._etag: str | None = None
        #: Set when the ETag is known, or the transfer failed.
        self._begun = threading.Event()
        #: Set when a part failed for good: the other threads need not go on.
        self._failed = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Read all parts.

        Raises:
            TransferError: If a part does not arrive.
            DiskError: If a piece cannot be written.
        """
        threads = [
            threading.Thread(target=self._work, name=f"artifact-{number}")
            for number in range(min(_CONNECTIONS, len(self._parts)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        connection = self._source.connect()
        try:
            while not self._failed.is_set():
                try:
                    part = self._parts.popleft()
                except IndexError:
                    return
                if part.start > 0:
                    self._begun.wait()
                self._read(connection, part)
        except BaseException as error:  # `run` raises it in the caller's thread
            self._failure = self._failure or error
            self._failed.set()
            self._begun.set()
        finally:
            connection.close()

    def _read(self, connection: http.client.HTTPConnection, part: Part) -> None:
        attempt = 0
        while not self._failed.is_set():
            attempt += 1
            try:
                self._source.read(
                    connection,
                    part,
                    self._write,
                    etag=self._etag,
                    total=self._total,
                    deadline=self._deadline,
                    begun=self._begin,
                )
            except TransferError as error:
                # What is left of the response must not be the next one's. It opens again by itself.
                connection.close()
                # Between half of the ceiling and all of it, so that the connections retry at
                # different moments.
                ceiling = min(_CEILING_SECONDS, _BASE_SECONDS * 2 ** (attempt - 1))
                delay = random.uniform(ceiling / 2, ceiling)  # noqa: S311 (not cryptography)
                late = time.monotonic() + delay >= self._deadline
                if not error.retry or attempt >= _ATTEMPTS or late:
                    raise
                if error.renew:
                    self._source.renew_credentials()
                self._failed.wait(delay)
            else:
                return

    def _begin(self, etag: str) -> None:
        self._etag = self._etag or etag
        self._begun.set()
