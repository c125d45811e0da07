"""Read and write zips and artifacts in S3, by the digest of their bytes.

An object's key has the SHA-256 of its content. So an object that is there is complete and the right
one, and an upload that was interrupted has left nothing.
"""

import hashlib
import json
import re
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.session import Session

from operations.bootstrap_role import bootstrap_client
from operations.environment_session import look_up

_FILE = "embedding-kit.json"
#: The first time that a zip can hold, and a file that everyone may read: the same labels give the
#: same bytes.
_TIME = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16
_UNIX = 3


def write_labeled(archive: Path, labels: Mapping[str, str], to: Path) -> None:
    """Write a copy of a zip with labels."""
    shutil.copyfile(archive, to)
    entry = zipfile.ZipInfo(_FILE, _TIME)
    entry.create_system, entry.external_attr = _UNIX, _MODE
    with zipfile.ZipFile(to, "a") as copy:
        copy.writestr(entry, json.dumps(labels, indent=1, sort_keys=True))


def read_labels(archive: Path) -> dict[str, str]:
    """Return the labels of a zip; none if it has no labels."""
    try:
        with zipfile.ZipFile(archive) as found:
            return dict(json.loads(found.read(_FILE)))
    except KeyError:
        return {}
    except zipfile.BadZipFile as error:
        raise ValueError(f"{archive.name} is no zip: {error}") from None


#: The buckets of `cdk bootstrap` and of the kit end with their account and region.
_PLACE = re.compile(r".*-(?P<account>[0-9]{12})-(?P<region>[a-z]+(?:-[a-z]+)+-[0-9])")
_CHUNK = 1 << 20


class PackageBucket:
    """A bucket, with the credentials of bootstrap's role that publishes files.

    Without permission to assume the role, and for a bucket if its name does not have account and
    region, the credentials are the caller's own.
    """

    def __init__(self, session: Session, name: str) -> None:
        """Connect to a bucket by its name."""
        self.name = name
        self._owner: dict[str, str] = {}
        place = _PLACE.fullmatch(name)
        if place is None:
            self._client: Any = session.create_client("s3")
            return
        account, region = place["account"], place["region"]
        self._client = bootstrap_client(
            session, "s3", "file-publishing", account=account, region=region
        )
        # Such a name can be guessed, and taken by another account.
        self._owner = {"ExpectedBucketOwner": account}

    def has(self, key: str) -> bool:
        """Return whether the bucket exists and has an object."""
        head = self._client.head_object
        return look_up(head, Bucket=self.name, Key=key, **self._owner) is not None

    def read(self, key: str, digest: str, file: Path) -> None:
        """Download an object, and check its digest."""
        answer = self._client.get_object(Bucket=self.name, Key=key, **self._owner)
        found = hashlib.sha256()
        with file.open("wb") as output:
            for chunk in answer["Body"].iter_chunks(_CHUNK):
                found.update(chunk)
                output.write(chunk)
        if f"sha256:{found.hexdigest()}" != digest:
            raise ValueError(
                f"s3://{self.name}/{key} has other content than its name says; found: "
                f"sha256:{found.hexdigest()}; allowed: {digest}"
            )

    def write(self, key: str, file: Path) -> None:
        """Upload a file, if the bucket does not have the object yet."""
        if self.has(key):
            return
        with file.open("rb") as body:
            self._client.put_object(Bucket=self.name, Key=key, Body=body, **self._owner)


def file_digest(file: Path) -> str:
    """Return the digest of a file's bytes, as `sha256:...`."""
    with file.open("rb") as content:
        return f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"
