"""Images and zips that are deployed instead of being built: `scripts/deploy --image`."""

import re
from collections.abc import Mapping
from typing import Any

from aws_cdk import Aws, DefaultStackSynthesizer, DockerImageAssetLocation, FileAssetLocation

from embedding_kit.image_identity import STANDBY, build_arguments
from embedding_kit.settings import ModelSettings
from embedding_kit.storage import ARTIFACTS
from stacks.environment import EnvironmentSettings
from stacks.names import artifact_key, image_repository, zip_key

#: The key of the CDK's context: `-c images=endpoint=sha256:...,batch=sha256:...`.
CONTEXT = "images"
_IMAGES = re.compile(r"[a-z-]+=sha256:[0-9a-f]{64}(,[a-z-]+=sha256:[0-9a-f]{64})*")
#: The target of the Dockerfile's last stage, which has no name there.
_DEFAULT_TARGET = "endpoint"


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
    settings: EnvironmentSettings, images: Mapping[str, str]
) -> DefaultStackSynthesizer:
    """Return what publishes a stack's images into a repository, or takes those that are there.

    `images` has the digest of each target; one of the standby model begins with `standby-`.
    """
    repository = image_repository(settings)
    if images:
        return _PromotedImages(repository, images, settings.model)
    return DefaultStackSynthesizer(image_assets_repository_name=repository)


class _PromotedImages(DefaultStackSynthesizer):
    """Gives each image's asset the address of an image that is already there; none is built."""

    def __init__(
        self, repository_name: str, images: Mapping[str, str], model: ModelSettings
    ) -> None:
        super().__init__(image_assets_repository_name=repository_name)
        self._repository_name = repository_name
        self._images = images
        self._arguments = build_arguments(model)

    def add_docker_image_asset(
        self,
        *,
        docker_build_target: str | None = None,
        docker_build_args: Mapping[str, str] | None = None,
        **_source: Any,
    ) -> DockerImageAssetLocation:
        target = docker_build_target or _DEFAULT_TARGET
        if docker_build_args != self._arguments:
            target = STANDBY + target
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


class PromotedZip(DefaultStackSynthesizer):
    """Gives the zip's asset, and the artifact's, the address of a file that is in the bucket.

    The other files of a stack, such as its template, are published as always.
    """

    def __init__(
        self, bucket: str, digests: Mapping[str, str], *, file_assets_bucket_name: str | None
    ) -> None:
        """Create the synthesizer; `bucket` is a reference to the bucket with the zip."""
        super().__init__(file_assets_bucket_name=file_assets_bucket_name)
        self._bucket = bucket
        self._digests = digests

    def add_file_asset(
        self,
        *,
        source_hash: str,
        executable: Any = None,
        deploy_time: bool | None = None,
        display_name: str | None = None,
        file_name: str | None = None,
        packaging: Any = None,
    ) -> FileAssetLocation:
        """Return where a file is: a file that a command builds is already there."""
        # jsii passes only the properties that this signature names.
        if executable is None:
            return super().add_file_asset(
                source_hash=source_hash,
                deploy_time=deploy_time,
                display_name=display_name,
                file_name=file_name,
                packaging=packaging,
            )
        target, key = (
            ("artifact", artifact_key) if source_hash.startswith(ARTIFACTS) else ("zip", zip_key)
        )
        if target not in self._digests:
            raise ValueError(
                f"this environment needs the package {target}; found: {', '.join(self._digests)}; "
                "allowed: --image of a zip that `scripts/build` has built for such an environment"
            )
        name = key(self._digests[target])
        return FileAssetLocation(
            bucket_name=self._bucket,
            object_key=name,
            http_url=f"https://{self._bucket}.s3.{Aws.REGION}.{Aws.URL_SUFFIX}/{name}",
            s3_object_url=f"s3://{self._bucket}/{name}",
        )
