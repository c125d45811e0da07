"""Which packages an environment runs, and where its own copies of them are.

Images are in a repository of ECR, which answers the protocol of `docker pull` and `docker push`
(https://github.com/opencontainers/distribution-spec/blob/main/spec.md). An image is a manifest,
which its digest names, and the files that the manifest lists. A copy has the same bytes, so it has
the same digest in every account and region. A copy that was interrupted continues with the missing
files.

Zips and artifacts are in a bucket. A key in the bucket has the SHA-256 of the content. So an object
that is there is complete and the right one, and an upload that was interrupted has left nothing.
"""

import hashlib
import json
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from embedding_kit.image_identity import STANDBY, build_arguments
from embedding_kit.settings import artifact_in_s3, load_source
from operations.environment_session import (
    answer_or_none,
    bootstrap_client,
    partition_domain,
    read_account_and_region,
)
from stacks.environment import EnvironmentSettings
from stacks.names import (
    artifact_bucket,
    artifact_stack_name,
    bootstrap_qualifier,
    has_bucket_stack,
    has_repository_stack,
    image_repository,
    repository_stack_name,
)

#: The file of a zip that has its labels.
_FILE = "embedding-kit.json"
#: The buckets of `cdk bootstrap` and of the kit end with their account and region.
_ACCOUNT_AND_REGION = re.compile(r".*-(?P<account>[0-9]{12})-(?P<region>[a-z]+(?:-[a-z]+)+-[0-9])")
_CHUNK = 1 << 20
#: What Lambda runs: one image. An index of images is not accepted.
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_BYTES = {"Content-Type": "application/octet-stream"}


@dataclass(frozen=True, slots=True)
class RepositoryAddress:
    """A repository's address: account, region and name."""

    account: str
    region: str
    name: str

    @property
    def uri(self) -> str:
        """The repository's URI, as ECR writes it."""
        return f"{self.account}.dkr.ecr.{self.region}.{partition_domain(self.region)}/{self.name}"


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


def read_address(session: Session, environment: EnvironmentSettings) -> RepositoryAddress:
    """Return the address of an environment's repository."""
    account, region = read_account_and_region(session, environment)
    return RepositoryAddress(account=account, region=region, name=image_repository(environment))


def package_bucket(environment: EnvironmentSettings, address: RepositoryAddress) -> str:
    """Return the bucket to which the endpoint's stack of an environment publishes its zips."""
    account, region = address.account, address.region
    if artifact_in_s3(environment.model, environment.function):
        return artifact_bucket(environment, account=account, region=region)
    return f"cdk-{bootstrap_qualifier()}-assets-{account}-{region}"


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its digest, the manifest's bytes and media type, and the labels."""

    digest: str
    manifest: bytes
    media_type: str
    labels: dict[str, str]

    @property
    def files(self) -> list[dict[str, Any]]:
        """The configuration and the layers, as the manifest describes them."""
        content = json.loads(self.manifest)
        return [content["config"], *content["layers"]]


