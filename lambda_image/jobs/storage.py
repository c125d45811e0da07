"""Files in a folder of this machine or in S3, by one interface.

A file is created only if it does not exist (`If-None-Match` in S3), and read only if it is the one
that was planned (`If-Match`). This makes it safe to run a shard twice.
"""

import errno
import hashlib
import io
import os
import re
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import botocore.session
import orjson
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    IncompleteReadError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from jobs.errors import BatchError, ChangedInputError

if TYPE_CHECKING:  # a type that exists only in the stubs
    from _typeshed import WriteableBuffer as Buffer

#: How often the creation of a file is tried while other requests change it, and the first pause.
_CREATIONS = 5
_CONFLICT_SECONDS = 0.1
#: Attempts of a request to S3. botocore does not repeat one whose answer breaks off.
_ATTEMPTS = 5
#: Requests at a time: a reconciliation compares as many documents.
_CONNECTIONS = 32
#: The names that `is_hidden` is about; `.` and `..`, which S3 allows, are as other names.
_HIDDEN = re.compile(r"(^|/)(_|~\$|\.(?!\.?(/|$)))")
#: What the name of a file on a disk begins with until it is whole.
_UNFINISHED = ".unfinished-"


class StoredFile(NamedTuple):
    """A file of a folder."""

    #: The path below the folder.
    key: str
    size: int
    #: Changes with the content.
    etag: str


class StoredObject(NamedTuple):
    """A file with its content."""

    data: bytes
    etag: str
    #: User metadata by their names, and the `Content-Type`; none on a disk.
    attributes: Mapping[str, str]


class Folder(ABC):
    """A folder of files; each path is relative to it.

    What the disk or S3 refuses is a `BatchError`.
    """

    def __init__(self, name: str) -> None:
        #: The URL or path, for messages.
        self.name = name

    @abstractmethod
    def files(self, prefix: str = "") -> Iterator[StoredFile]:
        """Yield all files below a prefix, in the order of their paths."""

    @abstractmethod
    def folders(self) -> list[str]:
        """Return the names of the folders directly in this one, in order."""

    @abstractmethod
    def read(self, key: str, *, start: int = 0, stop: int | None = None, etag: str = "") -> bytes:
        """Read a file, or the bytes from `start` to `stop`.

        With an `etag`, a file that has another one is a `ChangedInputError`.
        """

    @abstractmethod
    def read_object(self, key: str) -> StoredObject | None:
        """Read a file with its attributes; None if it does not exist.

        A missing permission is not a missing file.
        """

    @abstractmethod
    def find(self, key: str) -> StoredFile | None:
        """Return a file, or None if it does not exist."""

    @abstractmethod
    def write(self, key: str, data: bytes) -> None:
        """Write a file, whole or not at all; an existing one is replaced."""

    @abstractmethod
    def _add(self, key: str, data: bytes) -> bool:
        """Write a file that does not exist; return whether that was possible."""

    def create(self, key: str, data: bytes) -> bool:
        """Write a file, whole or not at all, unless it exists; return whether it was written."""
        for attempt in range(_CREATIONS):
            if self._add(key, data):
                return True
            # S3 refuses it also while another request creates or deletes the file.
            if self.find(key) is not None:
                return False
            time.sleep(_CONFLICT_SECONDS * 2**attempt)
        raise BatchError(f"{self.name}/{key} cannot be written: other requests change it.")

    def open(self, file: StoredFile) -> "RemoteFile":
        """Open a file for random access. Each read checks its ETag."""
        return RemoteFile(self, file)

    def _changed(self, key: str) -> ChangedInputError:
        return ChangedInputError(
            f"{self.name}/{key} changed after the job was planned. Start the job again: it becomes "
            "a new job with the changed input."
        )


