"""Prepare images or a zip, already built, for a deploy: a part of `scripts/deploy NAME --image`.

It finds each image, refuses one that was built for other settings, copies it into the environment's
own repository, and returns the value of the CDK's context `images`. Nothing is deployed before all
images are accepted. Lambda pulls an image only from its own region, and from its own account
without further policies, and takes a zip only from a bucket in its own region: so each environment
has its own copy.
"""

import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from botocore.session import Session

from embedding_kit.image_identity import LABEL, STANDBY, compare_labels
from operations.packages import (
    Image,
    ImageRepository,
    PackageBucket,
    RepositoryAddress,
    file_digest,
    needed_targets,
    package_bucket,
    read_address,
    read_labels,
)
from stacks.environment import EnvironmentSettings
from stacks.names import artifact_key, zip_key

_IN_S3 = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]+)/(?P<digest>[0-9a-f]{64})\.zip")


def zip_reference(text: str) -> tuple[str, str | Path]:
    """Return the digest of `s3://BUCKET/DIGEST.zip`, or of a path, with the bucket or the path."""
    in_s3 = _IN_S3.fullmatch(text)
    if in_s3:
        return f"sha256:{in_s3['digest']}", in_s3["bucket"]
    if text.endswith(".zip") and "://" not in text and Path(text).is_file():
        return file_digest(Path(text)), Path(text)
    raise ValueError(
        f"--image: found: {text}; allowed for an environment with a zip: a zip as "
        "`scripts/build` prints it, s3://BUCKET/DIGEST.zip, or the path of such a zip"
    )


def promote_zip(
    session: Session, environment: EnvironmentSettings, given: Sequence[str], *, check: bool = False
) -> dict[str, str]:
    """Check a zip, and copy it and its artifact into the environment's bucket.

    With `check`, it is checked only, before the environment's bucket exists. Returned are the
    digest of the zip, and that of its artifact in S3 if it has one, by target.
    """
    if len(given) != 1:
        raise ValueError(f"--image: found: {len(given)} of them; allowed: one zip")
    digest, where = zip_reference(given[0])
    own = PackageBucket(session, package_bucket(environment, read_address(session, environment)))
    sources = [] if isinstance(where, Path) else [PackageBucket(session, where)]
    with tempfile.TemporaryDirectory(prefix="promote-") as name:
        source = _Source([own, *sources], where if isinstance(where, Path) else None, Path(name))
        archive = source.get(zip_key(digest), digest)
        artifact = _accept_zip(digest, read_labels(archive), environment)
        keys = {digest: zip_key(digest)} | ({artifact: artifact_key(artifact)} if artifact else {})
        for content, key in keys.items():
            if check:
                source.find(key)
            elif not own.has(key):
                file = source.get(key, content)
                own.write(key, file)
                size = file.stat().st_size / 1e6
                print(f"{key} copied to s3://{own.name}: {size:.0f} MB", file=sys.stderr)
    return {"zip": digest} | ({"artifact": artifact} if artifact else {})


@dataclass(frozen=True, slots=True)
class _Source:
    """Buckets and a folder that may have a zip, and its artifact next to it."""

    buckets: Sequence[PackageBucket]
    #: The zip, if it is a file of this machine.
    local_zip: Path | None
    #: Where a download goes.
    folder: Path

    def find(self, key: str) -> PackageBucket | Path:
        """Return the bucket or the file that has a key."""
        looked = [f"s3://{bucket.name}" for bucket in self.buckets]
        if self.local_zip:
            file = self.local_zip if key.endswith(".zip") else self.local_zip.parent / key
            if file.is_file():
                return file
            looked.append(str(self.local_zip.parent))
        for bucket in self.buckets:
            if bucket.has(key):
                return bucket
        raise ValueError(
            f"--image: there is no {key}; looked in: {', '.join(looked)}; allowed: a zip of "
            "`scripts/build`"
        )

    def get(self, key: str, digest: str) -> Path:
        """Return a file with the content of a key."""
        location = self.find(key)
        if isinstance(location, Path):
            content = file_digest(location)
            if content != digest:
                raise ValueError(f"--image: {location}: found: {content}; allowed: {digest}")
            return location
        file = self.folder / digest.removeprefix("sha256:")
        if not file.exists():
            location.read(key, digest, file)
        return file


def _accept_zip(
    digest: str, labels: Mapping[str, str], environment: EnvironmentSettings
) -> str | None:
    """Return the digest of the zip's artifact in S3, if the settings allow the zip."""
    _target("a zip", digest, labels)
    artifact = labels.get(f"{LABEL}artifact")
    differences = compare_labels(dict(labels), environment.model)
    source, allowed = (
        "s3" if in_s3 else "package"
        for in_s3 in (artifact, "artifact" in needed_targets(environment))
    )
    if source != allowed:
        differences.append(f"[function] artifact: found: {source}; allowed: {allowed}")
    if differences:
        raise _refusal("zip", digest, environment, differences)
    return artifact


