"""The base of an environment's stacks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_

from embedding_kit.account_rules import apply_role_rules, encrypt_logs
from embedding_kit.environment import COST_TAG, EnvironmentSettings
from embedding_kit.hosting import Hosting
from embedding_kit.settings import NetworkSettings, RoleRules
from stacks.names import (
    artifact_bucket_name,
    artifact_stack_name,
    image_repository,
    stacks_of_file,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """What the stacks of an environment share, resolved once, before the first of them.

    Attributes:
        name: The environment's name.
        place: Its account and region; the deploying shell's if unset.
        tags: The tags of all resources, the kit's own included.
        termination_protection: Whether the stacks have it.
        removal_policy: What becomes of images, logs and vectors when the stacks are destroyed.
        tracing: Whether X-Ray traces functions, API and state machines.
        network: The VPC of functions; None for none.
        key_arn: The environment's own KMS key; None without one.
        existing_keys: The KMS keys of buckets and secrets that settings name.
        role_rules: Rules for all IAM roles; None without any.
        role: An existing role of the function that serves requests, by name; None for a new one.
        log_group: Its existing log group, by name; None for a new one.
        repository: The name of the image repository, the kit's or an existing one.
        bucket: The name of the bucket of an artifact in S3, the kit's or an existing one; None
            without such an artifact.
        stacks: The names of the stacks that the environment's file has, in the order of a deploy.
        images: The digests of images and zips to deploy instead of building them, by target.
    """

    name: str
    place: cdk.Environment
    tags: Mapping[str, str]
    termination_protection: bool
    removal_policy: cdk.RemovalPolicy
    tracing: lambda_.Tracing
    network: NetworkSettings | None
    key_arn: str | None
    existing_keys: Sequence[str]
    role_rules: RoleRules | None
    role: str | None
    log_group: str | None
    repository: str
    bucket: str | None
    stacks: list[str]
    images: Mapping[str, str]

    @classmethod
    def of(cls, settings: EnvironmentSettings, images: Mapping[str, str]) -> Self:
        """Resolve what an environment's stacks share."""
        tags = {**settings.tags, COST_TAG: settings.name}
        if "project" not in map(str.lower, tags):
            tags["Project"] = "embedding-kit"
        active = settings.observability.tracing
        existing = settings.existing
        repository = image_repository(settings)
        stacks = stacks_of_file(settings)
        # Settings that name a bucket are refused without an artifact in S3.
        bucket = existing.bucket if existing else None
        if artifact_stack_name(settings.name) in stacks:
            bucket = artifact_bucket_name(
                settings.name, account=settings.account, region=settings.region
            )
        return cls(
            name=settings.name,
            place=cdk.Environment(account=settings.account, region=settings.region),
            tags=tags,
            termination_protection=settings.termination_protection,
            removal_policy=cdk.RemovalPolicy[settings.removal_policy.upper()],
            tracing=lambda_.Tracing.ACTIVE if active else lambda_.Tracing.DISABLED,
            network=settings.network,
            key_arn=settings.encryption.key if settings.encryption else None,
            existing_keys=existing.keys if existing else (),
            role_rules=settings.roles,
            role=existing.role if existing else None,
            log_group=existing.log_group if existing else None,
            repository=repository,
            bucket=bucket,
            stacks=stacks,
            images=images,
        )


class EnvironmentStack(cdk.Stack):
    """A stack with its environment's account, region, tags, protection, key and rules of roles.

    Attributes:
        foundation: What it shares with the environment's other stacks.
        key: The environment's own key; None without one.
    """

    def __init__(
        self,
        app: cdk.App,
        name: str,
        foundation: Foundation,
        *,
        title: str,
        synthesizer: cdk.DefaultStackSynthesizer | None = None,
    ) -> None:
        """Create the stack.

        Args:
            app: The app.
            name: The stack's name.
            foundation: What it shares with the environment's other stacks.
            title: What the stack has, for its description.
            synthesizer: What publishes its files and images; the CDK's default if None.
        """
        super().__init__(
            app,
            name,
            env=foundation.place,
            description=f"Embedding Kit, {foundation.name}: {title}",
            termination_protection=foundation.termination_protection,
            synthesizer=synthesizer,
        )
        self.foundation = foundation
        self.key: kms.IKey | None = None
        if foundation.key_arn:
            self.key = kms.Key.from_key_arn(self, "OwnKey", foundation.key_arn)
            encrypt_logs(self, self.key)
        if foundation.role_rules:
            apply_role_rules(self, foundation.role_rules)
        # Not on the app, because another environment in the same app has other tags.
        for key, value in foundation.tags.items():
            cdk.Tags.of(self).add(key, value)

    def hosting(self) -> Hosting:
        """Return where functions of this stack run."""
        return Hosting.in_network(
            self,
            self.foundation.network,
            environment_encryption=self.key,
            existing_keys=self.foundation.existing_keys,
            tracing=self.foundation.tracing,
        )