class DiskFolder(Folder):
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path

    def files(self, prefix: str = "") -> Iterator[StoredFile]:
        """See `Folder`. Links are followed; one to a folder above it is an error."""
        files = []
        with _explained(f"{self.name} cannot be listed"):
            for folder, folders, names in os.walk(
                self._path / prefix, onerror=_raise_unless_gone, followlinks=True
            ):
                for path in (Path(folder, name) for name in folders):
                    if path.is_symlink() and path.resolve() in map(Path.resolve, path.parents):
                        raise OSError(errno.ELOOP, "A link leads to a folder above it", str(path))
                for path in (Path(folder, name) for name in names):
                    file = self._file(path)
                    if file and not path.name.startswith(_UNFINISHED):
                        files.append(file)
        yield from sorted(files)

    def folders(self) -> list[str]:
        """See `Folder`."""
        with _explained(f"{self.name} cannot be listed"):
            return sorted(path.name for path in self._path.iterdir() if path.is_dir())

    def read(self, key: str, *, start: int = 0, stop: int | None = None, etag: str = "") -> bytes:
        """See `Folder`."""
        with (
            _explained(f"{self.name}/{key} cannot be read"),
            (self._path / key).open("rb") as stream,
        ):
            if etag and _state(os.fstat(stream.fileno()))[1] != etag:
                raise self._changed(key)
            stream.seek(start)
            return stream.read(-1 if stop is None else stop - start)

    def read_object(self, key: str) -> StoredObject | None:
        """See `Folder`."""
        file = self.find(key)
        return file and StoredObject(self.read(key, etag=file.etag), file.etag, {})

    def find(self, key: str) -> StoredFile | None:
        """See `Folder`."""
        path = self._path / key
        with _explained(f"{path} cannot be read"):
            return self._file(path)

    def write(self, key: str, data: bytes) -> None:
        """See `Folder`."""
        with self._written(key, data) as written:
            written.replace(self._path / key)

    def _add(self, key: str, data: bytes) -> bool:
        with self._written(key, data) as written:
            try:
                (self._path / key).hardlink_to(written)
            except FileExistsError:
                return False
        return True

    def _file(self, path: Path) -> StoredFile | None:
        """Return a file; None for what is none, or a link to nothing."""
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        key = path.relative_to(self._path).as_posix()
        try:
            key.encode()
        except UnicodeEncodeError:
            # The name of a file may be any bytes; those that are no text cannot be a key.
            raise OSError(errno.EILSEQ, "A name is not UTF-8", str(path)) from None
        return StoredFile(key, *_state(status)) if stat.S_ISREG(status.st_mode) else None

    @contextmanager
    def _written(self, key: str, data: bytes) -> Iterator[Path]:
        """Write a file beside the one that it becomes."""
        folder = (self._path / key).parent
        with _explained(f"{self.name}/{key} cannot be written"):
            folder.mkdir(parents=True, exist_ok=True)
            written = folder / f"{_UNFINISHED}{uuid4().hex}"
            try:
                with written.open("xb") as stream:
                    stream.write(data)
                yield written
            finally:
                written.unlink(missing_ok=True)


