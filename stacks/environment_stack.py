"""The base of an environment's stacks."""

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs

from embedding_kit.account_rules import apply_role_rules, encrypt_logs
from embedding_kit.hosting import Hosting
from stacks.environment import COST_TAG, EnvironmentSettings


class EnvironmentStack(cdk.Stack):
    """A stack with its environment's account, region, tags, protection, key and rules of roles.

    Attributes:
        settings: The environment's settings.
        key: The environment's own key; None without one.
    """

    def __init__(
        self,
        app: cdk.App,
        name: str,
        settings: EnvironmentSettings,
        *,
        title: str,
        synthesizer: cdk.DefaultStackSynthesizer | None = None,
    ) -> None:
        """Create the stack; `title` is in its description."""
        super().__init__(
            app,
            name,
            env=cdk.Environment(account=settings.account, region=settings.region),
            description=f"Embedding Kit, {settings.name}: {title}",
            termination_protection=settings.termination_protection,
            synthesizer=synthesizer,
        )
        self.settings = settings
        self.key: kms.IKey | None = None
        if settings.encryption:
            self.key = kms.Key.from_key_arn(self, "OwnKey", settings.encryption.key)
            encrypt_logs(self, self.key)
        if settings.roles:
            apply_role_rules(self, settings.roles)
        tags = {**settings.tags, COST_TAG: settings.name}
        if "project" not in map(str.lower, tags):
            tags["Project"] = "embedding-kit"
        # Not on the app, because another environment in the same app has other tags.
        for key, value in tags.items():
            cdk.Tags.of(self).add(key, value)

    @property
    def tracing(self) -> lambda_.Tracing:
        """Whether X-Ray traces functions, API and state machines."""
        active = self.settings.observability.tracing
        return lambda_.Tracing.ACTIVE if active else lambda_.Tracing.DISABLED

    def keep_log(self, log_group: logs.ILogGroup) -> None:
        """Keep the log of a program that runs during a deploy, also if that deploy fails.

        The rollback of a first deploy would delete the reason. `operations.left_logs` deletes what
        is left.
        """
        log_group.apply_removal_policy(cdk.RemovalPolicy.RETAIN)

    def hosting(self) -> Hosting:
        """Return where functions of this stack run."""
        existing = self.settings.existing
        return Hosting.in_network(
            self,
            self.settings.network,
            environment_encryption=self.key,
            existing_keys=existing.keys if existing else (),
            tracing=self.tracing,
        )