class ImageRepository:
    """A repository of ECR, with the role that publishes images: see `bootstrap_client`."""

    def __init__(self, session: Session, address: RepositoryAddress) -> None:
        """Get a token of the registry, and connect."""
        self.address = address
        try:
            client = registry_client(session, address)
            (data,) = client.get_authorization_token()["authorizationData"]
        except (BotoCoreError, ClientError) as error:
            raise ValueError(f"no access to the registry of {address.uri}: {error}") from None
        # The endpoint is the caller's own registry's, and the token holds for all that it may use.
        url = re.sub(r"^https://[0-9]{12}\.", f"https://{address.account}.", data["proxyEndpoint"])
        authorization = f"Basic {data['authorizationToken']}"
        self._client = httpx2.Client(
            base_url=f"{url}/v2/{address.name}/",
            # Without an encoding, the content is the bytes that the digest is of.
            headers={"Authorization": authorization, "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(60),
            # ECR sends the client to S3 for a layer. httpx2 sends no Authorization there.
            follow_redirects=True,
        )

    def find(self, digest: str) -> Image | None:
        """Return the image of a digest; None without the image or the repository."""
        accepted = ", ".join(_MANIFESTS + _INDEXES)
        answer = self._send("GET", f"manifests/{digest}", headers={"Accept": accepted})
        if answer.status_code == httpx2.codes.NOT_FOUND:
            return None
        self._check(answer)
        manifest, media_type = answer.content, answer.headers["content-type"]
        if f"sha256:{hashlib.sha256(manifest).hexdigest()}" != digest:
            raise ValueError(f"{self.address.uri} answered {digest} with other content")
        if media_type not in _MANIFESTS:
            raise ValueError(
                f"{self.address.uri}@{digest}: Lambda runs no index of images; found: "
                f"{media_type}; allowed: an image as `scripts/build` makes it"
            )
        config = self._send("GET", f"blobs/{json.loads(manifest)['config']['digest']}")
        self._check(config)
        labels = json.loads(config.content).get("config", {}).get("Labels") or {}
        return Image(digest=digest, manifest=manifest, media_type=media_type, labels=labels)

    def has(self, reference: str) -> bool:
        """Return whether the repository has a manifest by this tag or digest."""
        accepted = ", ".join(_MANIFESTS)
        answer = self._send("HEAD", f"manifests/{reference}", headers={"Accept": accepted})
        if answer.status_code != httpx2.codes.NOT_FOUND:
            self._check(answer)
        return answer.is_success

    def copy(self, image: Image, *, source: "ImageRepository", tag: str) -> Iterator[int]:
        """Copy the missing files of an image from another repository, then tag the image.

        Without a tag, the lifecycle would delete it. The size of each copied file, in bytes, is
        yielded.
        """
        for file in image.files:
            if not self._send("HEAD", f"blobs/{file['digest']}").is_success:
                self._upload(file["digest"], source)
                yield file["size"]
        answer = self._send(
            "PUT",
            f"manifests/{tag}",
            content=image.manifest,
            headers={"Content-Type": image.media_type},
        )
        self._check(answer)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _upload(self, digest: str, source: "ImageRepository") -> None:
        """Send a file as `docker push` does: start, send as it comes, and end with its digest."""
        started = self._send("POST", "blobs/uploads/")
        self._check(started)
        try:
            with source._client.stream("GET", f"blobs/{digest}") as download:
                source._check(download)
                location = self._client.base_url.join(started.headers["location"])
                content = download.iter_raw(_CHUNK)
                sent = self._client.patch(location, content=content, headers=_BYTES)
        except httpx2.TransportError as error:
            raise ValueError(
                f"the copy from {source.address.uri} to {self.address.uri} broke off: {error}; the "
                "same command continues it"
            ) from None
        self._check(sent)
        location = self._client.base_url.join(sent.headers["location"])
        # A query, such as an upload's state, is kept.
        self._check(self._send("PUT", str(location.copy_merge_params({"digest": digest}))))

    def _send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        try:
            return self._client.request(method, path, **options)
        except httpx2.TransportError as error:
            raise ValueError(f"{self.address.uri} could not be reached: {error}") from None

    def _check(self, answer: httpx2.Response) -> None:
        if answer.is_success:
            return
        answer.read()
        raise ValueError(
            f"{self.address.uri} answers {answer.request.method} with {answer.status_code}: "
            f"{answer.text[:300] or 'no text'}"
        )


def registry_client(session: Session, address: RepositoryAddress) -> Any:
    """Return ECR's client with the role that publishes images: see `bootstrap_client`."""
    return bootstrap_client(
        session, "ecr", "image-publishing", account=address.account, region=address.region
    )


def write_labeled(archive: Path, labels: Mapping[str, str], to: Path) -> None:
    """Write a copy of a zip with labels."""
    shutil.copyfile(archive, to)
    # The first time that a zip can hold, and a file of Unix that everyone may read: the same labels
    # give the same bytes.
    entry = zipfile.ZipInfo(_FILE, (1980, 1, 1, 0, 0, 0))
    entry.create_system, entry.external_attr = 3, 0o100644 << 16
    with zipfile.ZipFile(to, "a") as copy:
        copy.writestr(entry, json.dumps(labels, indent=1, sort_keys=True))


def read_labels(archive: Path) -> dict[str, str]:
    """Return the labels of a zip; none if it has no labels."""
    try:
        with zipfile.ZipFile(archive) as zip_file:
            return dict(json.loads(zip_file.read(_FILE)))
    except KeyError:
        return {}
    except zipfile.BadZipFile as error:
        raise ValueError(f"{archive.name} is no zip: {error}") from None


class PackageBucket:
    """A bucket, with the role that publishes files: see `bootstrap_client`.

    If its name does not have account and region, the credentials are the caller's own, too.
    """

    def __init__(self, session: Session, name: str) -> None:
        """Connect to a bucket by its name."""
        self.name = name
        self._owner: dict[str, str] = {}
        owner = _ACCOUNT_AND_REGION.fullmatch(name)
        if owner is None:
            self._client: Any = session.create_client("s3")
            return
        account, region = owner["account"], owner["region"]
        self._client = bootstrap_client(
            session, "s3", "file-publishing", account=account, region=region
        )
        # Such a name can be guessed, and taken by another account.
        self._owner = {"ExpectedBucketOwner": account}

    def has(self, key: str) -> bool:
        """Return whether the bucket exists and has an object."""
        head = self._client.head_object
        return answer_or_none(head, Bucket=self.name, Key=key, **self._owner) is not None

    def read(self, key: str, digest: str, file: Path) -> None:
        """Download an object, and check its digest."""
        answer = self._client.get_object(Bucket=self.name, Key=key, **self._owner)
        sha256 = hashlib.sha256()
        with file.open("wb") as output:
            for chunk in answer["Body"].iter_chunks(_CHUNK):
                sha256.update(chunk)
                output.write(chunk)
        if f"sha256:{sha256.hexdigest()}" != digest:
            raise ValueError(
                f"s3://{self.name}/{key} has other content than its name says; found: "
                f"sha256:{sha256.hexdigest()}; allowed: {digest}"
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
