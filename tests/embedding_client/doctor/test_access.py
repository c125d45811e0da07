"""Credentials, and the answers to an unsigned and to a signed request."""

import json

import httpx2
import pytest

from embedding_client.doctor import SkippedError
from embedding_client.doctor.access import (
    CONDITIONS,
    check_credentials,
    check_permissions,
    check_signed,
    check_unsigned,
)

from .conftest import ACCOUNT, ALIAS, FAILED, OK, ROLE, SKIPPED, WARNING, deployed, identify, raises

LATE = {"date": "Sun, 22 Nov 2026 12:10:00 GMT"}


def answering(status, **headers):
    """Return an endpoint that is no server, with one answer."""
    headers |= {"x-request-id": "abc"}
    return lambda request: httpx2.Response(
        404 if request.url.path == "/ready" else status, headers=headers
    )


def test_the_caller_and_the_region_are_named(aws, snapshot):
    """By STS."""
    identify(aws)
    found = check_credentials(snapshot())
    assert found.state == OK
    assert found.found == ("arn:aws:sts::123456789012:assumed-role/caller/me in eu-central-1")


def test_refused_credentials_are_ill(aws, snapshot):
    """With AWS's reason, and how to log in."""
    aws.refuses("sts", "get_caller_identity", "ExpiredToken", "The token is expired")
    found = check_credentials(snapshot())
    assert (found.state, found.found) == (FAILED, "ExpiredToken: The token is expired")
    assert "aws sso login" in found.advice


def test_a_missing_region_is_ill(snapshot):
    """Without it no API can be asked."""
    found = check_credentials(snapshot(environment="dev", url=None, region=None))
    assert (found.state, found.found) == (FAILED, "no region")
    assert "--region" in found.advice


@pytest.mark.parametrize(
    ("status", "state"),
    [(401, OK), (403, OK), (200, FAILED), (400, FAILED), (429, WARNING), (502, WARNING)],
)
def test_an_unsigned_request_must_be_refused(snapshot, status, state):
    """Anything else reached the function, or may have."""
    found = check_unsigned(snapshot(answering(status)))
    assert found.state == state
    assert str(status) in found.found


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"a": 1}', b'{"embedding": 1}'])
def test_an_answer_without_a_vector_is_ill(snapshot, body):
    """Something else answers at this URL, and the checks of vectors are skipped."""
    asked = snapshot(lambda _: httpx2.Response(200, content=body))
    found = check_signed(asked)
    assert (found.state, found.found) == (FAILED, "200 without a vector")
    with pytest.raises(SkippedError, match="no vector in answer"):
        asked.served_space()


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "give one of the endpoint's API keys: --api-key-env VARIABLE"),
        (403, "see permissions below"),
        (429, "no concurrency is left: docs/runbook.md#throttles"),
        (502, "the function crashes or does not start: docs/runbook.md#errors"),
        (504, "the function took too long: docs/runbook.md#durationp99"),
        (500, "docs/runbook.md#url5xx; the log has this request id"),
    ],
)
def test_any_other_answer_is_ill(snapshot, status, advice):
    """With the request's id and where to look."""
    found = check_signed(snapshot(answering(status)))
    assert (found.state, found.found) == (FAILED, f"{status} (request abc)")
    assert found.advice == advice


@pytest.mark.parametrize(
    ("status", "headers", "state"), [(403, {}, WARNING), (403, LATE, FAILED), (502, {}, FAILED)]
)
def test_a_refused_deployer_is_a_warning(snapshot, status, headers, state):
    """Who deploys need not be a caller; a crash or a wrong clock is failed even so."""
    found = check_signed(snapshot(answering(status, **headers), deployer=True))
    assert found.state == state
    clock = "set this machine's clock: it differs from AWS's by 600 s"
    assert (found.advice == clock) == bool(headers)


def test_no_answer_is_ill(snapshot):
    """With the reason, and what to look at: the name, the network and the certificate."""
    found = check_signed(snapshot(raises(httpx2.ConnectError("refused"))))
    assert (found.state, found.found) == (FAILED, "no answer (ConnectError: refused)")
    for word in ("output Url", "DNS", "certificate", "docs/runbook.md#outage"):
        assert word in found.advice
    assert check_unsigned(snapshot(raises(httpx2.ReadTimeout("")))).state == FAILED


URL_ACTION, INVOKE = CONDITIONS


def test_an_answer_is_enough_without_the_function(aws, snapshot):
    """With only a URL and no permission to list stacks, an answered request is enough."""
    identify(aws)
    aws.refuses("cloudformation", "describe_stacks", "AccessDenied")

    def answer(request):
        return httpx2.Response(200 if "authorization" in request.headers else 403)

    found = check_permissions(snapshot(answer))
    assert found.found == "both: a signed request is answered"
    identify(aws)
    aws.refuses("cloudformation", "describe_stacks", "AccessDenied")
    with pytest.raises(SkippedError, match="cloudformation:DescribeStacks"):
        check_permissions(snapshot())


