"""Delete old versions and images of an environment that nothing uses: `scripts/prune NAME`.

Kept are the newest ones and everything in use: versions of an alias, with a share of its traffic,
of the deployed stack, of an experiment, or to which `scripts/rollback` would go back; and images of
any function's version or any server's task in the account and region. Without `--yes` it only
prints what it would delete.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from embedding_kit.environment import Environment
from embedding_kit.environment_file import load_environment
from embedding_kit.environment_session import session_for
from stacks.deployed import (
    Deployed,
    find_alias,
    find_deployed,
    find_deployment_group,
    versions_of_stack,
)
from stacks.image_registry import Place
from stacks.package_places import place_of
from stacks.rollback import version_before

__all__ = ["Plan", "main", "make_plan", "prune"]

_ENVIRONMENTS = Path(__file__).parents[1] / "environments"
_KEEP = 3
_LATEST = "$LATEST"
#: The most images of one request, and the most services.
#: https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_BatchDeleteImage.html
_IMAGES, _SERVICES = 100, 10


@dataclass(frozen=True, slots=True)
class Plan:
    """What nothing uses: versions of a function, and digests of images in a repository."""

    function: str
    versions: list[str]
    place: Place
    images: list[str]

    def __str__(self) -> str:
        versions = [f"version {version} of {self.function}" for version in self.versions]
        images = [f"image {self.place.name}@{digest}" for digest in self.images]
        return "\n".join(versions + images) or "nothing"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="scripts/prune", description=__doc__)
    parser.add_argument("environment")
    parser.add_argument(
        "--keep",
        type=int,
        default=_KEEP,
        metavar="N",
        help=f"keep the newest N versions and images, whether used or not; {_KEEP} by default",
    )
    parser.add_argument("--yes", action="store_true", help="delete; without it, only print")
    options = parser.parse_args(arguments)
    if options.keep < 1:
        parser.error(f"--keep: found: {options.keep}; allowed: 1 or more")
    try:
        environment = load_environment(options.environment, folder=_ENVIRONMENTS)
        session = session_for(environment)
        plan = make_plan(session, environment, keep=options.keep)
        where = f"in {plan.place.account}, {plan.place.region}"
        print(f"{'Deleting' if options.yes else 'Would delete'} {where}:\n{plan}")
        if options.yes:
            prune(session, environment, plan)
        elif plan.versions or plan.images:
            print(f"To delete it: scripts/prune {environment.name} --keep {options.keep} --yes")
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (BotoCoreError, ClientError) as error:
        print(f"error: {options.environment} could not be pruned: {error}", file=sys.stderr)
        return 1
    return 0


def make_plan(session: Session, environment: Environment, *, keep: int) -> Plan:
    """Find what nothing uses. It only reads.

    Args:
        session: The AWS session; its region is used if the environment has none.
        environment: The environment.
        keep: How many of the newest versions and images are kept, used or not.

    Raises:
        ValueError: The environment is not deployed, or a release of it is running.
    """
    deployed = find_deployed(session, environment)
    if deployed is None:
        raise ValueError(f"{environment.name} is not deployed; nothing was deleted")
    _require_rest(session, environment, deployed)
    versions = _unused_versions(session, environment, deployed, keep=keep)
    place = place_of(session, environment)
    gone = {(deployed.function, version) for version in versions}
    existing = environment.existing
    # Others may use the images of a repository that is not the kit's.
    is_shared = existing is not None and existing.repository is not None
    images = [] if is_shared else _unused_images(session, place, gone=gone, keep=keep)
    return Plan(function=deployed.function, versions=versions, place=place, images=images)


def prune(session: Session, environment: Environment, plan: Plan) -> None:
    """Delete the versions, then the images that they were the last to use.

    After an interruption the same command deletes what is left.

    Raises:
        ValueError: ECR refuses to delete an image.
    """
    functions = session.create_client("lambda", region_name=environment.region)
    for version in plan.versions:
        functions.delete_function(FunctionName=plan.function, Qualifier=version)
    client = session.create_client("ecr", region_name=environment.region)
    for start in range(0, len(plan.images), _IMAGES):
        answer = client.batch_delete_image(
            repositoryName=plan.place.name,
            imageIds=[{"imageDigest": digest} for digest in plan.images[start : start + _IMAGES]],
        )
        refused = [
            f"{failure['imageId'].get('imageDigest')}: {failure['failureReason']}"
            for failure in answer.get("failures", [])
        ]
        if refused:
            raise ValueError(f"ECR did not delete {'; '.join(refused)}")


def _require_rest(session: Session, environment: Environment, deployed: Deployed) -> None:
    group = find_deployment_group(session, environment)
    client = session.create_client("codedeploy", region_name=environment.region)
    if deployed.status.endswith("_IN_PROGRESS") or (group and group.running(client)):
        raise ValueError(
            f"a release of {environment.name} is running ({deployed.status}), and may go back to "
            "an old version; allowed: to prune when it has ended; nothing was deleted"
        )


def _unused_versions(
    session: Session, environment: Environment, deployed: Deployed, *, keep: int
) -> list[str]:
    client = session.create_client("lambda", region_name=environment.region)
    served = find_alias(session, environment, deployed)["FunctionVersion"]
    found = _versions(client, deployed.function)
    numbers = sorted((version for version in found if version != _LATEST), key=int)
    used = set(numbers[-keep:])
    for page in client.get_paginator("list_aliases").paginate(FunctionName=deployed.function):
        for alias in page["Aliases"]:
            routing = alias.get("RoutingConfig") or {}
            used |= {alias["FunctionVersion"], *routing.get("AdditionalVersionWeights", {})}
    used |= set(versions_of_stack(session, environment))
    if environment.experiment:
        used.add(str(environment.experiment.version))
    try:
        used.add(str(version_before(session, environment, served)))
    except ValueError:
        # No release has replaced a version, or the alias was changed by other means. Then a
        # rollback needs the version by number, and any may be meant.
        used |= set(numbers)
    return [version for version in numbers if version not in used]


def _unused_images(
    session: Session, place: Place, *, gone: set[tuple[str, str]], keep: int
) -> list[str]:
    client = session.create_client("ecr", region_name=place.region)
    try:
        pages = client.get_paginator("describe_images").paginate(repositoryName=place.name)
        images = [image for page in pages for image in page["imageDetails"]]
    except ClientError as error:
        if error.response["Error"]["Code"] == "RepositoryNotFoundException":
            return []
        raise
    images.sort(key=lambda image: image["imagePushedAt"])
    # An address ends with a digest or with a tag.
    used = {
        uri.removeprefix(place.uri)[1:]
        for uri in (*_function_images(session, place, gone), *_task_images(session, place))
        if uri.startswith((f"{place.uri}@", f"{place.uri}:"))
    }
    return [
        image["imageDigest"]
        for image in images[:-keep]
        if not used & {image["imageDigest"], *image.get("imageTags", [])}
    ]


def _function_images(session: Session, place: Place, gone: set[tuple[str, str]]) -> Iterator[str]:
    """Yield the images of all versions of all functions, without those to be deleted."""
    client = session.create_client("lambda", region_name=place.region)
    for page in client.get_paginator("list_functions").paginate():
        for function in page["Functions"]:
            if function.get("PackageType") != "Image":
                continue
            name = function["FunctionName"]
            for version in _versions(client, name):
                if (name, version) in gone:
                    continue
                code = client.get_function(FunctionName=name, Qualifier=version)["Code"]
                yield from (code[key] for key in ("ImageUri", "ResolvedImageUri") if key in code)


def _versions(client: Any, function: str) -> list[str]:
    """Return the versions of a function, with its newest code, `$LATEST`."""
    pages = client.get_paginator("list_versions_by_function").paginate(FunctionName=function)
    return [version["Version"] for page in pages for version in page["Versions"]]


def _task_images(session: Session, place: Place) -> Iterator[str]:
    """Yield the images of all task definitions that are active, or that a service still runs."""
    client = session.create_client("ecs", region_name=place.region)
    pages = client.get_paginator("list_task_definitions").paginate(status="ACTIVE")
    definitions = {arn for page in pages for arn in page["taskDefinitionArns"]}
    definitions |= set(_running_definitions(client))
    for arn in sorted(definitions):
        definition = client.describe_task_definition(taskDefinition=arn)["taskDefinition"]
        yield from (container["image"] for container in definition["containerDefinitions"])


def _running_definitions(client: Any) -> Iterator[str]:
    for clusters in client.get_paginator("list_clusters").paginate():
        for cluster in clusters["clusterArns"]:
            pages = client.get_paginator("list_services").paginate(
                cluster=cluster, PaginationConfig={"PageSize": _SERVICES}
            )
            for page in pages:
                if not page["serviceArns"]:
                    continue
                services = client.describe_services(cluster=cluster, services=page["serviceArns"])
                for service in services["services"]:
                    yield service["taskDefinition"]
                    yield from (item["taskDefinition"] for item in service.get("deployments", []))


if __name__ == "__main__":
    sys.exit(main())
