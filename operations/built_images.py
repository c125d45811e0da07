"""Print the images of an environment that were built and pushed: the last step of `scripts/build`.

The CDK's command tags each image by what it is made from. So the images of a commit are found by
their tags, and not built again. An environment whose function is a zip has no such images: its zip
is built and uploaded here. With `--check`, the first step, environments are refused that would not
accept the images later.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.environment_file import EnvironmentFileError, load_environment
from embedding_kit.image_identity import compare_labels, model_labels
from operations.built_zip import built_zip
from operations.environment_session import session_for
from operations.image_registry import registry_client
from operations.package_places import needed_targets, place_of, store_stack

__all__ = ["built_images", "check_accepts", "main"]

_ROOT = Path(__file__).parents[1]


def main(arguments: list[str] | None = None) -> int:
    """Print what was built, one a line, for `scripts/deploy --image`; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m operations.built_images", description=__doc__)
    parser.add_argument("environment")
    parser.add_argument("others", nargs="*", help="the environments that get the images later")
    parser.add_argument(
        "--check",
        action="store_true",
        help="only check the environments, and print the stack that the images need first, if any, "
        "or `existing` for an existing repository",
    )
    options = parser.parse_args(arguments)
    folder = _ROOT / "environments"
    try:
        environment = load_environment(options.environment, folder=folder)
        for other in options.others:
            check_accepts(load_environment(other, folder=folder), environment)
        if options.check:
            is_existing = environment.existing is not None and environment.existing.repository
            print(store_stack(environment) or ("existing" if is_existing else ""))
            return 0
        session = session_for(environment)
        if environment.function.package == "zip":
            images = [built_zip(session, environment)]
        else:
            images = built_images(session, environment, _ROOT / "cdk.out")
    except (EnvironmentFileError, FileNotFoundError) as error:
        print(f"error: {error}; nothing was built", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        # The builder has printed why.
        return error.returncode
    except (BotoCoreError, ClientError, ValueError) as error:
        print(f"error: what was built could not be looked up: {error}", file=sys.stderr)
        return 1
    for image in images:
        print(image)
    return 0


def built_images(session: Session, environment: EnvironmentSettings, assembly: Path) -> list[str]:
    """Look the digests of an assembly's images up in the environment's repository.

    Args:
        session: The AWS session; its region is used if the environment has none.
        environment: The environment.
        assembly: The folder with the synthesized stacks.

    Returns:
        The address of each image with its digest; the endpoint's first.
    """
    place = place_of(session, environment)
    tags: dict[str, str] = {}
    for manifest in sorted(assembly.glob("*.assets.json")):
        for entry in json.loads(manifest.read_text())["dockerImages"].values():
            target = entry["source"].get("dockerBuildTarget", "")
            for destination in entry["destinations"].values():
                if destination["repositoryName"] == place.name:
                    tags[target] = destination["imageTag"]
    client = registry_client(session, place)
    images = []
    for _, tag in sorted(tags.items()):
        (found,) = client.describe_images(repositoryName=place.name, imageIds=[{"imageTag": tag}])[
            "imageDetails"
        ]
        images.append(f"{place.uri}@{found['imageDigest']}")
    return images


def check_accepts(environment: EnvironmentSettings, built: EnvironmentSettings) -> None:
    """Check that an environment would accept what another one builds.

    Args:
        environment: The environment that gets it later, by `scripts/deploy NAME --image`.
        built: The environment that builds it.

    Raises:
        EnvironmentFileError: Its settings differ; the message names each.
        FileNotFoundError: A model's folder or file of texts does not exist.
    """
    differences = compare_labels(model_labels(built.model), environment.model)
    needed, found = needed_targets(environment), needed_targets(built)
    # An image that is not needed stays where it is. A zip without its artifact is another zip.
    if not {*needed} <= {*found} or ("artifact" in found) != ("artifact" in needed):
        differences.append(f"packages: found: {', '.join(found)}; allowed: {', '.join(needed)}")
    if differences:
        lines = "\n  ".join(differences)
        raise EnvironmentFileError(
            f"{environment.name} would not accept what {built.name} builds:\n  {lines}\n"
            f"found is what environments/{built.name}.toml says, allowed is what "
            f"environments/{environment.name}.toml says; give both the same, or build for "
            f"{environment.name} apart: scripts/build {environment.name}"
        )


if __name__ == "__main__":
    sys.exit(main())
