"""Print the images of an environment that were built and pushed: the last step of `scripts/build`.

The CDK's command tags each image by what it is made from. So the images of a commit are found by
their tags, and not built again.
"""

import argparse
import json
import sys
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session, get_session

from embedding_kit.environment import Environment
from embedding_kit.environment_file import EnvironmentFileError, load_environment
from stacks.image_registry import registry_client
from stacks.promotion import place_of

__all__ = ["built_images", "main"]

_ROOT = Path(__file__).parents[1]


def main(arguments: list[str] | None = None) -> int:
    """Print `REPOSITORY@DIGEST` of each image, one a line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m stacks.built_images", description=__doc__)
    parser.add_argument("environment")
    parser.add_argument(
        "--check", action="store_true", help="only check that the environment has images"
    )
    options = parser.parse_args(arguments)
    try:
        environment = load_environment(options.environment, folder=_ROOT / "environments")
        _require_image(environment)
        images = (
            [] if options.check else built_images(get_session(), environment, _ROOT / "cdk.out")
        )
    except EnvironmentFileError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (BotoCoreError, ClientError, ValueError) as error:
        print(f"error: the images could not be looked up: {error}", file=sys.stderr)
        return 1
    for image in images:
        print(image)
    return 0


def built_images(session: Session, environment: Environment, assembly: Path) -> list[str]:
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


def _require_image(environment: Environment) -> None:
    if environment.function.package != "image":
        raise EnvironmentFileError(
            f"{environment.name} is deployed as a zip, which each deploy builds; "
            'found: package = "zip"; allowed: package = "image"'
        )


if __name__ == "__main__":
    sys.exit(main())
