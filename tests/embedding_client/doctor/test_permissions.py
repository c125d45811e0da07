"""The doctor finds which of a caller's permissions is missing, and which policy grants them."""

import json

import httpx
import pytest

from embedding_client.doctor.findings import SkippedError, State, warning
from embedding_client.doctor.permissions import (
    CONDITIONS,
    Evidence,
    Principal,
    check_permissions,
    judge_permissions,
)

from .conftest import ACCOUNT, ALIAS, ROLE, deployed, identify

URL_ACTION, INVOKE = CONDITIONS
HERE = Principal(ACCOUNT, ROLE)
THERE = Principal("999999999999", "arn:aws:iam::999999999999:role/caller")


def grant(action, principal=ROLE, effect="Allow", **conditions):
    """Return a statement as the CDK writes it, for a principal or with other conditions."""
    of_url = {"StringEquals": {"lambda:FunctionUrlAuthType": "AWS_IAM"}}
    of_invoke = {"Bool": {"lambda:InvokedViaFunctionUrl": "true"}}
    return {
        "Effect": effect,
        "Action": action,
        "Principal": principal if principal == "*" else {"AWS": principal},
        "Condition": conditions or (of_url if action == URL_ACTION else of_invoke),
    }


def both(principal=ROLE):
    return [grant(action, principal) for action in CONDITIONS]


def decisions(url="implicitDeny", invoke="implicitDeny"):
    return {URL_ACTION: url, INVOKE: invoke}


def test_an_answered_request_proves_both():
    """If a signed request is answered, the caller has both permissions."""
    found = judge_permissions(HERE, Evidence(200, ACCOUNT, None, None, ("lambda:GetPolicy",)))
    assert (found.state, found.found) == (State.OK, "both: a signed request is answered")
    found = judge_permissions(HERE, Evidence(200, ACCOUNT, both(), decisions()))
    assert found.found == "both: a signed request is answered, by the function's policy"


@pytest.mark.parametrize("action", CONDITIONS)
def test_one_missing_permission_is_named(action):
    """If one permission is granted and the other is not, the finding names the other."""
    policy = [statement for statement in both() if statement["Action"] != action]
    found = judge_permissions(HERE, Evidence(403, ACCOUNT, policy, decisions()))
    assert found.state == State.ILL
    assert found.found == (
        f"{ROLE} lacks {action} (neither its own policies nor the function's allow it)"
    )
    assert "[callers]" in found.advice


@pytest.mark.parametrize(
    ("policy", "simulated", "source"),
    [
        (both(), decisions(), "the function's policy"),
        (both("*"), decisions(), "the function's policy"),
        ([], decisions("allowed", "allowed"), "its own policies"),
        (both(ACCOUNT), decisions("allowed", "allowed"), "its own policies"),
        (None, decisions("allowed", "allowed"), "its own policies"),
        (both(), None, "the function's policy"),
    ],
)
def test_in_one_account_either_policy_is_enough(policy, simulated, source):
    """In one account, the role's own policies or the function's policy can grant both."""
    found = judge_permissions(HERE, Evidence(None, ACCOUNT, policy, simulated))
    assert (found.state, found.found) == (State.OK, f"both are granted, by {source}")


@pytest.mark.parametrize("principal", [ACCOUNT, f"arn:aws:iam::{ACCOUNT}:root"])
def test_a_grant_to_the_account_needs_the_roles_own_policies(principal):
    """A function's policy that names the account is not enough without the role's own policies."""
    found = judge_permissions(HERE, Evidence(403, ACCOUNT, both(principal), decisions()))
    assert found.found == (
        f"{ROLE} lacks {URL_ACTION} and {INVOKE} (its own policies do not allow it)"
    )


def test_across_accounts_both_policies_are_needed():
    """A caller of another account needs both its own policies and the function's policy."""
    allowed = decisions("allowed", "allowed")
    account = f"arn:aws:iam::{THERE.account}:root"
    for policy, simulated, why in (
        ([], allowed, "the function's policy does not allow it"),
        (both(account), decisions(), "its own policies do not allow it"),
    ):
        found = judge_permissions(THERE, Evidence(403, ACCOUNT, policy, simulated))
        assert (found.state, why in found.found) == (State.ILL, True)
    found = judge_permissions(THERE, Evidence(None, ACCOUNT, both(account), allowed))
    assert found.found == "both are granted, by its own policies and the function's"


def test_a_denial_wins():
    """An explicit denial in either policy overrides each grant."""
    found = judge_permissions(
        HERE, Evidence(403, ACCOUNT, both(), decisions("explicitDeny", "allowed"))
    )
    assert found.found == f"{ROLE} lacks {URL_ACTION} (its own policies deny it)"
    denied = [*both(), grant(INVOKE, "*", effect="Deny")]
    found = judge_permissions(HERE, Evidence(403, ACCOUNT, denied, decisions("allowed", "allowed")))
    assert found.found == f"{ROLE} lacks {INVOKE} (the function's policy denies it)"


