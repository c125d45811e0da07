"""The base of an environment's stacks."""

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_

from embedding_kit.account_rules import apply_role_rules, encrypt_logs
from embedding_kit.environment import COST_TAG, EnvironmentSettings
from embedding_kit.hosting import Hosting

__all__ = ["EnvironmentStack"]


class EnvironmentStack(cdk.Stack):
    """A stack with its environment's account, region, tags, protection, key and rules of roles.

    Attributes:
        settings: The environment's settings.
        key: The environment's own key; None without one.
        tracing: Whether X-Ray traces functions, API and state machines.
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
        """Create the stack.

        Args:
            app: The app.
            name: The stack's name.
            settings: The environment's settings.
            title: What the stack has, for its description.
            synthesizer: What publishes its files and images; the CDK's default if None.
        """
        super().__init__(
            app,
            name,
            env=cdk.Environment(account=settings.account, region=settings.region),
            description=f"Embedding Kit, {settings.name}: {title}",
            termination_protection=settings.termination_protection,
            synthesizer=synthesizer,
        )
        self.settings = settings
        active = settings.observability.tracing
        self.tracing = lambda_.Tracing.ACTIVE if active else lambda_.Tracing.DISABLED
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

    def hosting(self) -> Hosting:
        """Return where functions of this stack run."""
        return Hosting.in_network(
            self,
            self.settings.network,
            environment_encryption=self.key,
            tracing=self.tracing,
        )
