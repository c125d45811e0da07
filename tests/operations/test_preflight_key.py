"""Test the check of an environment's own key before a deploy, against moto's KMS and ECR."""

import copy
import json
from typing import Any

import pytest

from operations.preflight import check_key
from stacks.environment import EnvironmentSettings
from stacks.key_policy import needed_statements

from .conftest import HOME, REGION, dev_with

#: All that have a statement of their own.
TABLES: dict[str, Any] = {"budget": {"monthly_usd": 10.0}, "index": {}, "ingest": {}}


@pytest.fixture
def kms(aws):
    return aws.create_client("kms", region_name=REGION)


@pytest.fixture
def key(kms):
    """Return the ARN of a key with KMS's default policy."""
    return kms.create_key()["KeyMetadata"]["Arn"]


def environment(key: str, **tables: object) -> EnvironmentSettings:
    defaults = {"encryption": {"key": key}, "alarms": {"emails": ["ops@example.com"]}}
    return dev_with(**defaults | tables)


@pytest.fixture
def check(aws):
    """Return the findings about an environment."""

    def check(of: EnvironmentSettings) -> list:
        return list(check_key(aws, of, of.encryption))

    return check


def allow(
    kms,
    key: str,
    of: EnvironmentSettings,
    *,
    without: str = "",
    denied: bool = False,
    **changed: object,
) -> None:
    """Give the key the statements of the environment, as the page says; one may be a denial."""
    statements = needed_statements(of, partition="aws", region=REGION, account=HOME)
    policy_statements = [
        copy.deepcopy(statement)
        for statement in statements
        if statement["Sid"] != without or denied
    ]
    for statement in policy_statements:
        if statement["Sid"] == without:
            statement["Effect"] = "Deny"
    for statement in policy_statements:
        statement.update({name: value for name, value in changed.items() if name in statement})
    policy = {"Version": "2012-10-17", "Statement": policy_statements}
    kms.put_key_policy(KeyId=key, PolicyName="default", Policy=json.dumps(policy))


def test_a_key_with_the_pages_policy_is_fine(kms, key, check):
    """With all parts that have a statement of their own."""
    of = environment(key, **TABLES)
    allow(kms, key, of)
    assert check(of) == []


def test_the_default_policy_of_a_key_is_not_enough(key, check):
    """The services of logs and alarms are no roles of the account."""
    findings = check(environment(key))
    assert [finding.stops for finding in findings] == [True, True]
    assert '"Service": "logs.eu-central-1.amazonaws.com"' in findings[0].text
    assert '"Service": "cloudwatch.amazonaws.com"' in findings[1].text
    assert all("lacks a statement (docs/security.md)" in finding.text for finding in findings)


@pytest.mark.parametrize("denied", [False, True])
@pytest.mark.parametrize(
    "sid",
    [
        "LogsAreEncrypted",
        "CloudwatchPublishes",
        "BudgetsPublishes",
        "EventsPublishes",
        "VectorsAreIndexed",
    ],
)
def test_each_missing_statement_stops_and_is_printed(kms, key, check, sid, denied):
    """The one that is missing, ready to be copied; a denial that names the service is none."""
    of = environment(key, **TABLES)
    allow(kms, key, of, without=sid, denied=denied)
    (finding,) = check(of)
    assert finding.stops
    assert json.loads(finding.text.partition("): ")[2])["Sid"] == sid


def test_without_a_recipient_nobody_publishes(kms, key, check):
    """There is no topic, so its statements are not missing."""
    of = environment(key, alarms={}, budget={"monthly_usd": 10.0})
    allow(kms, key, of)
    assert check(of) == []
    needed = needed_statements(of, partition="aws", region=REGION, account=HOME)
    assert [statement["Sid"] for statement in needed] == [
        "PoliciesOfTheAccountDecide",
        "LogsAreEncrypted",
    ]


def test_a_policy_that_names_each_role_is_a_note(kms, key, check):
    """Without the statement for IAM, a policy may name roles, which the check cannot know."""
    of = environment(key)
    allow(kms, key, of, without="PoliciesOfTheAccountDecide")
    (finding,) = check(of)
    assert not finding.stops
    assert finding.text.endswith("unless it names each role")


def test_one_statement_for_several_services_counts(kms, key, check):
    """The statements need not be the page's own, if they allow the same."""
    of = environment(key, budget={"monthly_usd": 10.0})
    services = ["logs.eu-central-1.amazonaws.com", "cloudwatch.amazonaws.com"]
    allowed = [
        ({"AWS": HOME}, "kms:*"),
        ({"Service": services}, "kms:*"),
        ({"Service": "budgets.amazonaws.com"}, ["kms:Decrypt", "kms:GenerateDataKey"]),
    ]
    statements = [
        {"Effect": "Allow", "Principal": who, "Action": actions, "Resource": "*"}
        for who, actions in allowed
    ]
    policy = json.dumps({"Statement": statements})
    kms.put_key_policy(KeyId=key, PolicyName="default", Policy=policy)
    assert check(of) == []


def test_the_policy_of_another_accounts_key_is_not_read(kms, key, check):
    """KMS returns it in its own account only."""
    of = environment(key, account="999988887777", region=REGION)
    (finding,) = check(of)
    assert not finding.stops
    assert "can be read in its own account only" in finding.text


OTHER_KEY = "arn:aws:kms:eu-central-1:123456789012:key/other"


@pytest.mark.parametrize("found", ["the key", "AES256", OTHER_KEY])
def test_a_repository_that_is_there_must_have_the_key(aws, kms, key, check, found):
    """ECR cannot change it, and CloudFormation cannot replace a repository with a name."""
    of = environment(key)
    allow(kms, key, of)
    own = {"encryptionType": "KMS", "kmsKey": key if found == "the key" else found}
    ecr = aws.create_client("ecr", region_name=REGION)
    ecr.create_repository(
        repositoryName="embedding-kit-dev",
        **({} if found == "AES256" else {"encryptionConfiguration": own}),
    )
    findings = check(of)
    assert bool(findings) is (found != "the key")
    for finding in findings:
        assert finding.stops
        assert f"found: {found}; allowed: a repository of your own with the key" in finding.text
