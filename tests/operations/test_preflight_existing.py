"""Test the check of existing resources before a deploy, against moto and a stub of IAM."""

import pytest
from botocore.session import Session

from operations.preflight import check_existing, check_role_change

from .conftest import HOME, REGION, Stubbed, dev_with

ZIP = {"function": {"package": "zip", "artifact": "s3"}, "cold_start": {"kind": "snapstart"}}
ROLE = f"arn:aws:iam::{HOME}:role/team/embedder"


class _Account(Stubbed):
    """A session with stubs of IAM and Lambda: moto has no simulation of policies."""

    def __init__(self, real: Session) -> None:
        super().__init__()
        self.real = real

    def create_client(self, name, *, region_name):
        assert region_name in {None, REGION}
        if name in {"iam", "lambda", "cloudformation"}:
            return self.stubs[name].client
        return self.real.create_client(name, region_name=REGION)


@pytest.fixture
def account(aws):
    """Return a session of an empty account."""
    account_of_role = _Account(aws)
    yield account_of_role
    account_of_role.done()


@pytest.fixture
def check(account):
    """Return the findings about existing resources."""

    def check(existing: dict, **tables: object) -> list:
        of = dev_with(existing=existing, **tables)
        return list(check_existing(account, of, of.existing))

    return check


def test_a_bucket_whose_objects_expire_is_a_note(account, check):
    """The rule may be for another prefix."""
    s3 = account.create_client("s3", region_name=REGION)
    where = {"LocationConstraint": REGION}
    s3.create_bucket(Bucket="team-artifacts", CreateBucketConfiguration=where)
    assert check({"bucket": "team-artifacts"}, **ZIP) == []
    rule = {"ID": "month", "Status": "Enabled", "Prefix": "", "Expiration": {"Days": 30}}

    def put(**changes: str) -> None:
        s3.put_bucket_lifecycle_configuration(
            Bucket="team-artifacts", LifecycleConfiguration={"Rules": [rule | changes]}
        )

    put(Status="Disabled")
    assert check({"bucket": "team-artifacts"}, **ZIP) == []
    put()
    (finding,) = check({"bucket": "team-artifacts"}, **ZIP)
    assert not finding.stops
    assert "objects expire: month" in finding.text


def _simulated(account, resource: str, decision: str, *actions: str) -> None:
    account.stubs["iam"].add_response(
        "simulate_principal_policy",
        {
            "EvaluationResults": [
                {"EvalActionName": action, "EvalDecision": decision} for action in actions
            ]
        },
        {"PolicySourceArn": ROLE, "ActionNames": list(actions), "ResourceArns": [resource]},
    )


TRACES = ("xray:PutTelemetryRecords", "xray:PutTraceSegments")
LOGS = ("logs:CreateLogStream", "logs:PutLogEvents")
GROUP = f"arn:aws:logs:{REGION}:{HOME}:log-group:/team/embedder:*"


@pytest.mark.parametrize(("decision", "notes"), [("allowed", 0), ("implicitDeny", 1)])
def test_the_role_must_be_allowed_to_write_the_log(account, check, decision, notes):
    """A deploy would succeed without it, and every alarm on the log would stay silent."""
    _simulated(account, GROUP, decision, *LOGS)
    findings = check({"role": "team/embedder", "log_group": "/team/embedder"})
    assert len(findings) == notes
    for finding in findings:
        assert not finding.stops
        assert "may not do logs:CreateLogStream, logs:PutLogEvents" in finding.text
        assert "cdk.out/iam-policy-report.txt" in finding.text


def test_with_tracing_the_role_must_be_allowed_to_send_traces(account, check):
    """Without it, the role needs no permission of X-Ray."""
    _simulated(account, "*", "implicitDeny", *TRACES)
    (finding,) = check({"role": "team/embedder"}, observability={"tracing": True})
    assert not finding.stops
    assert "may not do xray:PutTelemetryRecords, xray:PutTraceSegments on *" in finding.text


@pytest.fixture
def change(account):
    """Return the findings about the deployed role and the file's."""

    def change(deployed: str, **tables: object) -> list:
        account.deployed()
        account.stubs["lambda"].add_response(
            "get_function_configuration",
            {"Role": f"arn:aws:iam::{HOME}:role/{deployed}"},
            {"FunctionName": "embedder", "Qualifier": "live"},
        )
        return list(check_role_change(account, dev_with(**tables)))

    return change


CANARY = {"release": {"kind": "canary"}}
PROVISIONED = {"cold_start": {"kind": "provisioned", "minimum": 1, "maximum": 2}}
OURS = "EmbeddingKit-dev-Endpoint-EndpointEmbedderRole-1A2B"


@pytest.mark.parametrize(
    ("deployed", "tables"),
    [
        (OURS, {"roles": {"path": "/team/"}, **CANARY}),
        (f"other/{OURS}", {"roles": {"path": "/team/"}, **PROVISIONED}),
        (OURS, {"existing": {"role": "team/embedder"}, **CANARY}),
        ("embedder", {"existing": {"role": "team/embedder"}, **CANARY}),
        ("team/embedder", CANARY),
    ],
)
def test_a_changed_role_stops_a_release_with_weights(change, deployed, tables):
    """AWS refuses weights on an alias of two versions with different roles."""
    (finding,) = change(deployed, **tables)
    assert finding.stops
    assert f"the role {deployed} of the deployed version" in finding.text
    assert 'kind = "all-at-once"' in finding.text


@pytest.mark.parametrize(
    ("deployed", "tables"),
    [
        (f"team/{OURS}", {"roles": {"path": "/team/"}, **CANARY}),
        ("team/embedder", {"existing": {"role": "team/embedder"}, **PROVISIONED}),
    ],
)
def test_the_same_role_is_fine(change, deployed, tables):
    """The second deploy with the path or the role shifts traffic as ever."""
    assert change(deployed, **tables) == []


def test_a_release_all_at_once_may_change_the_role(account):
    """It needs no weights, so nothing is looked up."""
    assert list(check_role_change(account, dev_with(roles={"path": "/team/"}))) == []
