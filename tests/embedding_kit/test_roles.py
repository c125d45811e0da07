"""Test what each role of an endpoint may and may not do, with a policy evaluator."""

from functools import partial

from embedding_kit import Release
from tests.embedding_kit.roles import HOME, STACK, allowed, resolved

REGION = "us-east-1"
EMBEDDER = f"arn:aws:lambda:{REGION}:{HOME}:function:embedder"
CHECK = f"arn:aws:lambda:{REGION}:{HOME}:function:check"
OTHER_FUNCTION = f"arn:aws:lambda:{REGION}:{HOME}:function:other"
LOGS = f"arn:aws:logs:{REGION}:{HOME}:log-group"


def _arn(name: str, _: str) -> str:
    if "Logs" in name:
        return f"{LOGS}:{'embedder' if 'Embedder' in name else 'check'}:*"
    return EMBEDDER if "EmbedderFunction" in name else CHECK


MAY = [
    ("EndpointEmbedderRole", "logs:PutLogEvents", f"{LOGS}:embedder:log-stream:s"),
    ("EndpointCheckRole", "logs:PutLogEvents", f"{LOGS}:check:log-stream:s"),
    ("EndpointCheckRole", "lambda:InvokeFunction", f"{EMBEDDER}:live"),
    ("EndpointCheckRole", "lambda:InvokeFunction", f"{EMBEDDER}:12"),
    ("EndpointReleaseRole", "lambda:UpdateAlias", EMBEDDER),
    ("EndpointCheckRole", "lambda:GetAlias", EMBEDDER),
    ("EndpointCheckRole", "cloudformation:DescribeStacks", STACK),
    ("EndpointCheckFrameworkRole", "lambda:InvokeFunction", CHECK),
    ("EndpointCheckFrameworkRole", "logs:PutLogEvents", f"{LOGS}:check:log-stream:s"),
]
MAY_NOT = [
    ("EndpointEmbedderRole", "logs:PutLogEvents", f"{LOGS}:check:log-stream:s"),
    ("EndpointEmbedderRole", "logs:CreateLogGroup", f"{LOGS}:anything"),
    ("EndpointEmbedderRole", "lambda:InvokeFunction", f"{EMBEDDER}:live"),
    ("EndpointEmbedderRole", "s3:GetObject", "arn:aws:s3:::bucket/key"),
    ("EndpointCheckRole", "lambda:InvokeFunction", EMBEDDER),
    ("EndpointCheckRole", "lambda:InvokeFunction", f"{OTHER_FUNCTION}:live"),
    ("EndpointCheckRole", "lambda:UpdateAlias", EMBEDDER),
    ("EndpointReleaseRole", "lambda:UpdateAlias", OTHER_FUNCTION),
    ("EndpointReleaseRole", "lambda:UpdateFunctionCode", EMBEDDER),
    ("EndpointReleaseRole", "lambda:InvokeFunction", OTHER_FUNCTION),
    ("EndpointReleaseRole", "lambda:InvokeFunction", CHECK),
    ("EndpointCheckRole", "cloudformation:UpdateStack", STACK),
    ("EndpointCheckRole", "cloudformation:DescribeStacks", f"{STACK}2"),
    ("EndpointCheckFrameworkRole", "lambda:InvokeFunction", f"{EMBEDDER}:live"),
]


def test_a_role_may_do_its_work_and_nothing_else(endpoint_template):
    """A compromised function can access neither data nor other functions."""
    template = endpoint_template(release=Release(kind="canary"))
    resolve = partial(resolved, attribute=_arn)
    assert allowed(template, MAY + MAY_NOT, resolve=resolve) == MAY
