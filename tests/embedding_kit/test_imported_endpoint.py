"""Test an endpoint that another app imports: its interface, and its metrics."""

from typing import Any

import pytest
from aws_cdk import App, CfnOutput, CfnParameter, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Match

from embedding_kit import EmbeddingEndpoint, IEmbeddingEndpoint

ALIAS = "arn:aws:lambda:eu-central-1:111122223333:function:embedder:live"
URL = "https://abcdefghij.lambda-url.eu-central-1.on.aws/"


def _imported(stack: Stack, alias_arn: str = ALIAS) -> IEmbeddingEndpoint:
    return EmbeddingEndpoint.from_embedding_endpoint_attributes(
        stack, "Embeddings", alias_arn=alias_arn, url=URL, name="production"
    )


def test_an_endpoint_of_this_app_and_an_imported_one_have_one_interface(synthesize, model):
    """Code that takes an `IEmbeddingEndpoint` works with both, and its own endpoint's ARN."""

    def use(stack: Stack, endpoint: IEmbeddingEndpoint) -> None:
        caller = iam.Role(stack, "Caller", assumed_by=iam.AccountRootPrincipal())
        endpoint.grant_invoke_url(caller)
        CfnOutput(stack, "Where", value=f"{endpoint.url} {endpoint.alias_arn} {endpoint.name}")

    synthesize(lambda stack: use(stack, _imported(stack))).has_output(
        "Where", {"Value": f"{URL} {ALIAS} production"}
    )
    synthesize(
        lambda stack: use(stack, EmbeddingEndpoint(stack, "Own", model=model, name="own"))
    ).has_output("Where", {"Value": {"Fn::Join": ["", Match.array_with([" own"])]}})


@pytest.mark.parametrize("known", [True, False], ids=["text", "parameter"])
def test_the_metrics_have_the_dimensions_of_the_alias(synthesize, known):
    """An ARN that is known at deploy time only is split by CloudFormation."""

    def build(stack: Stack) -> None:
        arn = ALIAS if known else CfnParameter(stack, "Arn").value_as_string
        endpoint = _imported(stack, arn)
        for name, metric in (
            ("Duration", endpoint.metric_duration(statistic="Maximum")),
            ("Texts", endpoint.metric_texts()),
            ("InitDuration", endpoint.metric_init_duration(statistic="Maximum")),
        ):
            cloudwatch.Alarm(stack, name, metric=metric, threshold=1, evaluation_periods=1)

    function: Any = "embedder"
    alias: Any = "embedder:live"
    if not known:
        words = {"Fn::Split": [":", {"Ref": "Arn"}]}
        function, name = ({"Fn::Select": [n, words]} for n in (6, 7))
        alias = {"Fn::Join": ["", [function, ":", name]]}
    template = synthesize(build)
    for namespace, metric, dimensions in (
        ("AWS/Lambda", "Duration", {"FunctionName": function, "Resource": alias}),
        ("EmbeddingKit/production", "Texts", {"FunctionName": function}),
        ("EmbeddingKit/production", "InitDuration", {}),
    ):
        expected = [{"Name": name, "Value": value} for name, value in dimensions.items()]
        template.has_resource_properties(
            "AWS::CloudWatch::Alarm",
            {
                "Namespace": namespace,
                "MetricName": metric,
                "Dimensions": expected or Match.absent(),
            },
        )


def test_a_principal_without_a_policy_cannot_be_granted():
    """Only the endpoint's own stack can permit an account, so the error names the setting."""
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole message is compared
        _imported(Stack(App())).grant_invoke_url(iam.AccountPrincipal("444455556666"))
    assert str(refused.value) == (
        "an imported endpoint can grant a principal only by the principal's own policy; "
        "found: AccountPrincipal; allowed: a role, a user or a group, or to list the principal in "
        "the callers of the endpoint itself"
    )


def test_the_functions_arn_is_refused():
    """A permission on the function would not allow calls of the alias's URL."""
    function = ALIAS.removesuffix(":live")
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole message is compared
        _imported(Stack(App()), function)
    assert str(refused.value) == (
        f"a permission to call the URL names the alias; found: alias_arn = {function}; "
        f"allowed: the ARN of the alias, such as {ALIAS}"
    )
