"""The names of what `cdk bootstrap` created."""

from aws_cdk import DefaultStackSynthesizer, Fn
from constructs import Construct


def bootstrap_value(scope: Construct, text: str) -> str:
    """Return a name or an ARN of `cdk bootstrap`, such as a default of the synthesizer."""
    qualifier = (
        scope.node.try_get_context("@aws-cdk/core:bootstrapQualifier")
        or DefaultStackSynthesizer.DEFAULT_QUALIFIER
    )
    text = text.replace("${Qualifier}", str(qualifier))
    return Fn.sub(text) if "${" in text else text
