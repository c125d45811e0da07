"""Acknowledge findings of cdk-nag, each with a reason."""

from aws_cdk import Acknowledgment, Stack, Validations
from aws_cdk import aws_lambda as lambda_
from constructs import IConstruct


def acknowledge(scope: IConstruct, *rules: str, reason: str) -> None:
    """Acknowledge findings on a construct, by their rules."""
    for rule in rules:
        Validations.of(scope).acknowledge(Acknowledgment(id=rule, reason=reason))


def acknowledge_wildcard(scope: IConstruct, resource: str, *, reason: str) -> None:
    """Acknowledge a wildcard in the ARN of a permission."""
    # As cdk-nag writes it: a reference is its name in angle brackets.
    resolved = Stack.of(scope).resolve(resource)
    words = [resolved] if isinstance(resolved, str) else resolved["Fn::Join"][1]
    shown = "".join(word if isinstance(word, str) else f"<{_name(word)}>" for word in words)
    acknowledge(scope, f"AwsSolutions-IAM5[Resource::{shown}]", reason=reason)


def acknowledge_untraced(scope: IConstruct, tracing: lambda_.Tracing, *rules: str) -> None:
    """Acknowledge that X-Ray traces nothing here, where that is so."""
    if tracing is lambda_.Tracing.DISABLED:
        reason = "X-Ray bills each trace, so the app's own setting turns it on."
        acknowledge(scope, *rules, reason=reason)


def _name(reference: dict[str, str | list[str]]) -> str:
    named = reference.get("Ref") or reference["Fn::GetAtt"]
    return named if isinstance(named, str) else ".".join(named)
