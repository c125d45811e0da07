"""Acknowledge findings of cdk-nag, each with a reason."""

from collections.abc import Mapping

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct

__all__ = ["acknowledge"]


def acknowledge(scope: IConstruct, reasons: Mapping[str, str]) -> None:
    """Acknowledge findings on a construct, by the rule of each."""
    for rule, reason in reasons.items():
        Validations.of(scope).acknowledge(Acknowledgment(id=rule, reason=reason))
