"""The names of what `cdk bootstrap` created."""

from aws_cdk import DefaultStackSynthesizer, Fn
from constructs import Construct


def bootstrap_qualifier(scope: Construct) -> str:
    """Return the qualifier of `cdk bootstrap`, which is a part of all its names."""
    qualifier = scope.node.try_get_context("@aws-cdk/core:bootstrapQualifier")
    return str(qualifier or DefaultStackSynthesizer.DEFAULT_QUALIFIER)


def bootstrap_value(scope: Construct, text: str) -> str:
    """Return a name or an ARN of `cdk bootstrap`, such as a default of the synthesizer."""
    text = text.replace("${Qualifier}", bootstrap_qualifier(scope))
    return Fn.sub(text) if "${" in text else text