def _target(what: str, digest: str, labels: Mapping[str, str]) -> str:
    """Return what is in an image or a zip, by its labels."""
    target = labels.get(f"{LABEL}target")
    if target is None:
        raise ValueError(
            f"--image {digest}: it does not say what is in it; found: no label {LABEL}target; "
            f"allowed: {what} of `scripts/build`"
        )
    return target


def _refusal(
    kind: str, digest: str, environment: EnvironmentSettings, differences: Sequence[str]
) -> ValueError:
    lines = "\n  ".join(differences)
    return ValueError(
        f"--image {digest} was not built for {environment.name}:\n  {lines}\n"
        f"found is what is in the {kind}, allowed is what the environment's file says"
    )


_REFERENCE = re.compile(
    r"(?P<account>[0-9]{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.[a-z0-9.-]+"
    r"/(?P<name>[a-z0-9][a-z0-9._/-]*)@(?P<digest>sha256:[0-9a-f]{64})"
)


@dataclass(frozen=True, slots=True)
class Reference:
    """An image by its digest, and the repository that has it."""

    digest: str
    address: RepositoryAddress

    @classmethod
    def parse(cls, text: str) -> "Reference":
        """Read `ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME@sha256:...`."""
        match = _REFERENCE.fullmatch(text)
        if match is None:
            raise ValueError(
                f"--image: found: {text}; allowed: an image as `scripts/build` prints it: "
                "ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME@sha256:..."
            )
        fields = match.groupdict()
        return cls(digest=fields.pop("digest"), address=RepositoryAddress(**fields))


def images_context(
    session: Session, environment: EnvironmentSettings, images: Sequence[str], *, check: bool
) -> str:
    """Promote images or a zip by their addresses; return the value of the context `images`.

    With `check`, they are only checked.
    """
    if environment.function.package == "zip":
        digests = promote_zip(session, environment, images, check=check)
    else:
        references = [Reference.parse(text) for text in images]
        digests = promote(session, environment, references, check=check)
    return ",".join(f"{target}={digest}" for target, digest in digests.items())


def promote(
    session: Session,
    environment: EnvironmentSettings,
    references: Sequence[Reference],
    *,
    check: bool = False,
) -> dict[str, str]:
    """Check the images, and copy them into the environment's repository.

    With `check`, they are checked only, before the environment's repository exists. Returned is
    the digest of each image that the environment needs, by target.
    """
    own = read_address(session, environment)
    with ExitStack() as stack:
        repositories: dict[RepositoryAddress, ImageRepository] = {}

        def connect(address: RepositoryAddress) -> ImageRepository:
            if address not in repositories:
                repositories[address] = ImageRepository(session, address)
                stack.callback(repositories[address].close)
            return repositories[address]

        accepted: dict[str, tuple[Image, ImageRepository]] = {}
        for reference in references:
            # The environment's own copy comes first: the other repository may have lost the image.
            for address in (own, reference.address):
                image = connect(address).find(reference.digest)
                if image:
                    break
            else:
                raise ValueError(
                    f"--image: there is no image {reference.digest}; looked in: {own.uri}, "
                    f"{reference.address.uri}; allowed: an image of `scripts/build`"
                )
            target = _accept(image, environment, accepted)
            accepted[target] = (image, repositories[address])
        needed = needed_targets(environment)
        if missing := [target for target in needed if target not in accepted]:
            raise ValueError(
                f"--image: found: {', '.join(accepted)}; allowed: an image of each target that the "
                f"environment needs: {', '.join(needed)}. Missing: {', '.join(missing)}; "
                "`scripts/build` of an environment that has them prints them all"
            )
        for target in needed if not check else ():
            image, source = accepted[target]
            _copy(image, source, connect(own))
    return {target: accepted[target][0].digest for target in needed}


def _accept(image: Image, environment: EnvironmentSettings, accepted: Mapping[str, object]) -> str:
    """Return the image's target, if the environment's settings allow the image."""
    target = _target("an image", image.digest, image.labels)
    differences = []
    for table, model in environment.models.items():
        model_differences = compare_labels(image.labels, model, table)
        name = f"{STANDBY if table == 'standby' else ''}{target}"
        if not model_differences and name in accepted:
            raise ValueError(f"--image {image.digest}: found: two images of the target {name}")
        if not model_differences:
            return name
        differences += model_differences
    raise _refusal("image", image.digest, environment, differences)


def _copy(image: Image, source: ImageRepository, own: ImageRepository) -> None:
    # The lifecycle deletes what has no tag. This one is the same in each run.
    tag = f"promoted-{image.digest.removeprefix('sha256:')}"
    if own.has(tag):
        return
    size = sum(own.copy(image, source=source, tag=tag))
    if size:
        print(f"{image.digest} copied to {own.address.uri}: {size / 1e6:.0f} MB", file=sys.stderr)
