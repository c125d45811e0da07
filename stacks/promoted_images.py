"""The images that an environment deploys instead of building its own: `scripts/deploy --image`."""

import re
from collections.abc import Mapping
from typing import Any

from aws_cdk import Aws, DefaultStackSynthesizer, DockerImageAssetLocation

__all__ = ["CONTEXT", "image_synthesizer", "parse_images"]

#: The key of the CDK's context: `-c images=endpoint=sha256:...,batch=sha256:...`.
CONTEXT = "images"
_IMAGES = re.compile(r"[a-z]+=sha256:[0-9a-f]{64}(,[a-z]+=sha256:[0-9a-f]{64})*")
#: The target of the Dockerfile's last stage, which has no name there.
_LAST = "endpoint"


def parse_images(context: object) -> dict[str, str]:
    """Return the digest of each target in the context's value; none without one.

    Raises:
        ValueError: The value has another form.
    """
    if not context:
        return {}
    if not isinstance(context, str) or not _IMAGES.fullmatch(context):
        raise ValueError(
            f"context {CONTEXT}: found: {context!r}; allowed: endpoint=sha256:..., further targets "
            "after commas, as `scripts/deploy NAME --image` sets it"
        )
    return dict(pair.split("=") for pair in context.split(","))


def image_synthesizer(
    repository_name: str, images: Mapping[str, str] | None
) -> DefaultStackSynthesizer:
    """Return what publishes a stack's images into a repository, or takes those that are there.

    Args:
        repository_name: The environment's repository.
        images: The digest of each target, which the repository has; the images are built if empty.
    """
    if images:
        return _PromotedImages(repository_name, images)
    return DefaultStackSynthesizer(image_assets_repository_name=repository_name)


class _PromotedImages(DefaultStackSynthesizer):
    """Gives each image's asset the address of an image that is already there; none is built."""

    def __init__(self, repository_name: str, images: Mapping[str, str]) -> None:
        super().__init__(image_assets_repository_name=repository_name)
        self._repository_name = repository_name
        self._images = images

    def add_docker_image_asset(
        self, *, docker_build_target: str | None = None, **_source: Any
    ) -> DockerImageAssetLocation:
        target = docker_build_target or _LAST
        if target not in self._images:
            raise ValueError(
                f"this environment needs an image of the target {target}; found: "
                f"{', '.join(self._images)}; allowed: --image for each that it needs"
            )
        registry = f"{Aws.ACCOUNT_ID}.dkr.ecr.{Aws.REGION}.{Aws.URL_SUFFIX}"
        return DockerImageAssetLocation(
            image_uri=f"{registry}/{self._repository_name}@{self._images[target]}",
            repository_name=self._repository_name,
        )