class S3Folder(Folder):
    """A folder of S3. Its keys may be any that S3 allows, as `a//b` and `../a`.

    An empty object whose key ends with `/` is how S3's console shows a folder, and no file.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url.rstrip("/"))
        self._bucket, _, folder = self.name.removeprefix("s3://").partition("/")
        self._prefix = f"{folder}/" if folder else ""
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        with _explained(f"{self.name} cannot be opened"):
            self._client = _connect(region, endpoint, os.environ.get("AWS_ACCESS_KEY_ID"))

    def files(self, prefix: str = "") -> Iterator[StoredFile]:
        """See `Folder`."""
        for page in self._pages(Prefix=self._prefix + prefix):
            for item in page.get("Contents", ()):
                key = item["Key"].removeprefix(self._prefix)
                if key and not _is_marker(key, item["Size"]):
                    yield StoredFile(key, item["Size"], item["ETag"])

    def folders(self) -> list[str]:
        """See `Folder`."""
        pages = self._pages(Prefix=self._prefix, Delimiter="/")
        prefixes = [item["Prefix"] for page in pages for item in page.get("CommonPrefixes", ())]
        return [prefix.removeprefix(self._prefix).removesuffix("/") for prefix in prefixes]

    def read(self, key: str, *, start: int = 0, stop: int | None = None, etag: str = "") -> bytes:
        """See `Folder`."""
        options = {"IfMatch": etag} if etag else {}
        if start or stop is not None:
            options["Range"] = f"bytes={start}-{'' if stop is None else stop - 1}"
        with _explained(f"{self.name}/{key} cannot be read"):
            try:
                return self._get(key, **options)[0]
            except ClientError as error:
                if _status(error) == 412:
                    raise self._changed(key) from error
                raise

    def read_object(self, key: str) -> StoredObject | None:
        """See `Folder`."""
        with _explained(f"{self.name}/{key} cannot be read"):
            try:
                data, head = self._get(key)
            except ClientError as error:
                if _status(error) == 404:
                    return None
                raise
        if _is_marker(key, len(data)):
            return None
        return StoredObject(data, head["ETag"], _attributes(head))

    def find(self, key: str) -> StoredFile | None:
        """See `Folder`."""
        # S3 answers 403, not 404, to a role that may list only a prefix of the bucket.
        head = self._head(key, 404, 403)
        return StoredFile(key, head["ContentLength"], head["ETag"]) if head else None

    def version(self, key: str) -> tuple[str, int] | None:
        """Return what changes with each write of an object, and its size; None without the object.

        It has the attributes too: S3's times are seconds, in which several writes may happen. A
        missing permission is not a missing object.
        """
        head = self._head(key, 404)
        if head is None or _is_marker(key, head["ContentLength"]):
            return None
        attributes = orjson.dumps(_attributes(head), option=orjson.OPT_SORT_KEYS)
        digest = hashlib.sha256(attributes).hexdigest()[:32]
        time_written = f"{head['LastModified']:%Y-%m-%dT%H:%M:%SZ}"
        return f"{head['ETag']} {time_written} {digest}", head["ContentLength"]

    def tags(self, key: str) -> list[tuple[str, str]]:
        """Return the tags of an object: none if it does not exist."""
        with _explained(f"the tags of {self.name}/{key} cannot be read"):
            try:
                answer = self._client.get_object_tagging(**self._named(key))
            except ClientError as error:
                if _status(error) == 404:
                    return []
                raise
        return [(tag["Key"], tag["Value"]) for tag in answer["TagSet"]]

    def replace(self, key: str, data: bytes, etag: str) -> str | None:
        """Write an object with this ETag, or a new one with ""; return the new ETag.

        None if another request has written it meanwhile.
        """
        condition = {"IfMatch": etag} if etag else {"IfNoneMatch": "*"}
        conflicts = (404, 409, 412) if etag else (409, 412)
        if written := self._put(key, data, *conflicts, **condition):
            return written
        # A write whose answer is lost is tried again, and then in conflict with itself.
        stored = self.read_object(key)
        return stored.etag if stored and stored.data == data else None

    def write(self, key: str, data: bytes) -> None:
        """See `Folder`."""
        self._put(key, data)

    def _add(self, key: str, data: bytes) -> bool:
        return self._put(key, data, 409, 412, IfNoneMatch="*") is not None

    def _named(self, key: str) -> dict[str, str]:
        """Return an object's bucket and key, as botocore takes them."""
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    def _pages(self, **options: str) -> Iterator[dict[str, Any]]:
        with _explained(f"{self.name} cannot be listed"):
            pages = self._client.get_paginator("list_objects_v2")
            yield from pages.paginate(Bucket=self._bucket, **options)

    def _get(self, key: str, **options: str) -> tuple[bytes, dict[str, Any]]:
        for attempt in range(1, _ATTEMPTS + 1):
            answer = self._client.get_object(**self._named(key), **options)
            try:
                return answer["Body"].read(), answer
            except (IncompleteReadError, ReadTimeoutError, ResponseStreamingError):
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError

    def _head(self, key: str, *absent: int) -> dict[str, Any] | None:
        """Return the properties of an object; None with one of the statuses `absent`."""
        with _explained(f"{self.name}/{key} cannot be read"):
            try:
                head: dict[str, Any] = self._client.head_object(**self._named(key))
            except ClientError as error:
                if _status(error) in absent:
                    return None
                raise
        return head

    def _put(self, key: str, data: bytes, *conflicts: int, **conditions: str) -> str | None:
        """Write an object; return its ETag, None with one of the statuses `conflicts`.

        They are 412 for a condition that is not met, 409 during another write, and 404 for an
        object to replace that is gone.
        """
        with _explained(f"{self.name}/{key} cannot be written"):
            try:
                answer = self._client.put_object(**self._named(key), Body=data, **conditions)
            except ClientError as error:
                if _status(error) in conflicts:
                    return None
                raise
        return str(answer["ETag"])


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

    S3's credentials are those that botocore finds: variables, a profile, or the role of the
    function, of a container or of an instance.
    """
    if url.startswith("s3://"):
        return S3Folder(url)
    if "://" in url:
        raise BatchError(f"A folder is a path or s3://BUCKET/PREFIX; found {url}.")
    path = Path(url)
    if create:
        with _explained(f"{url} cannot be written"):
            path.mkdir(parents=True, exist_ok=True)
    if not path.is_dir():
        raise BatchError(f"{url} is not a folder.")
    return DiskFolder(path)


def is_hidden(key: str) -> bool:
    """Return whether a name in a path begins with `.` or `_`: no input, as in Spark and Arrow.

    Nor is one with `~$`: Microsoft Office locks an open document by such a file.
    """
    return bool(_HIDDEN.search(key))


@cache
def _connect(region: str | None, endpoint: str | None, _access_key: str | None) -> Any:
    """Return the client of S3 of this process with an access key; threads share it."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        max_pool_connections=_CONNECTIONS,
        connect_timeout=5,
        read_timeout=30,
    )
    return botocore.session.Session().create_client(
        "s3", region_name=region, endpoint_url=endpoint, config=config
    )


