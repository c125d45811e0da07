"""Which indexes nothing uses, and what a destroy deletes: moto, and a stub of CloudFormation."""

import io
import json
import zipfile
from dataclasses import replace

import pytest
from botocore.exceptions import ClientError

from embedding_kit.settings import VectorIndexSettings
from operations import cleanup
from operations.vector_store import (
    VectorStore,
    delete_indexes,
    delete_store,
    find_deleted_store,
    find_store,
    unused_indexes,
)

from .conftest import REGION, SESSION, Stubbed

BUCKET = "embeddingkit-dev-index"
INDEX = f"arn:aws:s3vectors:{REGION}:123456789012:bucket/{BUCKET}/index/"
STACK = "EmbeddingKit-dev-Index"
TRUST = {"Version": "2012-10-17", "Statement": []}
KEYS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}


class _Account(Stubbed):
    """Three indexes in a vector bucket; version 1 of a function searches b, and version 2 c."""

    def __init__(self) -> None:
        super().__init__()
        self.stub = self.stubs["cloudformation"]
        self.vectors = self.create_client("s3vectors")
        self.vectors.create_vector_bucket(vectorBucketName=BUCKET)
        for name in "abc":
            self.vectors.create_index(
                vectorBucketName=BUCKET,
                indexName=f"index-{name}",
                dataType="float32",
                dimension=4,
                distanceMetric="cosine",
            )
        role = self.create_client("iam").create_role(
            RoleName="embedder", AssumeRolePolicyDocument=json.dumps(TRUST)
        )
        self.role = role["Role"]["Arn"]
        self.functions = self.create_client("lambda")
        self.make_function("embedder", "b")
        self.functions.publish_version(FunctionName="embedder")
        self.functions.update_function_configuration(
            FunctionName="embedder", Environment={"Variables": self.variables("c")}
        )
        self.functions.publish_version(FunctionName="embedder")

    def create_client(self, name, *, region_name=None):
        assert region_name in {None, REGION}
        if name == "cloudformation":
            return self.stub.client
        return SESSION.create_client(name, region_name=REGION, **KEYS)

    def variables(self, index):
        return {"EMBEDDING_VECTOR_INDEX": f"{INDEX}index-{index}"}

    def make_function(self, name, index):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr("handler.py", "")
        self.functions.create_function(
            FunctionName=name,
            Role=self.role,
            Runtime="python3.13",
            Handler="handler.handler",
            Code={"ZipFile": content.getvalue()},
            Environment={"Variables": self.variables(index)},
        )

    def indexes(self):
        indexes = self.vectors.list_indexes(vectorBucketName=BUCKET)["indexes"]
        return [index["indexName"].removeprefix("index-") for index in indexes]

    def has_stack(self, *outputs):
        """Describe the stack; without outputs, it does not exist."""
        if not outputs:
            self.stub.add_client_error("describe_stacks", "ValidationError")
            return
        described = [{"OutputKey": key, "OutputValue": value} for key, value in outputs]
        stack = self.stack(STACK, Outputs=described)
        self.stub.add_response("describe_stacks", {"Stacks": [stack]}, {"StackName": STACK})

    def deleted(self, *stacks):
        """Describe deleted stacks: their name, the day of November, and their vector bucket."""
        summaries = [
            {
                "StackName": name,
                "StackId": f"arn:aws:cloudformation:{REGION}:123456789012:stack/{name}/{day}",
                "CreationTime": self.day.replace(day=day),
                "DeletionTime": self.day.replace(day=day),
                "StackStatus": "DELETE_COMPLETE",
            }
            for name, day, _ in stacks
        ]
        deleted = {"StackStatusFilter": ["DELETE_COMPLETE"]}
        self.stub.add_response("list_stacks", {"StackSummaries": summaries}, deleted)

    def resources(self, day, bucket):
        arn = f"arn:aws:cloudformation:{REGION}:123456789012:stack/{STACK}/{day}"
        resource = {
            "LogicalResourceId": "Bucket",
            "PhysicalResourceId": bucket,
            "ResourceType": "AWS::S3Vectors::VectorBucket",
            "LastUpdatedTimestamp": self.day,
            "ResourceStatus": "DELETE_SKIPPED",
        }
        self.stub.add_response(
            "list_stack_resources", {"StackResourceSummaries": [resource]}, {"StackName": arn}
        )


@pytest.fixture
def account(aws):
    account_with_store = _Account()
    yield account_with_store
    account_with_store.done()


@pytest.fixture
def store(account, environments):
    """Return the vector bucket, of a stack with the third index."""
    account.has_stack(("LoadStateMachineArn", "any"), ("IndexArn", f"{INDEX}index-c"))
    store = find_store(account, environments["dev"])
    assert store == VectorStore(bucket=BUCKET, indexes=(f"{INDEX}index-c",), region=None)
    return store


def test_an_index_is_unused_if_nothing_names_it(account, store):
    """Neither the stack nor a version of a function. Deleting a version may free an index."""
    assert unused_indexes(account, store) == [f"{INDEX}index-a"]
    # $LATEST has the newest one.
    gone = {("embedder", "1"), ("embedder", "2")}
    assert unused_indexes(account, store, gone=gone) == [f"{INDEX}index-{name}" for name in "ab"]
    # A version of another function may have the same number.
    account.make_function("of-others", "b")
    account.functions.publish_version(FunctionName="of-others")
    account.functions.update_function_configuration(
        FunctionName="of-others", Environment={"Variables": {}}
    )
    assert unused_indexes(account, store, gone=gone) == [f"{INDEX}index-a"]
    account.functions.delete_function(FunctionName="of-others")
    delete_indexes(account, unused_indexes(account, store), region=None)
    assert account.indexes() == ["b", "c"]
    assert unused_indexes(account, store) == []


