"""Print the images of an environment that were built and pushed: the last step of `scripts/build`.

The CDK's command tags each image by what it is made from. So the images of a commit are found by
their tags, and not built again. An environment with a zip has no such images: its zip
is built and uploaded here. With `--check`, the first step, environments are refused that would not
accept the images later.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from botocore.session import Session

from embedding_kit.image_identity import LABEL, build_command, compare_labels, model_labels
from embedding_kit.programs import exit_with
from operations.command import command_parser, environment_of, run_command
from operations.environment_session import session_for
from operations.packages import (
    PackageBucket,
    bucket_of,
    file_digest,
    needed_targets,
    place_of,
    registry_client,
    store_stack,
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
    bucket = PackageBucket(session, bucket_of(environment, place_of(session, environment)))
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


_ASSEMBLY = Path(__file__).parents[1] / "cdk.out"


def main(arguments: list[str] | None = None) -> int:
    """Print what was built, one a line, for `scripts/deploy --image`; return the exit status."""
    parser = command_parser("python -m operations.built_images", __doc__)
    parser.add_argument("others", nargs="*", help="the environments that get the images later")
    parser.add_argument(
        "--check",
        action="store_true",
        help="only check the environments, and print the stack that the images need first, if any, "
        "or `existing` for an existing repository",
    )
    failure = "what was built could not be looked up"
    return run_command(parser, _print_built, arguments, failure=failure)


def _print_built(environment: EnvironmentSettings, options: argparse.Namespace) -> None:
    for other in options.others:
        check_accepts(environment_of(other), environment)
    if options.check:
        is_existing = environment.existing is not None and environment.existing.repository
        print(store_stack(environment) or ("existing" if is_existing else ""))
        return
    session = session_for(environment)
    if environment.function.package == "zip":
        print(built_zip(session, environment))
    else:
        print("\n".join(built_images(session, environment, _ASSEMBLY)))


def built_images(session: Session, environment: EnvironmentSettings, assembly: Path) -> list[str]:
    """Return the addresses of an assembly's images with their digests; the endpoint's first."""
    place = place_of(session, environment)
    targets: dict[str, str] = {}
    for manifest in sorted(assembly.glob("*.assets.json")):
        for entry in json.loads(manifest.read_text())["dockerImages"].values():
            target = entry["source"].get("dockerBuildTarget", "")
            for destination in entry["destinations"].values():
                if destination["repositoryName"] == place.name:
                    targets[destination["imageTag"]] = target
    client = registry_client(session, place)
    images = []
    for tag in sorted(targets, key=lambda tag: (targets[tag], tag)):
        (found,) = client.describe_images(repositoryName=place.name, imageIds=[{"imageTag": tag}])[
            "imageDetails"
        ]
        images.append(f"{place.uri}@{found['imageDigest']}")
    return images


def check_accepts(environment: EnvironmentSettings, built: EnvironmentSettings) -> None:
    """Refuse an environment that would not accept what another one builds, by what differs."""
    labels = [model_labels(model) for model in built.models.values()]
    differences = [
        line
        for table, model in environment.models.items()
        for line in min((compare_labels(each, model, table) for each in labels), key=len)
    ]
    if built.standby and not environment.standby:
        differences.append(f"[standby] name: found: {built.standby.name}; allowed: not set")
    needed, found = needed_targets(environment), needed_targets(built)
    # An image that is not needed stays where it is. A zip without its artifact is another zip.
    if not {*needed} <= {*found} or ("artifact" in found) != ("artifact" in needed):
        differences.append(f"packages: found: {', '.join(found)}; allowed: {', '.join(needed)}")
    if differences:
        lines = "\n  ".join(differences)
        raise EnvironmentFileError(
            f"{environment.name} would not accept what {built.name} builds:\n  {lines}\n"
            f"found is what {built.file} says, allowed is what "
            f"{environment.file} says; give both the same, or build for "
            f"{environment.name} apart: scripts/build {environment.argument}; nothing was built"
        )


if __name__ == "__main__":
    exit_with(main)
