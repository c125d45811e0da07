"""Downloads the artifact from S3 when the function starts, because it does not fit the package.

The object has the artifact's files one after the other, sorted by name, without the manifest; of a
set of artifacts, those of each in turn. The manifests come with the function's package, so the
function need not trust the download: a folder is renamed to its final name only when the
SHA-256 of each file is the manifest's. Lambda repeats an initialization that failed, also in an
environment that still has files of the first.
https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html

It uses the botocore of Lambda's runtime: a snapshot or provisioned concurrency waits for this
start, and no request does. Imported only if EMBEDDING_ARTIFACT_LOCATION names an object.
"""

import errno
import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import closing

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from embedder.core.artifact import MANIFEST_FILE, SET_FILE, FileEntry, load_manifests
from embedder.core.errors import ArtifactDownloadError, SettingsError

#: Seconds for all attempts. With SnapStart and provisioned concurrency, an initialization may take
#: 130 seconds at least; the rest is for loading the model.
_SECONDS = 100.0
#: Attempts for each file. Their delays add up to 15 seconds, in which IAM learns of a new role.
_ATTEMPTS = 6
_DELAY_SECONDS = 0.5
_CHUNK = 1 << 20
_FOLDER = "embedding-artifact"
#: What a status means here, and no retry helps. A missing object is a 403 to those who may not list
#: the bucket, so that one is retried.
_FINAL = {
    301: "the bucket is in another region; deploy both in one region",
    400: "S3 rejects the request; the bucket may be in another region",
    404: "the object is missing; deploy again to upload it",
    416: "the object is smaller than the manifest says",
}
#: Codes of the status 400 that a retry may help.
_LATER = frozenset({"ExpiredToken", "RequestTimeout"})
_RETRIED = {403: "the role may not read the object or use its key, or the object is missing"}


class _FinalError(Exception):
    """No further attempt can help; the text is the end of a sentence."""


class _FailedError(Exception):
    """An attempt failed; the text is the end of a sentence."""


