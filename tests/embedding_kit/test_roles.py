"""Test what each role of an endpoint may and may not do, with a policy evaluator."""

from functools import partial

import pytest

from embedding_kit import Release
from tests.embedding_kit.roles import HOME, STACK, asker, resolved

REGION = "us-east-1"
EMBEDDER = f"arn:aws:lambda:{REGION}:{HOME}:function:embedder"
CHECK = f"arn:aws:lambda:{REGION}:{HOME}:function:check"
OTHER = f"arn:aws:lambda:{REGION}:{HOME}:function:other"
LOGS = f"arn:aws:logs:{REGION}:{HOME}:log-group"


@pytest.fixture(scope="session")
def role_may(endpoint_template, question, may):
    """Return whether a role of the endpoint may do an action on a resource."""
    template = endpoint_template(release=Release(kind="canary"))
    return asker(template, question, may, resolve=partial(resolved, attribute=_arn))


def _arn(name: str, _: str) -> str:
    if "Logs" in name:
        return f"{LOGS}:{'embedder' if 'Embedder' in name else 'check'}:*"
    return EMBEDDER if "EmbedderFunction" in name else CHECK


@pytest.mark.parametrize(
    ("role", "action", "resource"),
    [
        ("EndpointEmbedderRole", "logs:PutLogEvents", f"{LOGS}:embedder:log-stream:s"),
        ("EndpointCheckRole", "logs:PutLogEvents", f"{LOGS}:check:log-stream:s"),
        ("EndpointCheckRole", "lambda:InvokeFunction", f"{EMBEDDER}:live"),
        ("EndpointCheckRole", "lambda:InvokeFunction", f"{EMBEDDER}:12"),
        ("EndpointReleaseRole", "lambda:UpdateAlias", EMBEDDER),
        ("EndpointCheckRole", "lambda:GetAlias", EMBEDDER),
        ("EndpointCheckRole", "cloudformation:DescribeStacks", STACK),
        ("EndpointCheckFrameworkRole", "lambda:InvokeFunction", CHECK),
        ("EndpointCheckFrameworkRole", "logs:PutLogEvents", f"{LOGS}:check:log-stream:s"),
    ],
)
def test_a_role_may_do_its_work(role_may, role, action, resource):
    """Function, check and CodeDeploy have the permissions they need."""
    assert role_may(role, action, resource)


@pytest.mark.parametrize(
    ("role", "action", "resource"),
    [
        ("EndpointEmbedderRole", "logs:PutLogEvents", f"{LOGS}:check:log-stream:s"),
        ("EndpointEmbedderRole", "logs:CreateLogGroup", f"{LOGS}:anything"),
        ("EndpointEmbedderRole", "lambda:InvokeFunction", f"{EMBEDDER}:live"),
        ("EndpointEmbedderRole", "s3:GetObject", "arn:aws:s3:::bucket/key"),
        ("EndpointCheckRole", "lambda:InvokeFunction", EMBEDDER),
        ("EndpointCheckRole", "lambda:InvokeFunction", f"{OTHER}:live"),
        ("EndpointCheckRole", "lambda:UpdateAlias", EMBEDDER),
        ("EndpointReleaseRole", "lambda:UpdateAlias", OTHER),
        ("EndpointReleaseRole", "lambda:UpdateFunctionCode", EMBEDDER),
        ("EndpointReleaseRole", "lambda:InvokeFunction", OTHER),
        ("EndpointReleaseRole", "lambda:InvokeFunction", CHECK),
        ("EndpointCheckRole", "cloudformation:UpdateStack", STACK),
        ("EndpointCheckRole", "cloudformation:DescribeStacks", f"{STACK}2"),
        ("EndpointCheckFrameworkRole", "lambda:InvokeFunction", f"{EMBEDDER}:live"),
    ],
)
def test_a_role_may_do_nothing_else(role_may, role, action, resource):
    """A compromised function can access neither data nor other functions."""
    assert not role_may(role, action, resource)
