"""Read, copy and tag images in ECR, by the registry's own protocol.

ECR's repositories answer the protocol of `docker pull` and `docker push`
(https://github.com/opencontainers/distribution-spec/blob/main/spec.md). An image is a manifest,
which its digest names, and the files that the manifest lists. A copy has the same bytes, so it has
the same digest in every account and region. A copy that was interrupted continues with the missing
files.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import httpx
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from operations.environment_session import bootstrap_client, partition_domain

#: What Lambda runs: one image. An index of images is not accepted.
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_TIMEOUT = httpx.Timeout(60)
_CHUNK = 1 << 20
_BYTES = {"Content-Type": "application/octet-stream"}


class RegistryError(ValueError):
    """A registry refuses a request, or has no such image."""


@dataclass(frozen=True, slots=True)
class Place:
    """A repository's address: account, region and name."""

    account: str
    region: str
    name: str

    @property
    def uri(self) -> str:
        """The repository's URI, as ECR writes it."""
        domain = partition_domain(self.region)
        return f"{self.account}.dkr.ecr.{self.region}.{domain}/{self.name}"


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


class Repository:
    """A repository of ECR, with the credentials of its registry.

    The credentials are those of bootstrap's image-publishing role, as for the CDK's command;
    without permission to assume it, the caller's own.
    """

    def __init__(self, place: Place, *, url: str, authorization: str) -> None:
        """Connect to a repository at the registry's URL, with user and password in base64."""
        self.place = place
        self._client = httpx.Client(
            base_url=f"{url}/v2/{place.name}/",
            # Without an encoding, the content is the bytes that the digest is of.
            headers={"Authorization": f"Basic {authorization}", "Accept-Encoding": "identity"},
            timeout=_TIMEOUT,
            # ECR sends the client to S3 for a layer. httpx sends no Authorization there.
            follow_redirects=True,
        )

    @classmethod
    def connect(cls, session: Session, place: Place) -> Self:
        """Get a token of the registry, and connect."""
        try:
            client = registry_client(session, place)
            (data,) = client.get_authorization_token()["authorizationData"]
        except (BotoCoreError, ClientError) as error:
            raise RegistryError(f"no access to the registry of {place.uri}: {error}") from None
        # The endpoint is the caller's own registry's, and the token holds for all that it may use.
        url = re.sub(r"^https://[0-9]{12}\.", f"https://{place.account}.", data["proxyEndpoint"])
        return cls(place, url=url, authorization=data["authorizationToken"])

    def find(self, digest: str) -> Image | None:
        """Return the image of a digest; None without the image or the repository."""
        accepted = ", ".join(_MANIFESTS + _INDEXES)
        answer = self._send("GET", f"manifests/{digest}", headers={"Accept": accepted})
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        self._check(answer)
        manifest, media_type = answer.content, answer.headers["content-type"]
        if f"sha256:{hashlib.sha256(manifest).hexdigest()}" != digest:
            raise RegistryError(f"{self.place.uri} answered {digest} with other content")
        if media_type not in _MANIFESTS:
            raise RegistryError(
                f"{self.place.uri}@{digest}: Lambda runs no index of images; found: {media_type}; "
                "allowed: an image as `scripts/build` makes it"
            )
        config = self._send("GET", f"blobs/{json.loads(manifest)['config']['digest']}")
        self._check(config)
        labels = json.loads(config.content).get("config", {}).get("Labels") or {}
        return Image(digest=digest, manifest=manifest, media_type=media_type, labels=labels)

    def has(self, reference: str) -> bool:
        """Return whether the repository has a manifest by this tag or digest."""
        accepted = ", ".join(_MANIFESTS)
        answer = self._send("HEAD", f"manifests/{reference}", headers={"Accept": accepted})
        if answer.status_code != httpx.codes.NOT_FOUND:
            self._check(answer)
        return answer.is_success

    def copy(self, image: Image, *, source: "Repository", tag: str) -> Iterator[int]:
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

    def _upload(self, digest: str, source: "Repository") -> None:
        """Send a file as `docker push` does: start, send as it comes, and end with its digest."""
        started = self._send("POST", "blobs/uploads/")
        self._check(started)
        try:
            with source._client.stream("GET", f"blobs/{digest}") as download:
                source._check(download)
                location = self._client.base_url.join(started.headers["location"])
                content = download.iter_raw(_CHUNK)
                sent = self._client.patch(location, content=content, headers=_BYTES)
        except httpx.TransportError as error:
            raise RegistryError(
                f"the copy from {source.place.uri} to {self.place.uri} broke off: {error}; the "
                "same command continues it"
            ) from None
        self._check(sent)
        location = self._client.base_url.join(sent.headers["location"])
        # A query, such as an upload's state, is kept.
        ended = self._send("PUT", str(location.copy_merge_params({"digest": digest})))
        self._check(ended)

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            return self._client.request(method, path, **options)
        except httpx.TransportError as error:
            raise RegistryError(f"{self.place.uri} could not be reached: {error}") from None

    def _check(self, answer: httpx.Response) -> None:
        if answer.is_success:
            return
        answer.read()
        raise RegistryError(
            f"{self.place.uri} answers {answer.request.method} with {answer.status_code}: "
            f"{answer.text[:300] or 'no text'}"
        )


def registry_client(session: Session, place: Place) -> Any:
    """Return ECR's client with bootstrap's publishing role; else with the caller's credentials."""
    return bootstrap_client(
        session, "ecr", "image-publishing", account=place.account, region=place.region
    )