def grants(*actions, principal=ROLE):
    return [
        {"Effect": "Allow", "Action": action, "Principal": {"AWS": principal}} for action in actions
    ]


def permitted(aws, policy, simulated, account=ACCOUNT):
    """Answer with a caller's permissions; None may not be read."""
    deployed(aws, caller={"arn": ROLE, "account": account})
    if policy is None:
        aws.refuses("lambda", "get_policy")
    else:
        aws.answers("lambda", "get_policy", {"Policy": json.dumps({"Statement": policy})})
    if simulated is None:
        aws.refuses("iam", "simulate_principal_policy", "AccessDenied")
    for action, decision in (simulated or {}).items():
        result = {"EvalActionName": action, "EvalDecision": decision}
        aws.answers("iam", "simulate_principal_policy", {"EvaluationResults": [result]})


NO, YES, DENY = "implicitDeny", "allowed", "explicitDeny"
OWN, NONE, OTHER = dict.fromkeys(CONDITIONS, YES), dict.fromkeys(CONDITIONS, NO), "999999999999"


@pytest.mark.parametrize(
    ("policy", "simulated", "account", "missing"),
    [
        (grants(*CONDITIONS), NONE, ACCOUNT, []),
        ([], OWN, ACCOUNT, []),
        (None, OWN, ACCOUNT, []),
        (grants(*CONDITIONS), None, ACCOUNT, []),
        (grants(*CONDITIONS, principal="*"), NONE, ACCOUNT, []),
        (grants(INVOKE), NONE, ACCOUNT, [URL_ACTION]),
        (
            [one | {"Effect": "Deny"} for one in grants(*CONDITIONS)],
            NONE,
            ACCOUNT,
            [URL_ACTION, INVOKE],
        ),
        (grants(URL_ACTION), NONE, ACCOUNT, [INVOKE]),
        (grants(*CONDITIONS, principal=ACCOUNT), NONE, ACCOUNT, [URL_ACTION, INVOKE]),
        (grants(*CONDITIONS), OWN | {URL_ACTION: DENY}, ACCOUNT, [URL_ACTION]),
        (grants(*CONDITIONS), NONE, OTHER, [URL_ACTION, INVOKE]),
        ([], OWN, OTHER, [URL_ACTION, INVOKE]),
        (grants(*CONDITIONS), OWN, OTHER, []),
    ],
)
def test_a_missing_permission_is_named(aws, snapshot, *, policy, simulated, account, missing):
    """Either policy grants it in one account, and both have to across accounts."""
    permitted(aws, policy, simulated, account)
    found = check_permissions(snapshot(answering(500)))
    if missing:
        assert found.state == FAILED
        assert found.found == f"{ROLE} lacks {' and '.join(missing)}"
        assert "[callers]" in found.advice
    else:
        assert (found.state, found.found) == (OK, "both are granted")


UNREAD = "no permission for lambda:GetPolicy, iam:SimulatePrincipalPolicy"


@pytest.mark.parametrize(
    ("status", "deployer", "policy", "simulated", "state", "words"),
    [
        (403, True, [], OWN, FAILED, "both are granted, but a signed request gets 403"),
        (403, True, None, None, WARNING, f"a signed request gets 403; {UNREAD}"),
        (403, False, None, None, FAILED, f"a signed request gets 403; {UNREAD}"),
        (403, True, [], NONE, WARNING, f"{ROLE} lacks"),
        (500, True, None, None, SKIPPED, UNREAD),
    ],
)
def test_a_refused_deployer_may_lack_permissions(
    aws, snapshot, *, status, deployer, policy, simulated, state, words
):
    """A refusal despite the grants has another cause; unreadable permissions are named."""
    permitted(aws, policy, simulated)
    found = check_permissions(snapshot(answering(status), deployer=deployer))
    assert (found.state, found.found.startswith(words)) == (state, True)


def test_the_simulation_has_the_conditions_of_a_url(aws, snapshot):
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
    assert check_permissions(snapshot(answering(500))).found == "both are granted"


def test_without_permission_to_read_a_role_its_path_is_unknown(aws, snapshot):
    """The name in the session is enough for a role without a path."""
    deployed(aws)
    aws.refuses("lambda", "get_policy")
    aws.refuses("iam", "get_role", "AccessDenied")
    for action in CONDITIONS:
        result = {"EvalActionName": action, "EvalDecision": NO}
        aws.answers("iam", "simulate_principal_policy", {"EvaluationResults": [result]})
    assert check_permissions(snapshot(answering(500))).state == SKIPPED