def _attributes(head: Mapping[str, Any]) -> dict[str, str]:
    """Return user metadata and content type of an answer of S3."""
    texts = {name: _text(value) for name, value in head["Metadata"].items()}
    return {**texts, "Content-Type": head.get("ContentType", "")}


def _text(value: str) -> str:
    """Return a value of user metadata: S3 encodes what is not ASCII, by RFC 2047.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingMetadata.html
    """
    if "=?" not in value:
        return value
    try:
        return str(make_header(decode_header(value)))
    except (HeaderParseError, LookupError, UnicodeError):  # no such text after all
        return value


def _is_marker(key: str, size: int) -> bool:
    return not size and key.endswith("/")


def _raise_unless_gone(error: OSError) -> None:
    """Raise why a folder cannot be listed; one that does not exist has no files."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _state(status: os.stat_result) -> tuple[int, str]:
    """Return the size of a file on a disk, and what changes with its content."""
    changed = status.st_mtime_ns // 1000
    return status.st_size, f"{status.st_ino:x}-{changed:x}-{status.st_size:x}"


def _status(error: ClientError) -> int:
    """Return the HTTP status of an error of S3."""
    return int(error.response["ResponseMetadata"]["HTTPStatusCode"])


@contextmanager
def _explained(problem: str) -> Iterator[None]:
    """Raise the errors of the disk and of botocore as BatchError, with what could not be done."""
    try:
        yield
    except (BotoCoreError, ClientError, OSError, ValueError) as error:
        raise BatchError(f"{problem}: {str(error).rstrip('.')}.") from error
