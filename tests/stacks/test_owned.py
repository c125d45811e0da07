"""Test what an account prescribes in the stacks: its own key, and an existing role."""

import json

from stacks.owned import with_own_key


def test_the_permissions_of_an_existing_role_are_reported(synthesized):
    """The trust policy and the statements that its owner adds; the stack changes nothing of it."""
    made = synthesized("existing")
    (role,) = json.loads((made.folder / "iam-policy-report.json").read_text())["roles"]
    assert role["roleName"] == "team/embedder"
    assert role["assumeRolePolicy"][0]["Principal"] == {"Service": "lambda.amazonaws.com"}
    assert {action for one in role["identityPolicyStatements"] for action in one["Action"]} == {
        "logs:CreateLogStream",
        "logs:PutLogEvents",
    }
    assert "team/embedder" not in json.dumps(
        [
            resource
            for resource in made.templates["endpoint"]["Resources"].values()
            if resource["Type"].startswith("AWS::IAM::")
        ]
    )


def test_a_key_of_your_own_reaches_the_artifacts_and_the_index(environments):
    """Unless they have a key of their own; a bucket that exists has its own encryption."""
    key = environments["own-key"].encryption
    index = environments["index"].model_copy(update={"encryption": key})
    assert with_own_key(index).index.key == index.index.key
    unset = index.model_copy(update={"index": index.index.model_copy(update={"key": None})})
    assert with_own_key(unset).index.key == key.key
    artifact = environments["zip-s3"].model_copy(update={"encryption": key})
    assert with_own_key(artifact).function.artifact_key == artifact.function.artifact_key
    bucket = environments["existing-bucket"].model_copy(update={"encryption": key})
    assert with_own_key(bucket).function.artifact_key is None
    assert with_own_key(environments["dev"]) is environments["dev"]
