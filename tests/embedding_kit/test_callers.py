"""Test who may call: a policy evaluator judges the synthesized statements."""

import json
from functools import partial
from typing import Any, cast

import pytest
from aws_cdk import App, CfnElement, Stack
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template

from embedder.http.search_prefixes import SearchPrefixes
from embedding_kit import Callers, EmbeddingEndpoint, Experiment
from tests.embedding_kit.endpoints import make_endpoint
from tests.embedding_kit.roles import HOME, allowed, allowed_by, of_kind, resolved, statements

FUNCTION = f"arn:aws:lambda:us-east-1:{HOME}:function:embedder"
LIVE = f"{FUNCTION}:live"
ROLE = "arn:aws:iam::111122223333:role/search"
OTHER_ROLE_THERE = "arn:aws:iam::111122223333:role/other"
ROLE_AT_HOME = f"arn:aws:iam::{HOME}:role/search"
USER = "arn:aws:iam::111122223333:user/search"
UNIT = "o-a1b2c3d4e5/r-ab12/ou-ab12-11111111"
ELSEWHERE = "arn:aws:iam::999988887777:role/search"
#: The permissions that a caller's own account must grant if it differs from the endpoint's.
IDENTITY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "lambda:*", "Resource": "*"}],
}


@pytest.fixture
def may_call(endpoint_template):
    """Return whether a principal may call a URL, which needs both of its permissions."""

    def ask(callers: Callers, principal: str, *, resource: str = LIVE, **context: str) -> bool:
        policy = _resource_policy(endpoint_template(callers=callers))
        questions = [
            (principal, action, resource, condition | context)
            for action, condition in (
                ("lambda:InvokeFunctionUrl", {"lambda:FunctionUrlAuthType": "AWS_IAM"}),
                ("lambda:InvokeFunction", {"lambda:InvokedViaFunctionUrl": "true"}),
            )
        ]
        identity = [IDENTITY] if HOME not in principal else []
        return allowed_by(questions, identity=identity, resource_policy=policy) == questions

    return ask


