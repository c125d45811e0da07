"""The checks of callers fail if the permissions are wrong."""

import json

import pytest

from tools.rehearsal.deploy.callers import check_answers, check_publishing, make_role
from tools.rehearsal.deploy.calls import send
from tools.rehearsal.deploy.deployed import Outputs
from tools.rehearsal.image.report import Report

REPOSITORY = "images"


@pytest.fixture(scope="module")
def deployed(aws, image) -> Outputs:
    """Create a function, its alias and its URL, with the two permissions of a named role."""
    caller = make_role(aws, "caller")
    make_role(aws, "stranger")
    client = aws.client("lambda")
    client.create_function(
        FunctionName="embedder",
        Role=caller,
        PackageType="Image",
        Code=image("functions:1"),
        Publish=True,
    )
    alias = client.create_alias(FunctionName="embedder", Name="live", FunctionVersion="1")
    url = client.create_function_url_config(
        FunctionName="embedder", Qualifier="live", AuthType="AWS_IAM"
    )
    client.add_permission(
        FunctionName="embedder",
        Qualifier="live",
        StatementId="by-url",
        Action="lambda:InvokeFunctionUrl",
        Principal=caller,
        FunctionUrlAuthType="AWS_IAM",
    )
    client.add_permission(
        FunctionName="embedder",
        Qualifier="live",
        StatementId="function",
        Action="lambda:InvokeFunction",
        Principal=caller,
        InvokedViaFunctionUrl=True,
    )
    return {"Url": url["FunctionUrl"], "AliasArn": alias["AliasArn"]}


@pytest.fixture
def who(aws, deployed):
    """Return the credentials of the two roles."""
    return {
        name: aws.assume(f"arn:aws:iam::{aws.account}:role/{name}")
        for name in ("caller", "stranger")
    }


@pytest.mark.parametrize("statement", ["by-url", "function"])
def test_a_caller_needs_both_permissions(aws, deployed, who, statement):
    """Each alone is refused, as on AWS since October 2025."""
    client = aws.client("lambda")
    where = {"FunctionName": "embedder", "Qualifier": "live"}
    text = {"text": "a"}
    assert send(aws, deployed["Url"], text, who=who["caller"]).status == 200
    policy = json.loads(client.get_policy(**where)["Policy"])
    (removed,) = [each for each in policy["Statement"] if each["Sid"] == statement]
    client.remove_permission(**where, StatementId=statement)
    try:
        assert send(aws, deployed["Url"], text, who=who["caller"]).status == 403
    finally:
        condition = (
            {"FunctionUrlAuthType": "AWS_IAM"}
            if statement == "by-url"
            else {"InvokedViaFunctionUrl": True}
        )
        client.add_permission(
            **where,
            StatementId=statement,
            Action=removed["Action"],
            Principal=f"arn:aws:iam::{aws.account}:role/caller",
            **condition,
        )


def test_a_wide_open_endpoint_breaks_the_report(aws, deployed, who, capsys):
    """The checks fail if the roles are swapped."""
    report = Report(title="")
    check_answers(report, aws, deployed, caller=who["stranger"], stranger=who["caller"])
    broken = {row.checked for row in report.broken}
    assert broken == {
        "the allowed role gets 200 and a vector",
        "another role of the account gets 403",
    }
    capsys.readouterr()


@pytest.mark.parametrize(
    ("actions", "broken"),
    [
        (["ecr:*"], "bootstrap's role may not"),
        (["ecr:PutImage"], "bootstrap's role may Describe"),
    ],
)
def test_a_repository_policy_that_is_too_wide_or_narrow_breaks_the_report(
    aws, deployed, actions, broken, capsys
):
    """The rows about publishing can fail, in both directions."""
    name = f"cdk-hnb659fds-image-publishing-role-{aws.account}-{aws.region}"
    roles = [role["RoleName"] for role in aws.client("iam").list_roles()["Roles"]]
    for missing in {name, "rehearsal-stranger"} - set(roles):
        make_role(aws, missing)
    ecr = aws.client("ecr")
    ecr.create_repository(repositoryName=REPOSITORY)
    principal = {"AWS": f"arn:aws:iam::{aws.account}:role/{name}"}
    statement = {"Effect": "Allow", "Principal": principal, "Action": actions}
    ecr.set_repository_policy(
        repositoryName=REPOSITORY,
        policyText=json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
    )
    report = Report(title="")
    check_publishing(report, aws, REPOSITORY)
    assert [row.checked.startswith(broken) for row in report.broken] == [True]
    capsys.readouterr()
    left = [r["repositoryName"] for r in ecr.describe_repositories()["repositories"]]
    if REPOSITORY in left:
        ecr.delete_repository(repositoryName=REPOSITORY, force=True)