def test_the_index_of_the_stack_is_use(account, store):
    """No version names it until the release check has accepted one, as after a refused release."""
    assert unused_indexes(account, replace(store, indexes=(f"{INDEX}index-a",))) == []


def test_the_index_of_a_second_model_is_use(account, environments):
    """The queue's function names it within JSON, and the function to compare with may be gone."""
    account.has_stack(("StandbyIndexArn", f"{INDEX}index-a"), ("IndexArn", f"{INDEX}index-c"))
    store = find_store(account, environments["dev"])
    assert store.indexes == (f"{INDEX}index-c", f"{INDEX}index-a")
    assert unused_indexes(account, store) == []


@pytest.mark.parametrize("is_running", [False, True])
def test_a_task_of_the_server_is_use(account, store, is_running):
    """It may start at any time; one that is deregistered, as long as a service runs it."""
    variable = {"name": "EMBEDDING_VECTOR_INDEX", "value": f"{INDEX}index-a"}
    client = account.create_client("ecs")
    arn = client.register_task_definition(
        family="server",
        containerDefinitions=[
            {"name": "s", "image": "any", "memory": 512, "environment": [variable]}
        ],
    )["taskDefinition"]["taskDefinitionArn"]
    if is_running:
        client.create_cluster(clusterName="c")
        client.create_service(cluster="c", serviceName="s", taskDefinition=arn, desiredCount=1)
        client.deregister_task_definition(taskDefinition=arn)
    assert unused_indexes(account, store) == []


def test_variables_that_cannot_be_read_may_name_any_index(account, store, monkeypatch):
    """Lambda answers with an error in their place if it may not decrypt them for the caller."""
    version = {"FunctionName": "other", "Version": "1", "Environment": {"Error": {}}}
    monkeypatch.setattr(
        "operations.vector_store.function_versions", lambda *_, **__: iter([version])
    )
    assert unused_indexes(account, store) == []


def test_without_a_stack_there_is_no_store(account, environments):
    """Before the first deploy, and without [index]."""
    account.has_stack()
    assert find_store(account, environments["dev"]) is None
    account.has_stack(("Other", "any"))
    assert find_store(account, environments["dev"]) is None


@pytest.fixture
def left(account, environments):
    """Return the vector bucket after a destroy of the environment; the function is gone."""
    account.functions.delete_function(FunctionName="embedder")
    account.deleted((STACK, 3, "older"), ("EmbeddingKit-dev-Batch", 9, ""), (STACK, 7, BUCKET))
    account.has_stack()
    account.resources(7, f"arn:aws:s3vectors:{REGION}:123456789012:bucket/{BUCKET}")
    store = find_deleted_store(account, environments["dev"])
    assert store == VectorStore(bucket=BUCKET, indexes=(), region=None)
    return store


def test_a_destroy_deletes_all_indexes_and_the_bucket(account, left):
    """Also those that were retained before `removal_policy` was changed, and twice is once."""
    assert [line.split()[0] for line in delete_store(account, left)] == ["deleted"] * 4
    assert account.vectors.list_vector_buckets()["vectorBuckets"] == []
    assert list(delete_store(account, left)) == []


def test_a_destroy_that_broke_off_continues(account, left):
    """The next run deletes the rest."""
    next(delete_store(account, left))
    assert account.indexes() == ["b", "c"]
    assert [line.split()[0] for line in delete_store(account, left)] == ["deleted"] * 3


@pytest.mark.parametrize("removal", ["retain", "destroy"])
def test_after_a_destroy_the_settings_decide(account, environments, monkeypatch, capsys, removal):
    """CloudFormation has left the vectors: they are deleted, or the commands are shown."""
    account.functions.delete_function(FunctionName="embedder")
    dev = environments["dev"].model_copy(
        update={"index": VectorIndexSettings(), "removal_policy": removal}
    )
    monkeypatch.setattr(cleanup, "delete_left_logs", lambda *_: [])
    if removal == "destroy":
        account.deleted((STACK, 7, BUCKET))
        account.has_stack()
        account.resources(7, BUCKET)
    cleanup.after_destroy(account, dev)
    shown = capsys.readouterr().out
    assert (f"deleted the vector bucket {BUCKET}" in shown) is (removal == "destroy")
    assert ("aws s3vectors delete-index --index-arn" in shown) is (removal == "retain")
    buckets = account.vectors.list_vector_buckets()["vectorBuckets"]
    assert bool(buckets) is (removal == "retain")


def test_a_deletion_that_aws_refuses_is_an_error(account, left, monkeypatch):
    """Only an index that is gone is no error: after any other, the vectors remain."""

    def refused(*_):
        raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "ListIndexes")

    monkeypatch.setattr("operations.vector_store.unused_indexes", refused)
    with pytest.raises(ClientError, match="AccessDenied"):
        list(delete_store(account, left))


def test_what_another_function_uses_stays_with_its_bucket(account, left):
    """AWS deletes no bucket that has an index."""
    account.make_function("of-others", "b")
    assert list(delete_store(account, left))[-1] == (
        f"the vector bucket {BUCKET} stays: a function may use an index of it"
    )
    assert account.indexes() == ["b"]


def test_a_deployed_environment_has_left_nothing(account, environments):
    """An earlier destroy of the same name does not matter."""
    account.deleted((STACK, 3, "older"))
    account.has_stack(("IndexArn", f"{INDEX}index-c"))
    assert find_deleted_store(account, environments["dev"]) is None
    account.deleted()
    assert find_deleted_store(account, environments["dev"]) is None