def _resource_policy(template: Any) -> dict[str, Any]:
    """Write the permissions as Lambda does: as one resource policy on the alias."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            _statement(permission) for permission in of_kind(template, "AWS::Lambda::Permission")
        ],
    }


def _statement(permission: dict[str, Any]) -> dict[str, Any]:
    principal = permission["Principal"]
    if principal.isdecimal():
        principal = f"arn:aws:iam::{principal}:root"
    conditions: dict[str, dict[str, str]] = {}
    if "PrincipalOrgID" in permission:
        conditions["StringEquals"] = {"aws:PrincipalOrgID": permission["PrincipalOrgID"]}
    if "FunctionUrlAuthType" in permission:
        conditions.setdefault("StringEquals", {})["lambda:FunctionUrlAuthType"] = permission[
            "FunctionUrlAuthType"
        ]
    if permission.get("InvokedViaFunctionUrl"):
        conditions["Bool"] = {"lambda:InvokedViaFunctionUrl": "true"}
    return {
        "Effect": "Allow",
        "Principal": {"AWS": principal},
        "Action": permission["Action"],
        "Resource": LIVE,
        "Condition": conditions,
    }


OURS = {"aws:PrincipalOrgID": "o-a1b2c3d4e5"}


@pytest.mark.parametrize(
    ("listed", "principal", "context", "allowed"),
    [
        (ROLE, ROLE, {}, True),
        (ROLE_AT_HOME, ROLE_AT_HOME, {}, True),
        ("111122223333", ROLE, {}, True),
        ("111122223333", OTHER_ROLE_THERE, {}, True),
        ("111122223333", USER, {}, True),
        (USER, USER, {}, True),
        ("o-a1b2c3d4e5", ELSEWHERE, OURS, True),
        ("o-a1b2c3d4e5", ELSEWHERE, {"aws:PrincipalOrgID": "o-zzzzzzzzzz"}, False),
        (ROLE, OTHER_ROLE_THERE, {}, False),
        (ROLE, ELSEWHERE, {}, False),
        (ROLE, ROLE_AT_HOME, {}, False),
        ("111122223333", ELSEWHERE, {}, False),
        (USER, ROLE, {}, False),
    ],
)
def test_a_listed_caller_may_call_and_nobody_else(may_call, listed, principal, context, allowed):
    """A role, a user, or any of an account or an organization, whatever their account allows."""
    assert may_call(Callers(principals=(listed,)), principal, **context) == allowed


@pytest.mark.parametrize(
    "principal",
    [
        "*",
        f"{ROLE}*",
        f"{ROLE} ",
        f" {ROLE}",
        f"{HOME}0",
        f"x{HOME}",
        "arn:aws:iam::*:role/search",
        f"arn:aws:iam::{HOME}:root",
        f"arn:aws:iam::{HOME}:group/search",
        "o-a1b2c3d4e5/*",
    ],
)
def test_who_is_none_of_these_is_refused(principal):
    """The pattern is for the whole text: a policy would take a part of it for others."""
    for named in ({"principals": (principal,)}, {"prefixes": {principal: "acme/"}}):
        with pytest.raises(ValueError, match="should match pattern"):
            Callers.model_validate(named)


@pytest.mark.parametrize(
    "resource",
    [FUNCTION, f"{FUNCTION}:candidate", f"{FUNCTION}:7"],
    ids=["function", "alias", "version"],
)
def test_the_caller_may_reach_the_alias_only(may_call, resource):
    """The unqualified function, another alias and a version are not accessible."""
    assert not may_call(Callers(principals=(ROLE,)), ROLE, resource=resource)


@pytest.mark.parametrize("invoke", [False, True])
def test_a_caller_may_invoke_past_the_url_only_if_listed_so(endpoint_template, invoke):
    """A plain Invoke needs `invoke`, and reaches the alias only."""
    policy = _resource_policy(endpoint_template(callers=Callers(principals=(ROLE,), invoke=invoke)))
    candidate = f"{FUNCTION}:candidate"
    plain = {"lambda:InvokedViaFunctionUrl": "false"}
    cases = [
        (principal, "lambda:InvokeFunction", resource, plain)
        for principal, resource in (
            (ROLE, LIVE),
            (OTHER_ROLE_THERE, LIVE),
            (ROLE, FUNCTION),
            (ROLE, candidate),
        )
    ]
    answered = allowed_by(cases, identity=[IDENTITY], resource_policy=policy)
    assert answered == cases[: int(invoke)]


@pytest.mark.parametrize("own", [True, False], ids=["of this app", "imported"])
@pytest.mark.parametrize("grant", ["grant_invoke_url", "grant_invoke"])
def test_a_granted_role_may_call_the_alias_alone(synthesize, model, grant, own):
    """By its URL or by Lambda's Invoke: no other alias, no version, and not the function."""

    def build(stack: Stack) -> None:
        endpoint = (
            EmbeddingEndpoint(stack, "Endpoint", model=model)
            if own
            else EmbeddingEndpoint.from_embedding_endpoint_attributes(
                stack, "Endpoint", alias_arn=LIVE, url="https://x.example.com/", name="other"
            )
        )
        role = iam.Role(stack, "Caller", assumed_by=iam.AccountRootPrincipal())
        getattr(endpoint, grant)(role).assert_success()

    signed = {"lambda:FunctionUrlAuthType": "AWS_IAM"}
    url, via_url, plain, *_ = cases = [
        ("Caller", "lambda:InvokeFunctionUrl", LIVE, signed),
        ("Caller", "lambda:InvokeFunction", LIVE, {"lambda:InvokedViaFunctionUrl": "true"}),
        ("Caller", "lambda:InvokeFunction", LIVE, {}),
        ("Caller", "lambda:InvokeFunctionUrl", f"{FUNCTION}:candidate", signed),
        ("Caller", "lambda:InvokeFunction", f"{FUNCTION}:candidate", {}),
        ("Caller", "lambda:InvokeFunction", FUNCTION, {}),
        ("Caller", "lambda:UpdateFunctionCode", FUNCTION, {}),
    ]
    # A reference to an alias is its ARN.
    resolve = partial(resolved, one=LIVE)
    answered = allowed(synthesize(build), cases, resolve=resolve)
    assert answered == ([via_url, plain] if grant == "grant_invoke" else [url, via_url])


#: The unit, and one below; the root, another, one with a longer name, and another organization.
IN_UNIT = (f"{UNIT}/", f"{UNIT}/ou-ab12-22222222/")
ELSEWHERE_IN_ORGANIZATIONS = (
    "o-a1b2c3d4e5/r-ab12/",
    "o-a1b2c3d4e5/r-ab12/ou-ab12-33333333/",
    f"{UNIT}1/",
    "o-zzzzzzzzzz/r-ab12/ou-ab12-11111111/",
)


def test_principals_of_an_organizational_unit_assume_a_role(endpoint_template):
    """The role trusts the unit and those below it, and no other part of any organization."""
    template = endpoint_template(callers=Callers(principals=(UNIT,)))
    (trust,) = (
        role["Properties"]["AssumeRolePolicyDocument"]
        for name, role in template.find_resources("AWS::IAM::Role").items()
        if "CallerRole" in name
    )
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}
    role = f"arn:aws:iam::{HOME}:role/caller"
    inside, outside = (
        [(ELSEWHERE, "sts:AssumeRole", role, {"aws:PrincipalOrgPaths": [path]}) for path in paths]
        for paths in (IN_UNIT, ELSEWHERE_IN_ORGANIZATIONS)
    )
    identity = [{"Version": "2012-10-17", "Statement": [statement]}]
    assert allowed_by(inside + outside, identity=identity, resource_policy=trust) == inside


