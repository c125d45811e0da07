"""Which packages an environment runs, and where its own copies of them are.

Images are in a repository (`operations.image_registry`), zips and artifacts in a bucket. A key in
the bucket has the SHA-256 of the content. So an object that is there is complete and the right one,
and an upload that was interrupted has left nothing.
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

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.image_identity import STANDBY, build_arguments
from embedding_kit.settings import artifact_in_s3, load_source
from operations.environment_session import bootstrap_client, look_up, place_of_caller
from operations.image_registry import Place
from stacks.names import (
    artifact_bucket,
    artifact_stack_name,
    bootstrap_qualifier,
    has_bucket_stack,
    has_repository_stack,
    image_repository,
    repository_stack_name,
)

_FILE = "embedding-kit.json"
#: The first time that a zip can hold, and a file that everyone may read: the same labels give the
#: same bytes.
_TIME = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16
_UNIX = 3
#: The buckets of `cdk bootstrap` and of the kit end with their account and region.
_PLACE = re.compile(r".*-(?P<account>[0-9]{12})-(?P<region>[a-z]+(?:-[a-z]+)+-[0-9])")
_CHUNK = 1 << 20


def needed_targets(environment: EnvironmentSettings) -> list[str]:
    """Return what an environment runs: targets of the Dockerfile, or a zip and its artifact.

    A target begins with `standby-` if its image is that of the second model.
    """
    loads = environment.index is not None and load_source(environment.index, environment.batch)
    needed = {
        "endpoint": environment.function.package == "image",
        "batch": environment.batch is not None or loads or environment.ingest is not None,
        "server": environment.server is not None,
        "zip": environment.function.package == "zip",
        "artifact": artifact_in_s3(environment.model, environment.function),
    }
    model, standby = environment.model, environment.standby
    if standby and build_arguments(standby) != build_arguments(model):
        needed |= {f"{STANDBY}endpoint": True, f"{STANDBY}batch": environment.ingest is not None}
    return [target for target, need in needed.items() if need]


def store_stack(environment: EnvironmentSettings) -> str | None:
    """Return the stack that has to be there before a package is; None if there is no such stack."""
    if has_repository_stack(environment):
        return repository_stack_name(environment.name)
    if has_bucket_stack(environment):
        return artifact_stack_name(environment.name)
    return None


def place_of(session: Session, environment: EnvironmentSettings) -> Place:
    """Return the address of an environment's repository."""
    account, region = place_of_caller(session, environment)
    return Place(account=account, region=region, name=image_repository(environment))


def bucket_of(environment: EnvironmentSettings, place: Place) -> str:
    """Return the bucket to which the endpoint's stack of an environment publishes its zips."""
    account, region = place.account, place.region
    if artifact_in_s3(environment.model, environment.function):
        return artifact_bucket(environment, account=account, region=region)
    return f"cdk-{bootstrap_qualifier()}-assets-{account}-{region}"


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