def test_conditions_count():
    """A statement for direct invocations, or with an unknown condition, grants nothing."""
    for conditions in (
        {"Bool": {"lambda:InvokedViaFunctionUrl": "false"}},
        {"StringEquals": {"aws:SourceVpc": "vpc-1"}},
    ):
        policy = [grant(URL_ACTION), grant(INVOKE, **conditions)]
        found = judge_permissions(HERE, Evidence(403, ACCOUNT, policy, decisions()))
        assert found.data["missing"] == [INVOKE]
    organization = {"StringEquals": {"aws:PrincipalOrgID": "o-1"}}
    policy = [grant(action, "*", **organization) for action in CONDITIONS]
    assert judge_permissions(HERE, Evidence(None, ACCOUNT, policy, None)).state == State.OK


def test_both_granted_and_403_has_another_cause():
    """If both are granted and the answer is 403, the advice names other policies."""
    found = judge_permissions(HERE, Evidence(403, ACCOUNT, both(), decisions()))
    assert (found.state, found.found) == (
        State.ILL,
        "both are granted, by the function's policy, but a signed request gets 403",
    )
    assert "service control policies" in found.advice


def test_what_may_not_be_read_is_named():
    """The finding names the actions that the doctor may not call."""
    unread = ("lambda:GetPolicy", "iam:SimulatePrincipalPolicy")
    refused = judge_permissions(HERE, Evidence(403, ACCOUNT, None, None, unread))
    silent = judge_permissions(HERE, Evidence(None, ACCOUNT, None, None, unread))
    assert (refused.state, silent.state) == (State.ILL, State.SKIPPED)
    for found in (refused, silent):
        assert "no permission for lambda:GetPolicy, iam:SimulatePrincipalPolicy" in found.found


def test_a_refused_deployer_is_a_warning():
    """A role that deploys need not be a caller, so its 403 is only a warning."""
    for policy, simulated, state in (
        ([], decisions(), State.WARNING),
        (None, None, State.WARNING),
        (both(), decisions(), State.ILL),
    ):
        evidence = Evidence(403, ACCOUNT, policy, simulated)
        assert judge_permissions(HERE, evidence, refused=warning).state == state


def test_the_simulation_has_the_conditions_of_a_url(aws, facts):
    """IAM simulates the role behind the session, with the conditions of a request by the URL."""
    role = f"arn:aws:iam::{ACCOUNT}:role/team/caller"
    deployed(aws)
    aws.answers("lambda", "get_policy", {"Policy": json.dumps({"Statement": []})})
    made = {"Path": "/team/", "RoleName": "caller", "RoleId": "a" * 16, "Arn": role}
    aws.answers("iam", "get_role", {"Role": made | {"CreateDate": 0}}, {"RoleName": "caller"})
    for action, (key, kind, value) in CONDITIONS.items():
        entry = {"ContextKeyName": key, "ContextKeyType": kind, "ContextKeyValues": [value]}
        aws.answers(
            "iam",
            "simulate_principal_policy",
            {"EvaluationResults": [{"EvalActionName": action, "EvalDecision": "allowed"}]},
            {
                "PolicySourceArn": role,
                "ActionNames": [action],
                "ResourceArns": [ALIAS],
                "ContextEntries": [entry],
            },
        )
    found = check_permissions(facts(lambda _: httpx.Response(200)))
    assert found.found == "both: a signed request is answered, by its own policies"


def test_without_permission_to_look_the_answer_decides(aws, facts):
    """If no policy can be read, a 403 is ill, and the finding names the missing actions."""
    deployed(aws)
    aws.refuses("lambda", "get_policy")
    aws.refuses("iam", "get_role", "AccessDenied")
    aws.refuses("iam", "simulate_principal_policy", "AccessDenied")
    found = check_permissions(facts())
    assert found.state == State.ILL
    assert "lambda:GetPolicy, iam:SimulatePrincipalPolicy" in found.found


def test_an_answer_is_enough_without_the_function(aws, facts):
    """With only a URL and no permission to list stacks, an answered request is enough."""
    identify(aws)
    aws.refuses("cloudformation", "describe_stacks", "AccessDenied")

    def answer(request):
        return httpx.Response(200 if "authorization" in request.headers else 403)

    found = check_permissions(facts(answer))
    assert found.found == "both: a signed request is answered"
    identify(aws)
    aws.refuses("cloudformation", "describe_stacks", "AccessDenied")
    with pytest.raises(SkippedError, match="cloudformation:DescribeStacks"):
        check_permissions(facts())
