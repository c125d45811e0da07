"""Test the settings of an account's own key, rules of roles and existing resources."""

from typing import Any

import pytest
from pydantic import ValidationError

from embedding_kit.environment import EnvironmentSettings

KEY = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab"
MODEL = {"name": "sentence-transformers/all-MiniLM-L6-v2"}
IN_S3 = {
    "function": {"package": "zip", "artifact": "s3"},
    "cold_start": {"kind": "snapstart"},
}


def environment(**tables: Any) -> EnvironmentSettings:
    """Validate an environment like a file."""
    return EnvironmentSettings.model_validate({"name": "test", "model": MODEL, **tables})


def test_all_of_it_is_off_by_default():
    """AWS's own keys, new roles and new resources."""
    plain = environment()
    assert (plain.encryption, plain.roles, plain.existing) == (None, None, None)


@pytest.mark.parametrize(
    "tables",
    [
        {"encryption": {"key": KEY}, "account": "111122223333", "region": "eu-central-1"},
        {"encryption": {"key": KEY.replace("key/", "key/mrk-")}},
        {"roles": {"permissions_boundary": "arn:aws:iam::111122223333:policy/team/boundary"}},
        {
            "roles": {"permissions_boundary": "arn:aws:iam::aws:policy/PowerUserAccess"},
            "account": "111122223333",
            "region": "eu-central-1",
        },
        {"roles": {"path": "/team/search/"}},
        {"existing": {"repository": "team/embeddings", "role": "embedder"}},
        {"existing": {"role": "team/embedder", "log_group": "/team/embedder"}},
        {"existing": {"bucket": "team-artifacts"}, **IN_S3},
    ],
)
def test_this_is_accepted(tables):
    """The forms that AWS accepts."""
    assert environment(**tables)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            {"encryption": {"key": KEY}, "region": "us-east-1"},
            (
                f"AWS services use a key of their own region only; found: {KEY} with region = "
                "us-east-1; allowed: a key in us-east-1, such as a replica of a multi-Region key"
            ),
        ),
        (
            {"existing": {"keys": [KEY]}, "region": "us-east-1"},
            f"AWS services use a key of their own region only; found: {KEY} with region = ",
        ),
        ({"encryption": {"key": "alias/mine"}}, "encryption.key"),
        ({"encryption": {"key": KEY.replace("key/", "alias/")}}, "encryption.key"),
        ({"encryption": {}}, "encryption.key"),
        (
            {
                "roles": {"permissions_boundary": "arn:aws:iam::999988887777:policy/boundary"},
                "account": "111122223333",
                "region": "eu-central-1",
            },
            (
                "IAM takes a permissions boundary of the role's own account only; found: "
                "roles.permissions_boundary of 999988887777 with account = 111122223333; allowed: "
                "a policy of 111122223333"
            ),
        ),
        ({"roles": {}}, "[roles] without a setting has no effect"),
        ({"roles": {"path": "team"}}, "roles.path"),
        ({"roles": {"path": "/team"}}, "roles.path"),
        ({"roles": {"path": "//"}}, "roles.path"),
        ({"roles": {"path": "/" + "a" * 511 + "/"}}, "roles.path"),
        ({"existing": {}}, "[existing] without a name has no effect"),
        ({"existing": {"repository": "Team"}}, "existing.repository"),
        ({"existing": {"keys": ["alias/mine"]}}, "existing.keys.0"),
        ({"existing": {"role": "arn:aws:iam::111122223333:role/x"}}, "existing.role"),
        ({"existing": {"log_group": "with space"}}, "existing.log_group"),
        ({"existing": {"bucket": "abc/d"}, **IN_S3}, "a bucket's name is expected; found: abc/d"),
        ({"existing": {"bucket": "A"}, **IN_S3}, "a folder in S3 is expected"),
        (
            {"existing": {"bucket": "team-artifacts"}},
            (
                "only a zip with its artifact in S3 has a bucket; found: existing.bucket without "
                "an artifact in S3"
            ),
        ),
        (
            {"existing": {"repository": "images"}, "function": {"package": "zip"}},
            (
                "a zip has no image repository; found: existing.repository with function.package = "
                '"zip"'
            ),
        ),
        (
            {
                "existing": {"repository": "images"},
                "repository": {"pull_roles": ["arn:aws:iam::111122223333:role/x"]},
            },
            (
                "an existing repository keeps its own policy; found: "
                "existing.repository with repository.pull_roles; allowed: one of the two"
            ),
        ),
        (
            {"existing": {"log_group": "logs"}, "function": {"log_retention_days": 7}},
            (
                "a log group of your own has its own retention and removal policy; found: "
                "existing.log_group with function.log_retention_days"
            ),
        ),
    ],
)
def test_this_is_refused(tables, message):
    """Settings that AWS would refuse or ignore are errors, which name the value found."""
    with pytest.raises(ValidationError) as refused:
        environment(**tables)
    errors = refused.value.errors()
    assert any(
        message in error["msg"] or message == ".".join(map(str, error["loc"])) for error in errors
    )
