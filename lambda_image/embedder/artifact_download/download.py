"""Puts the artifact into a folder, complete and checked, or not at all.

The files are written to another folder, which is renamed when the SHA-256 of each file is that of
the manifest. Lambda repeats an initialization that failed, also in an environment that still has
the files of the first one: a finished folder is checked again, an unfinished one is deleted.
https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html
"""

import errno
import hashlib
import os
import time
from bisect import bisect_right
from collections.abc import Callable
from contextlib import ExitStack

from embedder.artifact import MANIFEST_FILE
from embedder.artifact_download.faults import DiskError, ObjectChangedError, TransferError
from embedder.artifact_download.layout import Layout, read_layout
from embedder.artifact_download.s3_object import ObjectLocation, S3Object, parse_location
from embedder.artifact_download.transfer import Transfer
from embedder.aws.credentials import CredentialsProvider
from embedder.errors import ArtifactDownloadError

__all__ = ["download"]

#: The time for all of it. With SnapStart and provisioned concurrency, an initialization may take
#: 130 seconds at least; the rest is for loading the model.
#: https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html
_SECONDS = 100.0
_FOLDER = "embedding-artifact"


def download(
    location: str,
    *,
    package: str | os.PathLike[str],
    temporary: str | os.PathLike[str],
    region: str,
    endpoint: str | None = None,
    credentials: CredentialsProvider | None = None,
) -> str:
    """Download the artifact and return its folder.

    Args:
        location: The object, as `s3://BUCKET/KEY`.
        package: The folder of the function's package with the manifest and the parts' checksums.
        temporary: Where the folder is created; Lambda's is `/tmp`.
        region: The bucket's region.
        endpoint: The URL of S3; that of the region if None.
        credentials: Whose requests they are; by default the function's role.

    Raises:
        SettingsError: If the location is not one.
        ArtifactError: If the package is not valid.
        ArtifactDownloadError: If the artifact does not arrive complete and unchanged.
    """
    where = parse_location(location)
    layout = read_layout(package)
    folder = os.path.join(temporary, _FOLDER)
    unfinished = f"{folder}.unfinished"
    if _is_finished(folder, layout):
        return folder
    _remove(folder)
    _remove(unfinished)
    source = S3Object(where, region=region, endpoint=endpoint, credentials=credentials)
    try:
        _fill(unfinished, layout, source)
        os.rename(unfinished, folder)
    except TransferError as error:
        raise _failure(where, str(error)) from error
    except DiskError as error:
        raise _disk_failure(where, layout, temporary, error.__cause__) from error
    except OSError as error:
        raise _disk_failure(where, layout, temporary, error) from error
    finally:
        _remove(unfinished)
        # A snapshot must not carry them.
        source.renew_credentials()
    return folder


def _fill(folder: str, layout: Layout, source: S3Object) -> None:
    """Create the folder with the artifact's files, checked.

    Raises:
        TransferError: If they do not arrive, or are not the manifest's.
        OSError: If they cannot be written.
    """
    os.mkdir(folder, 0o700)
    _transfer(folder, layout, source)
    wrong = _wrong_file(folder, layout)
    if wrong is not None:
        raise TransferError(f"the SHA-256 of {wrong} is not the manifest's", retry=False)
    with open(os.path.join(folder, MANIFEST_FILE), "wb") as file:
        file.write(layout.manifest)


def _transfer(folder: str, layout: Layout, source: S3Object) -> None:
    """Write the object's files; start again, once, if the object was replaced meanwhile."""
    deadline = time.monotonic() + _SECONDS
    with ExitStack() as stack:
        files: list[int] = []
        for stored in layout.files:
            path = os.path.join(folder, stored.name)
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            stack.callback(os.close, file)
            files.append(file)
            if hasattr(os, "posix_fallocate") and stored.size:
                # A full disk is found before anything is read.
                os.posix_fallocate(file, 0, stored.size)
        write = _writer(layout, files)
        try:
            Transfer(source, layout, write, deadline=deadline).run()
        except ObjectChangedError:
            Transfer(source, layout, write, deadline=deadline).run()


def _writer(layout: Layout, files: list[int]) -> Callable[[int, bytes], None]:
    """Return a function that writes a piece of the object to the files that it belongs to."""
    starts = [stored.start for stored in layout.files]

    def write(place: int, piece: bytes) -> None:
        view = memoryview(piece)
        while view:
            number = bisect_right(starts, place) - 1
            stored = layout.files[number]
            left = stored.start + stored.size - place
            try:
                written = os.pwrite(files[number], view[:left], place - stored.start)
            except OSError as error:
                raise DiskError from error
            place, view = place + written, view[written:]

    return write


def _is_finished(folder: str, layout: Layout) -> bool:
    try:
        with open(os.path.join(folder, MANIFEST_FILE), "rb") as file:
            same = file.read() == layout.manifest
    except OSError:
        return False
    return same and _wrong_file(folder, layout) is None


def _wrong_file(folder: str, layout: Layout) -> str | None:
    """Return the name of a file that is not the manifest's; None if all are."""
    for stored in layout.files:
        try:
            with open(os.path.join(folder, stored.name), "rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return stored.name
        if found != stored.sha256:
            return stored.name
    return None


def _remove(folder: str) -> None:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    for name in names:
        os.unlink(os.path.join(folder, name))
    os.rmdir(folder)


def _failure(where: ObjectLocation, reason: str) -> ArtifactDownloadError:
    return ArtifactDownloadError(f"The artifact cannot be downloaded from {where}: {reason}.")


def _disk_failure(
    where: ObjectLocation,
    layout: Layout,
    temporary: str | os.PathLike[str],
    error: BaseException | None,
) -> ArtifactDownloadError:
    if getattr(error, "errno", None) == errno.ENOSPC:
        needed = f"{layout.size / 1e6:.0f} MB"
        return _failure(
            where,
            f"{temporary} is full, and the artifact needs {needed} there; raise "
            "function.ephemeral_storage_mb, which SnapStart limits to 512",
        )
    return _failure(where, f"{temporary} cannot be written ({error})")
