"""Files in a folder or in S3, by one interface: the library `obstore`.

A file is created only if it does not exist (`If-None-Match` in S3), and read only if it is the one
that was planned (`If-Match`). This makes it safe to run a shard twice.
"""

import io
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
)
from obstore.store import LocalStore, S3Store

from jobs.errors import BatchError, ChangedInputError

if TYPE_CHECKING:  # types that exist only in the library's stubs
    from _typeshed import WriteableBuffer as Buffer
    from obstore import GetOptions, ObjectMeta, PutMode

#: How often the creation of a file is tried while other requests change it, and the first pause.
_CREATIONS = 5
_CONFLICT_SECONDS = 0.1


class StoredFile(NamedTuple):
    """A file of a folder."""

    #: The path below the folder.
    key: str
    size: int
    #: Changes with the content.
    etag: str


class StoredObject(NamedTuple):
    """An object of S3 with its content."""

    data: bytes
    etag: str
    #: Content type, user metadata and the like, by their names.
    attributes: Mapping[str, str]


class Folder:
    """A folder of files; each path is relative to it.

    What the disk or S3 refuses is a `BatchError`.
    """

    def __init__(self, store: LocalStore | S3Store, name: str) -> None:
        self._store = store
        #: The URL or path, for messages.
        self.name = name

    def files(self, prefix: str = "") -> Iterator[StoredFile]:
        """Yield all files below a prefix, in the order of their paths."""
        with _explained(f"{self.name} cannot be listed"):
            listed = [
                StoredFile(item["path"], item["size"], item["e_tag"] or "")
                for items in obstore.list(self._store, prefix=prefix or None)
                for item in items
            ]
        yield from sorted(listed)

    def folders(self) -> list[str]:
        """Return the names of the folders directly in this one, in order."""
        with _explained(f"{self.name} cannot be listed"):
            return sorted(obstore.list_with_delimiter(self._store)["common_prefixes"])

    def open(self, file: StoredFile) -> "RemoteFile":
        """Open a file for random access. Each read checks its ETag."""
        return RemoteFile(self, file)

    def read(self, key: str, *, start: int = 0, stop: int | None = None, etag: str = "") -> bytes:
        """Read a file, or the bytes from `start` to `stop`.

        With an `etag`, a file that has another one is a `ChangedInputError`.
        """
        options: GetOptions = {}
        if etag:
            options["if_match"] = etag
        if stop is not None:
            options["range"] = (start, stop)
        elif start:
            options["range"] = {"offset": start}
        with _explained(f"{self.name}/{key} cannot be read"):
            try:
                return bytes(obstore.get(self._store, key, options=options).bytes())
            except PreconditionError as error:
                raise ChangedInputError(
                    f"{self.name}/{key} changed after the job was planned. Start the job again: it "
                    "becomes a new job with the changed input."
                ) from error

    def find(self, key: str) -> StoredFile | None:
        """Return a file, or None if it does not exist."""
        # S3 answers 403, not 404, to a role that may list only a prefix of the bucket.
        item = self._head(key, FileNotFoundError, PermissionDeniedError)
        return item and StoredFile(item["path"], item["size"], item["e_tag"] or "")

    def version(self, key: str) -> tuple[str, int] | None:
        """Return what changes with each write of an object, and its size; None without the object.

        A missing permission is not a missing object.
        """
        item = self._head(key, FileNotFoundError)
        return item and (
            f"{item['e_tag']} {item['last_modified']:%Y-%m-%dT%H:%M:%SZ}",
            item["size"],
        )

    def _head(self, key: str, *absent: type[Exception]) -> "ObjectMeta | None":
        with _explained(f"{self.name}/{key} cannot be read"):
            try:
                return obstore.head(self._store, key)
            except absent:
                return None

    def read_object(self, key: str) -> StoredObject | None:
        """Read an object with its attributes; None if it does not exist.

        A missing permission is not a missing object.
        """
        with _explained(f"{self.name}/{key} cannot be read"):
            try:
                response = obstore.get(self._store, key)
            except FileNotFoundError:
                return None
            attributes = {str(name): value for name, value in response.attributes.items()}
            return StoredObject(bytes(response.bytes()), response.meta["e_tag"] or "", attributes)

    def replace(self, key: str, data: bytes, etag: str) -> str | None:
        """Write an object with this ETag, or a new one with ""; return the new ETag.

        None if another request has written it meanwhile.
        """
        with _explained(f"{self.name}/{key} cannot be written"):
            try:
                mode: PutMode = {"e_tag": etag} if etag else "create"
                written = obstore.put(self._store, key, data, mode=mode, use_multipart=False)
            except (AlreadyExistsError, PreconditionError, FileNotFoundError):
                return None
        return written["e_tag"]

    def create(self, key: str, data: bytes) -> bool:
        """Write a file, whole or not at all, unless it exists; return whether it was written."""
        for attempt in range(_CREATIONS):
            with _explained(f"{self.name}/{key} cannot be written"):
                try:
                    obstore.put(self._store, key, data, mode="create", use_multipart=False)
                except AlreadyExistsError:
                    if self.find(key) is not None:
                        return False
                else:
                    return True
            # S3 answers 409 while another request creates or deletes the file. The library reports
            # that as it reports 412, so the file is looked up.
            time.sleep(_CONFLICT_SECONDS * 2**attempt)
        raise BatchError(f"{self.name}/{key} cannot be written: other requests change it.")

    def write(self, key: str, data: bytes) -> None:
        """Write a file, whole or not at all; an existing one is replaced."""
        with _explained(f"{self.name}/{key} cannot be written"):
            obstore.put(self._store, key, data, use_multipart=False)


class RemoteFile(io.RawIOBase):
    """A file that is read by ranges, as Python's own files are."""

    def __init__(self, folder: Folder, file: StoredFile) -> None:
        super().__init__()
        self._folder = folder
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the offset of the next read."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        self._at = base + offset
        return self._at

    def readinto(self, buffer: "Buffer") -> int:
        """Fill the buffer from the next bytes, and return how many there were."""
        view = memoryview(buffer).cast("B")
        stop = min(self._at + len(view), self._file.size)
        if stop <= self._at:
            return 0
        file = self._file
        data = self._folder.read(file.key, start=self._at, stop=stop, etag=file.etag)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


def open_folder(url: str, *, create: bool = False) -> Folder:
    """Open a folder: a path, or `s3://bucket/prefix/`.

    S3's region, endpoint and credentials come from AWS's environment variables (in Lambda, those of
    the function's role), from the role of a container, or from that of an instance. Profiles are
    not read.
    """
    if url.startswith("s3://"):
        # Only an endpoint on this machine, which the environment names, has no TLS.
        plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
        store = S3Store.from_url(url, client_options={"allow_http": plain})
        return Folder(store, url.rstrip("/"))
    if "://" in url:
        raise BatchError(f"A folder is a path or s3://BUCKET/PREFIX; found {url}.")
    path = Path(url)
    if not create and not path.is_dir():
        raise BatchError(f"{url} is not a folder.")
    return Folder(LocalStore(path.resolve(), mkdir=create), str(path))


@contextmanager
def _explained(problem: str) -> Iterator[None]:
    """Raise the library's errors with the first sentence of their messages, as BatchError."""
    try:
        yield
    except (BaseError, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise BatchError(f"{problem}: {reason}.") from error
