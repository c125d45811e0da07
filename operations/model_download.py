"""Download a model's folder from S3 before a build.

It compares the ETags of the objects with those of the files in the cache, and downloads what has
changed. A download that was interrupted goes on with the objects that are missing. The ETags are in
a file of the folder, and so in the digest that names an image or a zip.
"""

import fcntl
import hashlib
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Any

from botocore.session import Session

from embedding_client.progress import progress_on
from embedding_kit.settings.model import FOLDER_HOLDS, s3_place
from operations.command import explained
from stacks.environment import EnvironmentSettings

#: The file of a downloaded folder with the ETag of each object.
LISTING = "s3-objects.json"
_CHUNK = 1 << 20


def download_models(environment: EnvironmentSettings, connect: Callable[[], Session]) -> None:
    """Download the environment's models that are in S3; `connect` opens a session if there is one.

    Raises:
        ValueError: As `download`, or S3 refuses to read one.
    """
    sources = [source for model in environment.models.values() for source in model.sources]
    # A reranker serves next to each model, and is read once.
    for folder in dict.fromkeys(source.folder for source in sources):
        if folder and (location := s3_place(folder)):
            with explained(f"the model of {environment.argument} cannot be read from S3"):
                client = connect().create_client("s3", region_name=environment.region)
                download(client, *location, folder)


def download(client: Any, bucket: str, prefix: str, folder: Path) -> None:
    """Make a folder that has the objects under a prefix, or leave it if it has them.

    Raises:
        ValueError: The objects are not a model's folder, or have names that no folder can have.
        ClientError: S3 refuses to read them, or one was replaced while they were read.
    """
    objects = _objects(client, bucket, prefix)
    if not objects.keys() & {*FOLDER_HOLDS}:
        raise ValueError(
            f"s3://{bucket}/{prefix} must hold {' or '.join(FOLDER_HOLDS)}; found: "
            f"{', '.join(sorted(objects)[:5]) or 'no object'}"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        listing = folder / LISTING
        downloaded = json.loads(listing.read_text("utf-8")) if listing.exists() else {}
        if downloaded == objects:
            return
        cache = folder.with_name(f".{folder.name}.parts")
        cache.mkdir(exist_ok=True)
        for name, etag in objects.items():
            cached = _part(cache, name, etag)
            if cached.exists():
                continue
            if downloaded.get(name) == etag:
                os.link(folder / name, cached)
            else:
                print(f"downloading s3://{bucket}/{prefix}/{name}", file=sys.stderr)
                _read(client, cached, name, Bucket=bucket, Key=f"{prefix}/{name}", IfMatch=etag)
        _assemble(folder, cache, objects)


def _objects(client: Any, bucket: str, prefix: str) -> dict[str, str]:
    """Return the ETag of each object by its name under the prefix."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/")
    etags = {}
    for page in pages:
        for item in page.get("Contents", ()):
            name = item["Key"].removeprefix(f"{prefix}/")
            if name and not name.endswith("/"):  # The console's folders.
                etags[name] = item["ETag"]
    for name in etags:
        if str(PurePosixPath(name)) != name or {"..", "."} & {*name.split("/")} or name == LISTING:
            raise ValueError(
                f"s3://{bucket}/{prefix}: each object must have the path of a file in a folder; "
                f"found: {name!r}"
            )
    return etags


def _part(parts: Path, name: str, etag: str) -> Path:
    return parts / hashlib.sha256(f"{name}\0{etag}".encode()).hexdigest()


def _read(client: Any, part: Path, name: str, **request: str) -> None:
    """Write an object to a file that is there only when it is whole, and show the progress."""
    answer = client.get_object(**request)
    partial, chunks = part.with_suffix(".partial"), math.ceil(answer["ContentLength"] / _CHUNK)
    shown = progress_on(name, total=chunks, unit="MiB", leave=False)
    with partial.open("wb") as file, closing(shown):
        for chunk in answer["Body"].iter_chunks(_CHUNK):  # checks the length at its end
            file.write(chunk)
            shown.update(1)
    partial.rename(part)


def _assemble(folder: Path, parts: Path, objects: Mapping[str, str]) -> None:
    """Put the objects in place of the folder's former files."""
    assembled = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(assembled, ignore_errors=True)
    for name, etag in objects.items():
        (assembled / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(_part(parts, name, etag), assembled / name)
    (assembled / LISTING).write_text(json.dumps(objects, indent=1, sort_keys=True), "utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    assembled.rename(folder)
    shutil.rmtree(parts)
