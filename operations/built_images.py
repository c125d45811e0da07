"""The images of an environment that were built and pushed.

The CDK's command tags each image by what it is made from. So the images of a commit are found by
their tags, and not built again. An environment with a zip has no such images: its zip is built and
uploaded here. Before a build, environments are refused that would not accept the images later.
"""

import json
import subprocess
import tempfile
from pathlib import Path

from botocore.session import Session

from embedding_kit.image_identity import LABEL, build_command, compare_labels, model_labels
from operations.packages import (
    PackageBucket,
    file_digest,
    needed_targets,
    package_bucket,
    read_address,
    registry_client,
    write_labeled,
)
from stacks.environment import EnvironmentSettings
from stacks.environment_file import EnvironmentFileError
from stacks.names import artifact_key, zip_key


def built_zip(session: Session, environment: EnvironmentSettings) -> str:
    """Build the zip with its labels, upload it with its artifact, if that comes from S3.

    The same sources give the same bytes and the same key, as far as zlib compresses them equally.
    So what is there is not uploaded again, and after an interruption the same command continues.
    Returned is the zip's address, `s3://BUCKET/DIGEST.zip`.
    """
    bucket = PackageBucket(session, package_bucket(environment, read_address(session, environment)))
    labels = model_labels(environment.model) | {f"{LABEL}target": "zip"}
    in_s3 = "artifact" in needed_targets(environment)
    if in_s3:
        artifact = _run(build_command(environment.model, "--artifact-object"))
        digest = file_digest(artifact)
        bucket.write(artifact_key(digest), artifact)
        labels[f"{LABEL}artifact"] = digest
    archive = _run(build_command(environment.model, *["--without-artifact"] * in_s3))
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


def built_images(session: Session, environment: EnvironmentSettings, assembly: Path) -> list[str]:
    """Return the addresses of an assembly's images with their digests; the endpoint's first."""
    address = read_address(session, environment)
    targets: dict[str, str] = {}
    for manifest in sorted(assembly.glob("*.assets.json")):
        for entry in json.loads(manifest.read_text())["dockerImages"].values():
            target = entry["source"].get("dockerBuildTarget", "")
            for destination in entry["destinations"].values():
                if destination["repositoryName"] == address.name:
                    targets[destination["imageTag"]] = target
    client = registry_client(session, address)
    images = []
    for tag in sorted(targets, key=lambda tag: (targets[tag], tag)):
        (details,) = client.describe_images(
            repositoryName=address.name, imageIds=[{"imageTag": tag}]
        )["imageDetails"]
        images.append(f"{address.uri}@{details['imageDigest']}")
    return images


def check_accepts(environment: EnvironmentSettings, built: EnvironmentSettings) -> None:
    """Refuse an environment that would not accept what another one builds, by what differs."""
    labels = [model_labels(model) for model in built.models.values()]
    differences = [
        line
        for table, model in environment.models.items()
        for line in min(
            (compare_labels(own_labels, model, table) for own_labels in labels), key=len
        )
    ]
    if built.standby and not environment.standby:
        differences.append(f"[standby] name: found: {built.standby.name}; allowed: not set")
    needed, available = needed_targets(environment), needed_targets(built)
    # An image that is not needed stays where it is. A zip without its artifact is another zip.
    if not {*needed} <= {*available} or ("artifact" in available) != ("artifact" in needed):
        differences.append(f"packages: found: {', '.join(available)}; allowed: {', '.join(needed)}")
    if differences:
        lines = "\n  ".join(differences)
        raise EnvironmentFileError(
            f"{environment.name} would not accept what {built.name} builds:\n  {lines}\n"
            f"found is what {built.file} says, allowed is what "
            f"{environment.file} says; give both the same, or build for "
            f"{environment.name} apart: scripts/build {environment.argument}; nothing was built"
        )
