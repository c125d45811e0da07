"""Delete old versions, images and indexes that nothing uses: `scripts/prune NAME`.

Kept are the newest ones and everything in use: versions of an alias, with a share of its traffic,
of the deployed stack, of an experiment, or to which `scripts/rollback` would go back; and images
and indexes of any function's version or any server's task in the account and region. Indexes are
only deleted with `removal_policy = "destroy"`. Without `--yes` it only prints what it
would delete.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from botocore.session import Session

from embedding_client.doctor.release import traffic_shares
from embedding_kit.programs import exit_with
from operations.command import command_parser, run_command
from operations.deployed import Deployed, find_deployed
from operations.environment_session import answer_or_none, list_all, session_for
from operations.packages import RepositoryAddress, read_address
from operations.rollback import version_before
from operations.vector_store import (
    delete_indexes,
    find_store,
    function_versions,
    list_versions,
    task_definitions,
    unused_indexes,
)
from stacks.environment import EnvironmentSettings

_KEEP = 3
#: The most images of one request.
#: https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_BatchDeleteImage.html
_IMAGES = 100


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """Versions of a function, digests of images, and ARNs of indexes that nothing uses."""

    function: str
    versions: list[str]
    address: RepositoryAddress
    images: list[str]
    indexes: list[str]

    def __str__(self) -> str:
        versions = [f"version {version} of {self.function}" for version in self.versions]
        images = [f"image {self.address.name}@{digest}" for digest in self.images]
        indexes = [f"index {arn} with its vectors" for arn in self.indexes]
        return "\n".join(versions + images + indexes) or "nothing"

    def __bool__(self) -> bool:
        return bool(self.versions or self.images or self.indexes)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = command_parser("scripts/prune", __doc__)
    parser.add_argument(
        "--keep",
        type=int,
        default=_KEEP,
        metavar="N",
        help=f"keep the newest N versions and images, whether used or not; {_KEEP} by default",
    )
    parser.add_argument("--yes", action="store_true", help="delete; without it, only print")
    return run_command(parser, _prune, arguments, failure="{} could not be pruned")


def _prune(environment: EnvironmentSettings, options: argparse.Namespace) -> None:
    if options.keep < 1:
        raise ValueError(f"--keep: found: {options.keep}; allowed: 1 or more")
    session = session_for(environment)
    plan = make_plan(session, environment, keep=options.keep)
    where = f"in {plan.address.account}, {plan.address.region}"
    print(f"{'Deleting' if options.yes else 'Would delete'} {where}:\n{plan}")
    if options.yes:
        prune(session, environment, plan)
    elif plan:
        print(f"To delete it: scripts/prune {environment.argument} --keep {options.keep} --yes")


def make_plan(session: Session, environment: EnvironmentSettings, *, keep: int) -> PrunePlan:
    """Find what nothing uses, apart from the newest `keep` versions and images. It only reads.

    Raises:
        ValueError: The environment is not deployed, or a release of it is running.
    """
    deployed = find_deployed(session, environment)
    if deployed is None:
        raise ValueError(f"{environment.name} is not deployed; nothing was deleted")
    _require_no_release(deployed)
    versions = _unused_versions(deployed, keep=keep)
    address = read_address(session, environment)
    gone = {(deployed.function, version) for version in versions}
    existing = environment.existing
    # Others may use the images of a repository that is not the kit's.
    is_shared = existing is not None and existing.repository is not None
    images = [] if is_shared else _unused_images(session, address, gone=gone, keep=keep)
    indexes = []
    if environment.index and environment.removal_policy == "destroy":
        store = find_store(session, environment)
        indexes = unused_indexes(session, store, gone=gone) if store else []
    return PrunePlan(
        function=deployed.function,
        versions=versions,
        address=address,
        images=images,
        indexes=indexes,
    )


def prune(session: Session, environment: EnvironmentSettings, plan: PrunePlan) -> None:
    """Delete the versions, then the images and indexes that they were the last to use.

    After an interruption the same command deletes what is left.
    """
    functions = session.create_client("lambda", region_name=environment.region)
    for version in plan.versions:
        functions.delete_function(FunctionName=plan.function, Qualifier=version)
    client = session.create_client("ecr", region_name=environment.region)
    for start in range(0, len(plan.images), _IMAGES):
        answer = client.batch_delete_image(
            repositoryName=plan.address.name,
            imageIds=[{"imageDigest": digest} for digest in plan.images[start : start + _IMAGES]],
        )
        refused = [
            f"{failure['imageId'].get('imageDigest')}: {failure['failureReason']}"
            for failure in answer.get("failures", [])
        ]
        if refused:
            raise ValueError(f"ECR did not delete {'; '.join(refused)}")
    delete_indexes(session, plan.indexes, region=environment.region)


def _require_no_release(deployed: Deployed) -> None:
    if deployed.status.endswith("_IN_PROGRESS") or deployed.running():
        raise ValueError(
            f"a release of {deployed.environment.name} is running ({deployed.status}), and may go "
            "back to an old version; allowed: to prune when it has ended; nothing was deleted"
        )


def _unused_versions(deployed: Deployed, *, keep: int) -> list[str]:
    client, experiment = deployed.client("lambda"), deployed.environment.experiment
    served = deployed.read_alias()["FunctionVersion"]
    published = {version["Version"] for version in list_versions(client, deployed.function)}
    numbers = sorted(published - {"$LATEST"}, key=int)
    used = set(numbers[-keep:])
    for alias in list_all(client, "list_aliases", "Aliases", FunctionName=deployed.function):
        used |= traffic_shares(alias).keys()
    used |= set(deployed.versions_of_stack())
    if experiment:
        used.add(str(experiment.version))
    try:
        used.add(str(version_before(deployed, served)))
    except ValueError:
        # No release has replaced a version, or the alias was changed by other means. Then a
        # rollback needs the version by number, and any may be meant.
        used |= set(numbers)
    return [version for version in numbers if version not in used]


def _unused_images(
    session: Session, address: RepositoryAddress, *, gone: set[tuple[str, str]], keep: int
) -> list[str]:
    client = session.create_client("ecr", region_name=address.region)
    pages = list_all(client, "describe_images", "imageDetails", repositoryName=address.name)
    images: list[dict[str, Any]] = answer_or_none(lambda: list(pages)) or []
    images.sort(key=lambda image: image["imagePushedAt"])
    tasks = [
        container["image"]
        for definition in task_definitions(session, address.region)
        for container in definition["containerDefinitions"]
    ]
    # An address ends with a digest or with a tag.
    used = {
        uri.removeprefix(address.uri)[1:]
        for uri in (*_function_images(session, address, gone), *tasks)
        if uri.startswith((f"{address.uri}@", f"{address.uri}:"))
    }
    return [
        image["imageDigest"]
        for image in images[:-keep]
        if not used & {image["imageDigest"], *image.get("imageTags", [])}
    ]


def _function_images(
    session: Session, address: RepositoryAddress, gone: set[tuple[str, str]]
) -> Iterator[str]:
    """Yield the images of all versions of all functions, without those to be deleted."""
    client = session.create_client("lambda", region_name=address.region)
    for version in function_versions(session, address.region, gone=gone):
        if version.get("PackageType") == "Image":
            code = client.get_function(
                FunctionName=version["FunctionName"], Qualifier=version["Version"]
            )["Code"]
            yield from (code[key] for key in ("ImageUri", "ResolvedImageUri") if key in code)


if __name__ == "__main__":
    exit_with(main)
