"""Build the zip of an environment once, and upload it: a step of `scripts/build`."""

import subprocess
import tempfile
from pathlib import Path

from botocore.session import Session

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.image_identity import LABEL, model_labels
from operations.package_bucket import PackageBucket, file_digest
from operations.package_places import bucket_of, needed_targets, place_of
from operations.zip_labels import write_labeled
from stacks.names import artifact_key, zip_key

__all__ = ["built_zip"]


def built_zip(session: Session, environment: EnvironmentSettings) -> str:
    """Build the zip with its labels, and upload it with its artifact, if that comes from S3.

    The same sources give the same bytes and the same key, as far as zlib compresses them equally.
    So what is there is not uploaded again, and after an interruption the same command continues.

    Args:
        session: The AWS session; its region is used if the environment has none.
        environment: The environment.

    Returns:
        The zip's address, `s3://BUCKET/DIGEST.zip`.

    Raises:
        CalledProcessError: The builder fails, and has printed why.
    """
    # Only now, because it imports the CDK, which takes seconds.
    from embedding_kit.zip_command import artifact_command, build_command  # noqa: PLC0415

    place = place_of(session, environment)
    bucket = PackageBucket(session, bucket_of(environment, place))
    labels = model_labels(environment.model) | {f"{LABEL}target": "zip"}
    in_s3 = "artifact" in needed_targets(environment)
    if in_s3:
        artifact = _run(artifact_command(environment.model))
        digest = file_digest(artifact)
        bucket.write(artifact_key(digest), artifact)
        labels[f"{LABEL}artifact"] = digest
    archive = _run(build_command(environment.model, with_artifact=not in_s3))
    with tempfile.TemporaryDirectory(prefix="build-") as folder:
        labeled = Path(folder, archive.name)
        write_labeled(archive, labels, labeled)
        key = zip_key(file_digest(labeled))
        bucket.write(key, labeled)
    return f"s3://{bucket.name}/{key}"


def _run(command: list[str]) -> Path:
    """Return the file that the builder prints; its progress goes to this process's own output."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    return Path(done.stdout.strip().splitlines()[-1])
