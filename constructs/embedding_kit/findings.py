"""Acknowledge findings of cdk-nag, each with a reason."""

from collections.abc import Mapping

from aws_cdk import Acknowledgment, Validations
from aws_cdk import aws_lambda as lambda_
from constructs import IConstruct


def acknowledge(scope: IConstruct, reasons: Mapping[str, str]) -> None:
    """Acknowledge findings on a construct, by the rule of each."""
    for rule, reason in reasons.items():
        Validations.of(scope).acknowledge(Acknowledgment(id=rule, reason=reason))


def acknowledge_untraced(scope: IConstruct, tracing: lambda_.Tracing, *rules: str) -> None:
    """Acknowledge that X-Ray traces nothing here, where that is so."""
    if tracing is lambda_.Tracing.DISABLED:
        reason = "X-Ray bills each trace, so the app's own setting turns it on."
        acknowledge(scope, dict.fromkeys(rules, reason))
