"""Change sets: imports of an existing bucket, and outputs alone."""

import json

import pytest
from botocore.exceptions import WaiterError


@pytest.fixture
def deploy(aws):
    """Return a function that creates a stack with a bucket, importing it; it returns the status."""
    cloudformation, names = aws.client("cloudformation"), []

    def make(stack: str, bucket_name: object) -> str:
        bucket = {
            "Type": "AWS::S3::Bucket",
            "DeletionPolicy": "RetainExceptOnCreate",
            "Properties": {"BucketName": bucket_name},
        }
        names.append(stack)
        cloudformation.create_change_set(
            StackName=stack,
            ChangeSetName="import",
            ChangeSetType="CREATE",
            ImportExistingResources=True,
            TemplateBody=json.dumps({"Resources": {"Bucket": bucket}}),
        )
        cloudformation.execute_change_set(StackName=stack, ChangeSetName="import")
        waiter = cloudformation.get_waiter("stack_create_complete")
        try:
            waiter.wait(StackName=stack, WaiterConfig={"Delay": 1, "MaxAttempts": 20})
        except WaiterError as error:
            return str(error.last_response["Stacks"][0]["StackStatus"])
        return "CREATE_COMPLETE"

    yield make
    for name in names:
        cloudformation.delete_stack(StackName=name)


@pytest.fixture
def retained(aws):
    """Create a bucket with an object; return the bucket's name."""
    name = f"retained-{aws.account}"
    s3 = aws.client("s3")
    s3.create_bucket(Bucket=name)
    s3.put_object(Bucket=name, Key="artifact/0123", Body=b"weights")
    yield name
    s3.delete_object(Bucket=name, Key="artifact/0123")
    s3.delete_bucket(Bucket=name)


def test_a_bucket_is_imported_by_its_plain_name(aws, deploy, retained):
    """The stack has the bucket, with its objects."""
    assert deploy("imports", retained) == "CREATE_COMPLETE"
    (resource,) = aws.client("cloudformation").describe_stack_resources(StackName="imports")[
        "StackResources"
    ]
    assert resource["PhysicalResourceId"] == retained
    found = aws.client("s3").get_object(Bucket=retained, Key="artifact/0123")
    assert found["Body"].read() == b"weights"


def test_a_name_with_a_function_imports_nothing(deploy, retained):
    """CloudFormation does not find the existing bucket, and cannot create it either."""
    assert deploy("creates", {"Fn::Sub": "retained-${AWS::AccountId}"}) == "ROLLBACK_COMPLETE"


TOPIC = {"Topic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "outputs"}}}


def test_outputs_alone_can_be_changed(aws, stack):
    """The change set has no changed resource, and can be executed once."""
    stack("outputs", TOPIC)
    cloudformation = aws.client("cloudformation")
    body = json.dumps({"Resources": TOPIC, "Outputs": {"Arn": {"Value": {"Ref": "Topic"}}}})
    change = {"StackName": "outputs", "ChangeSetName": "adds-an-output"}
    cloudformation.create_change_set(**change, TemplateBody=body)
    assert cloudformation.describe_change_set(**change)["Changes"] == []
    cloudformation.execute_change_set(**change)
    cloudformation.get_waiter("stack_update_complete").wait(
        StackName="outputs", WaiterConfig={"Delay": 1, "MaxAttempts": 20}
    )
    (found,) = cloudformation.describe_stacks(StackName="outputs")["Stacks"]
    assert [output["OutputKey"] for output in found["Outputs"]] == ["Arn"]
    change["ChangeSetName"] = "changes-nothing"
    cloudformation.create_change_set(**change, TemplateBody=body)
    assert cloudformation.describe_change_set(**change)["ExecutionStatus"] == "UNAVAILABLE"
