"""Prepare a zip that is already built for a deploy, as `operations.promotion` prepares images.

Lambda takes a zip only from a bucket in its own region, so each environment has its own copy: in
the bucket to which the CDK publishes the files of its endpoint's stack.
"""

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from botocore.session import Session

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.image_identity import LABEL, compare_labels
from operations.package_bucket import PackageBucket, file_digest
from operations.package_places import bucket_of, needed_targets, place_of
from operations.zip_labels import read_labels
from stacks.names import artifact_key, zip_key

__all__ = ["ZipReference", "promote_zip"]

_DIGEST = r"[0-9a-f]{64}"
_IN_S3 = re.compile(rf"s3://(?P<bucket>[a-z0-9][a-z0-9.-]+)/(?P<digest>{_DIGEST})\.zip")


@dataclass(frozen=True, slots=True)
class ZipReference:
    """A zip by its digest, and the bucket or the file that has it; to be found without both."""

    digest: str
    bucket: str | None = None
    file: Path | None = None

    @classmethod
    def parse(cls, text: str) -> "ZipReference":
        """Read `s3://BUCKET/DIGEST.zip`, `sha256:DIGEST` or the path of a zip.

        Raises:
            ValueError: The text has another form, or there is no such file.
        """
        in_s3 = _IN_S3.fullmatch(text)
        if in_s3:
            return cls(f"sha256:{in_s3['digest']}", bucket=in_s3["bucket"])
        if re.fullmatch(f"sha256:{_DIGEST}", text):
            return cls(text)
        if text.endswith(".zip") and "://" not in text and Path(text).is_file():
            return cls(file_digest(Path(text)), file=Path(text))
        raise ValueError(
            f"--image: found: {text}; allowed for an environment whose function is a zip: a zip as "
            "`scripts/build` prints it, s3://BUCKET/DIGEST.zip; sha256:DIGEST; or the path of "
            "such a zip"
        )


def promote_zip(
    session: Session,
    environment: EnvironmentSettings,
    given: Sequence[str],
    *,
    others: Sequence[str],
    check: bool = False,
) -> dict[str, str]:
    """Check a zip, and copy it and its artifact into the environment's bucket.

    Args:
        session: The AWS session; its region is used if the environment has none.
        environment: The environment that will deploy the zip.
        given: The zip, as `--image` names it.
        others: The names of the environments in whose buckets a digest is looked for, in the same
            account and region.
        check: Whether to check the zip only, before the environment's bucket exists.

    Returns:
        The digest of the zip, and that of its artifact in S3 if it has one, by target.

    Raises:
        ValueError: The zip is not there, or was built for other settings.
    """
    if len(given) != 1:
        raise ValueError(f"--image: found: {len(given)} of them; allowed: one zip")
    reference = ZipReference.parse(given[0])
    place = place_of(session, environment)
    own = PackageBucket(session, bucket_of(environment, place))
    near = [bucket_of(environment, place, name=name) for name in others]
    buckets = [own, *_buckets(session, reference, [name for name in near if name != own.name])]
    with tempfile.TemporaryDirectory(prefix="promote-") as name:
        source = _Source(reference, buckets, Path(name))
        archive = source.get(zip_key(reference.digest), reference.digest)
        artifact = _accept(reference.digest, read_labels(archive), environment)
        digests = {"zip": reference.digest} | ({"artifact": artifact} if artifact else {})
        keys = {"zip": zip_key(reference.digest), "artifact": artifact_key(artifact or "")}
        for target, digest in digests.items():
            if check:
                source.find(keys[target])
            elif not own.has(keys[target]):
                _copy(source.get(keys[target], digest), own, keys[target])
    return digests


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a zip and its artifact may be: beside each other."""

    reference: ZipReference
    buckets: Sequence[PackageBucket]
    folder: Path

    def find(self, key: str) -> PackageBucket | Path:
        """Return the bucket or the file that has a key.

        Raises:
            ValueError: There is none.
        """
        looked = [f"s3://{bucket.name}" for bucket in self.buckets]
        given = self.reference.file
        if given:
            file = given if key.endswith(".zip") else given.parent / key
            if file.is_file():
                return file
            looked.append(str(given.parent))
        for bucket in self.buckets:
            if bucket.has(key):
                return bucket
        raise ValueError(
            f"--image: there is no {key}; looked in: {', '.join(looked)}; allowed: a zip of "
            "`scripts/build`, with its bucket if that is in another account or region"
        )

    def get(self, key: str, digest: str) -> Path:
        """Return a file with the content of a key.

        Raises:
            ValueError: There is none, or it has other content.
        """
        found = self.find(key)
        if isinstance(found, Path):
            content = file_digest(found)
            if content != digest:
                raise ValueError(f"--image: {found}: found: {content}; allowed: {digest}")
            return found
        file = self.folder / digest.removeprefix("sha256:")
        if not file.exists():
            found.read(key, digest, file)
        return file


def _buckets(
    session: Session, reference: ZipReference, near: Sequence[str]
) -> Iterator[PackageBucket]:
    """Yield the buckets beside the environment's own in which a zip is looked for."""
    if reference.bucket:
        yield PackageBucket(session, reference.bucket)
    elif not reference.file:
        yield from (PackageBucket(session, name) for name in near)


def _accept(digest: str, labels: Mapping[str, str], environment: EnvironmentSettings) -> str | None:
    """Return the digest of the zip's artifact in S3, if the settings allow the zip."""
    if f"{LABEL}target" not in labels:
        raise ValueError(
            f"--image {digest}: it does not say what is in it; found: no label {LABEL}target; "
            "allowed: a zip of `scripts/build`"
        )
    artifact = labels.get(f"{LABEL}artifact")
    differences = compare_labels(dict(labels), environment.model)
    found, allowed = (
        "s3" if there else "package"
        for there in (artifact, "artifact" in needed_targets(environment))
    )
    if found != allowed:
        differences.append(f"[function] artifact: found: {found}; allowed: {allowed}")
    if differences:
        lines = "\n  ".join(differences)
        raise ValueError(
            f"--image {digest} was not built for {environment.name}:\n  {lines}\n"
            "found is what is in the zip, allowed is what the environment's file says"
        )
    return artifact


def _copy(file: Path, own: PackageBucket, key: str) -> None:
    if own.write(key, file):
        size = file.stat().st_size / 1e6
        print(f"{key} copied to s3://{own.name}: {size:.0f} MB", file=sys.stderr)
