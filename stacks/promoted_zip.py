"""The zip that an environment deploys instead of building its own: `scripts/deploy --image`."""

from collections.abc import Mapping
from typing import Any

from aws_cdk import Aws, DefaultStackSynthesizer, FileAssetLocation, Stack

from embedding_kit.artifact_bucket import ARTIFACTS
from stacks.names import artifact_key, zip_key

__all__ = ["PromotedZip"]


class PromotedZip(DefaultStackSynthesizer):
    """Gives the zip's asset, and the artifact's, the address of what is already in the bucket.

    The other files of a stack, such as its template, are published as always.
    """

    def __init__(
        self, bucket: str, digests: Mapping[str, str], *, file_assets_bucket_name: str | None
    ) -> None:
        """Create the synthesizer.

        Args:
            bucket: The bucket with the zip, as a reference to it.
            digests: The digests of the zip and of its artifact, by target.
            file_assets_bucket_name: The bucket of the stack's files; bootstrap's if None.
        """
        super().__init__(file_assets_bucket_name=file_assets_bucket_name)
        self._bucket = bucket
        self._digests = digests

    def use_in(self, stack: Stack) -> None:
        """Prepare for the files of a stack.

        The stack uses a bound copy of a synthesizer that Python created, and jsii calls the methods
        here on the original. They share the list of assets.
        """
        self.bind(stack)

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