@pytest.mark.parametrize("invoke", [False, True])
def test_the_role_of_units_may_do_what_a_caller_may(endpoint_template, invoke):
    """It has the statements of a caller on the alias, and no permission names it."""
    template = endpoint_template(callers=Callers(principals=(UNIT,), invoke=invoke))
    assert not template.find_resources("AWS::Lambda::Permission")
    granted = statements(template, "EndpointCallerRole")
    (alias,) = template.find_resources("AWS::Lambda::Alias")
    assert all(statement["Resource"] == {"Ref": alias} for statement in granted)
    assert [(statement["Action"], statement.get("Condition")) for statement in granted] == [
        ("lambda:InvokeFunctionUrl", {"StringEquals": {"lambda:FunctionUrlAuthType": "AWS_IAM"}}),
        ("lambda:InvokeFunction", {"Bool": {"lambda:InvokedViaFunctionUrl": True}}),
        *([("lambda:InvokeFunction", None)] if invoke else []),
    ]


def _callers(count: int, *, path: str, invoke: bool) -> Callers:
    roles = tuple(f"arn:aws:iam::111122223333:role/{path}{number:03}" for number in range(count))
    return Callers(principals=(*roles, "444455556666"), invoke=invoke)


@pytest.mark.parametrize(
    ("path", "invoke", "most"),
    [("search", False, 21), ("search", True, 13), (f"{'team/' * 20}search", False, 17)],
)
def test_more_callers_than_a_policy_takes_are_refused(endpoint_template, path, invoke, most):
    """The most that are accepted fit, with the longest names, into Lambda's 20 KB."""
    fitting = _callers(most, path=path, invoke=invoke)
    policy = _resource_policy(endpoint_template(callers=fitting))
    name = "n" * 64
    for statement in policy["Statement"]:
        statement["Sid"] = "s" * 100
        statement["Resource"] = f"arn:aws:lambda:ap-southeast-1:{HOME}:function:{name}:candidate"
    assert 17_000 < len(json.dumps(policy, separators=(",", ":"))) < 19_480
    with pytest.raises(ValueError, match=rf"found: {most + 2} callers, which need about") as error:
        _callers(most + 1, path=path, invoke=invoke)
    assert "the policy of an alias takes 20,480 bytes" in str(error.value)


def test_a_caller_with_a_prefix_may_call_and_is_named_to_the_function(may_call, endpoint_template):
    """Of the others, only roles and users search; accounts cannot be told from an event."""
    callers = Callers(principals=(USER, "444455556666"), prefixes={ROLE: "acme/"})
    assert may_call(callers, ROLE)
    assert not may_call(callers, OTHER_ROLE_THERE)
    template = endpoint_template(callers=callers)
    limits, *further_limits = (
        variables["EMBEDDING_SEARCH_PREFIXES"]
        for function in of_kind(template, "AWS::Lambda::Function")
        for variables in [function.get("Environment", {}).get("Variables", {})]
        if "EMBEDDING_SEARCH_PREFIXES" in variables
    )
    assert not further_limits
    assert json.loads(limits) == {"": [USER], "acme/": [ROLE]}
    SearchPrefixes(limits)
    # CloudFormation grants the permission when the alias serves a version that has the limits.
    (alias,) = template.find_resources("AWS::Lambda::Alias")
    for permission in of_kind(template, "AWS::Lambda::Permission"):
        assert permission["FunctionName"] == {"Ref": alias}


def test_a_role_of_the_app_is_granted_a_prefix(model):
    """The function gets its ARN; a prefix that is no first folder is refused."""
    stack = Stack(App(), "Search")
    endpoint = EmbeddingEndpoint(stack, "Endpoint", model=model)
    role = iam.Role(stack, "Role", assumed_by=iam.AccountRootPrincipal())
    for prefix in ("acme", "/acme/", "acme/a/", "/"):
        with pytest.raises(ValueError, match="allowed: the first folder of documents and a slash"):
            endpoint.grant_search(role, prefix=prefix)
    endpoint.grant_search(role, prefix="acme/")
    with pytest.raises(ValueError, match="a caller has one limit"):
        endpoint.grant_search(role, prefix="other/")
    invoking = Callers(principals=(USER,), invoke=True)
    with pytest.raises(ValueError, match=r"found: .*invoke = true"):
        endpoint.add_callers(invoking)
    second_endpoint = EmbeddingEndpoint(Stack(), "Endpoint", model=model)
    second_endpoint.add_callers(invoking)
    with pytest.raises(ValueError, match=r"found: .*invoke = true"):
        second_endpoint.grant_search(role, prefix="acme/")
    template = Template.from_stack(stack)
    name = stack.get_logical_id(cast("CfnElement", role.node.default_child))
    limits = {"Fn::Join": ["", ['{"acme/":["', {"Fn::GetAtt": [name, "Arn"]}, '"]}']]}
    template.has_resource_properties(
        "AWS::Lambda::Function",
        {"Environment": {"Variables": {"EMBEDDING_SEARCH_PREFIXES": limits}}},
    )


def test_an_experiment_has_no_limits_of_callers(model):
    """Its version may have been published without them."""
    limited = Callers(prefixes={ROLE: "acme/"})
    with pytest.raises(ValueError, match="found: an experiment with such limits; allowed: one of"):
        make_endpoint(Stack(), model=model, callers=limited, experiment=Experiment(version=3))