def download(
    location: str,
    *,
    package: str | os.PathLike[str],
    temporary: str | os.PathLike[str],
    region: str,
    endpoint: str | None = None,
) -> str:
    """Download the artifact from `s3://BUCKET/KEY` into a folder of `temporary` and return that.

    `package` is the folder of the function's package with the manifest; `endpoint` is the URL of
    S3, by default that of the bucket's region.

    Raises:
        StartError: if the location is not one, the package has no valid manifest, or the artifact
            does not arrive complete and unchanged.
    """
    scheme, _, address = location.partition("://")
    bucket, _, key = address.partition("/")
    if scheme != "s3" or not bucket or not key:
        raise SettingsError(
            f"EMBEDDING_ARTIFACT_LOCATION must be s3://BUCKET/KEY; found {location!r}."
        )
    packed, files = _read_package(package)
    folder = os.path.join(temporary, _FOLDER)
    if _is_finished(folder, packed, files):
        return folder
    unfinished = f"{folder}.unfinished"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        os.mkdir(unfinished, 0o700)
        for name, content in packed.items():
            path = os.path.join(unfinished, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
        _Object(bucket, key, region=region, endpoint=endpoint).fetch(files, unfinished)
        os.rename(unfinished, folder)
    except (_FinalError, _FailedError, BotoCoreError) as error:
        raise ArtifactDownloadError(
            f"The artifact cannot be downloaded from {location}: {str(error).rstrip('.')}."
        ) from error
    except OSError as error:
        reason = f"{temporary} cannot be written ({error})"
        if error.errno == errno.ENOSPC:
            needed = sum(entry.bytes for entry in files.values()) / 1e6
            reason = (
                f"{temporary} is full; found: an artifact of {needed:.0f} MB; allowed: up to "
                "512 MB with SnapStart"
            )
        raise ArtifactDownloadError(
            f"The artifact cannot be downloaded from {location}: {reason}."
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _read_package(package: str | os.PathLike[str]) -> tuple[dict[str, bytes], dict[str, FileEntry]]:
    """Return the packaged files and those to download, both by path in the folder."""
    manifests = load_manifests(package)
    packed: dict[str, bytes] = {}
    files: dict[str, FileEntry] = {}
    for artifact_folder, manifest in manifests.items():
        below = os.path.relpath(artifact_folder, package)
        packed[os.path.normpath(os.path.join(below, MANIFEST_FILE))] = b""
        for name, entry in sorted(manifest.files.items()):
            files[os.path.normpath(os.path.join(below, name))] = entry
    if package not in manifests:
        packed[SET_FILE] = b""
    for name in packed:
        with open(os.path.join(package, name), "rb") as file:
            packed[name] = file.read()
    return packed, files


class _Object:
    """The object in S3, which is read one file after the other.

    One connection reads up to 85 MB/s, and Lambda gives a function 625 Mbit/s, which is less.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance-guidelines.html
    """

    def __init__(self, bucket: str, key: str, *, region: str, endpoint: str | None) -> None:
        config = Config(
            connect_timeout=5,
            read_timeout=5,
            retries={"mode": "standard", "total_max_attempts": 1},
            # The manifest's SHA-256 checks more than S3's checksums.
            response_checksum_validation="when_required",
            s3={"addressing_style": "path" if endpoint else "virtual"},
        )
        self._client = botocore.session.get_session().create_client(
            "s3", region_name=region, endpoint_url=endpoint, config=config
        )
        self._location = {"Bucket": bucket, "Key": key}
        self._deadline = time.monotonic() + _SECONDS

    def fetch(self, files: Mapping[str, FileEntry], folder: str) -> None:
        """Write each file, checked; repeat what failed."""
        start = 0
        for name, entry in files.items():
            for attempt in range(_ATTEMPTS):
                try:
                    self._fetch_file(os.path.join(folder, name), entry, start)
                    break
                except _FailedError:
                    delay = _DELAY_SECONDS * 2**attempt
                    if attempt == _ATTEMPTS - 1 or time.monotonic() + delay > self._deadline:
                        raise
                    time.sleep(delay)
            start += entry.bytes

    def _fetch_file(self, path: str, entry: FileEntry, start: int) -> None:
        digest = hashlib.sha256()
        with open(path, "wb") as file:
            for piece in self._read(start, entry.bytes):
                digest.update(piece)
                file.write(piece)
        if digest.hexdigest() != entry.sha256:
            raise _FailedError(f"the SHA-256 of {os.path.basename(path)} is not the manifest's")

    def _read(self, start: int, size: int) -> Iterator[bytes]:
        if not size:
            return
        try:
            byte_range = f"bytes={start}-{start + size - 1}"
            # Used as a context, a body is the raw stream, which does not check the length.
            with closing(
                self._client.get_object(**self._location, Range=byte_range)["Body"]
            ) as body:
                while piece := body.read(_CHUNK):
                    yield piece
                    if time.monotonic() > self._deadline:
                        raise _FinalError(f"it did not arrive within {_SECONDS:.0f} s")
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            code = error.response["Error"].get("Code", "")
            answer = f"S3 responded with {status} {code}".rstrip()
            if status in _FINAL and code not in _LATER:
                raise _FinalError(f"{answer}: {_FINAL[status]}") from error
            reason = _RETRIED.get(status)
            raise _FailedError(f"{answer}: {reason}" if reason else answer) from error
        except (BotoCoreError, HTTPClientError) as error:
            raise _FailedError(f"the connection failed ({type(error).__name__})") from error


def _is_finished(folder: str, packed: dict[str, bytes], files: dict[str, FileEntry]) -> bool:
    try:
        for name, content in packed.items():
            with open(os.path.join(folder, name), "rb") as file:
                if file.read() != content:
                    return False
        for name, entry in files.items():
            with open(os.path.join(folder, name), "rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256:
                    return False
    except OSError:
        return False
    return True
