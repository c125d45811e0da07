"""Logs and buckets without a stack, in the emulated AWS: what is left, and who deletes it."""

import io
import json
import time
from functools import partial
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError
from botocore.session import Session

from embedding_kit.settings import Existing, IngestSettings, ModelSettings, VectorIndexSettings
from operations import left_logs
from operations.cleanup import after_deploy, after_destroy, after_failed_deploy, before_destroy
from operations.command import report_errors
from operations.deployed import list_events
from operations.environment_session import session_for
from stacks.environment import EnvironmentSettings
from tests.fixtures.waiting import PATIENCE, wait_until

WAIT = {"WaiterConfig": {"Delay": 1, "MaxAttempts": PATIENCE}}
NO_FUNCTION = {"ServiceToken": "arn:aws:lambda:us-east-1:123456789012:function:none"}


def _logs(*names):
    log_group = {"Type": "AWS::Logs::LogGroup", "DeletionPolicy": "Retain"}
    return {f"{name}1A2B3C4D": log_group for name in names}


PROGRAMS = _logs("EndpointEmbedderLogs", "EndpointCheckLogs")


class _Account:
    """The stacks and the log groups of an environment with a policy, and of no other."""

    def __init__(self, aws, policy):
        self.stacks, self.logs = aws.client("cloudformation"), aws.client("logs")
        self.s3 = aws.client("s3")
        self.session = None
        model = ModelSettings(name="sentence-transformers/all-MiniLM-L6-v2")
        name = f"e{uuid4().hex[:8]}"
        self.environment = EnvironmentSettings(name=name, model=model, removal_policy=policy)

    def create(self, part, resources, *, fails=False):
        """Create a stack, and return its log groups."""
        name = f"EmbeddingKit-{self.environment.name}-{part}"
        last = max(resources)
        broken = {"Type": "Custom::Check", "Properties": NO_FUNCTION, "DependsOn": last}
        body = {"Resources": resources | ({"Broken": broken} if fails else {})}
        before = self.groups()
        self.stacks.create_stack(StackName=name, TemplateBody=json.dumps(body))
        wait_until(lambda: not self._status(name).endswith("_IN_PROGRESS"))
        assert self._status(name) == ("ROLLBACK_COMPLETE" if fails else "CREATE_COMPLETE")
        return self.groups() - before

    def _status(self, name):
        return self.stacks.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]

    def delete(self, part="Endpoint"):
        name = f"EmbeddingKit-{self.environment.name}-{part}"
        self.stacks.delete_stack(StackName=name)
        self.stacks.get_waiter("stack_delete_complete").wait(StackName=name, **WAIT)

    def buckets(self):
        return {bucket["Name"] for bucket in self.s3.list_buckets()["Buckets"]}

    def groups(self):
        prefix = f"EmbeddingKit-{self.environment.name}"
        found = self.logs.describe_log_groups(logGroupNamePrefix=prefix)["logGroups"]
        return {group["logGroupName"] for group in found}

    def run(self, act, **options):
        session = self.session or session_for(self.environment)
        action = partial(act, session, self.environment, **options)
        return report_errors(action, failure="")


@pytest.fixture(params=["destroy", "retain"])
def account(request, aws, shell):
    made = _Account(aws, request.param)
    yield made
    for name in made.groups():
        made.logs.delete_log_group(logGroupName=name)


def test_the_logs_of_a_failed_first_deploy_stay_until_one_succeeds(account, capsys):
    """The failed deploy names them. The stack's own logs and those of others are not touched."""
    failed = account.create("Endpoint", PROGRAMS, fails=True)
    assert len(failed) == 2
    assert account.run(after_failed_deploy) == 1
    notes = capsys.readouterr().err.splitlines()[:-1]
    assert sorted(notes) == [
        f"note: a log of it: aws logs tail {name} --since 1h" for name in sorted(failed)
    ]
    account.delete()
    again = account.create("Endpoint", PROGRAMS, fails=True)
    account.delete()
    standby = account.create("Batch", _logs("EndpointEmbedderLogs", "ServerLogs"))
    tasks = account.create("Server", _logs("ServerLogs"), fails=True)
    account.delete("Server")
    served = account.create("Endpoint", PROGRAMS)
    assert account.groups() == failed | again | standby | tasks | served
    assert account.run(after_deploy) == 0
    assert account.groups() == standby | served
    assert capsys.readouterr().out.count("deleted the log group ") == 5
    assert account.run(after_deploy) == 0
    assert capsys.readouterr().out == ""


def test_a_destroy_deletes_the_logs_that_the_policy_does_not_retain(account):
    """Those of a failed first deploy too; the function's log of a deployed stack may stay."""
    account.create("Endpoint", PROGRAMS, fails=True)
    account.delete()
    served = account.create("Endpoint", PROGRAMS)
    account.delete()
    assert account.run(after_destroy) == 0
    kept = {name for name in served if "Embedder" in name}
    assert account.groups() == (kept if account.environment.removal_policy == "retain" else set())


def test_a_stack_that_an_update_completed_was_deployed(account, shell):
    """Its creation failed with `--no-rollback`. With `retain`, the function's log stays."""
    served = account.create("Endpoint", PROGRAMS)
    account.delete()

    def completed_by_update(client, stack):
        for kind, physical, status in list_events(client, stack):
            yield kind, physical, status.replace("CREATE_COMPLETE", "UPDATE_COMPLETE")

    shell.setattr(left_logs, "list_events", completed_by_update)
    assert account.run(after_destroy) == 0
    kept = {name for name in served if "Embedder" in name}
    assert account.groups() == (kept if account.environment.removal_policy == "retain" else set())


def test_a_stack_that_the_file_no_longer_has_is_destroyed_with_its_logs(account):
    """Those of the stacks that stay are not touched."""
    served = account.create("Endpoint", PROGRAMS)
    account.create("Server", _logs("ServerLogs"))
    for _ in range(2):
        assert account.run(before_destroy, force=True, only_removed=True) == 0
        assert account.groups() == served


@pytest.mark.parametrize("status", ["CREATE_FAILED", "UPDATE_FAILED", "UPDATE_ROLLBACK_COMPLETE"])
def test_the_logs_of_any_failure_are_named(account, shell, capsys, status):
    """A deploy with `--no-rollback` leaves the stack as it failed."""
    served = account.create("Endpoint", PROGRAMS)
    shell.setattr(left_logs, "status_and_outputs", lambda *_: (status, {}))
    assert account.run(after_failed_deploy) == 1
    notes = capsys.readouterr().err
    assert [name for name in served if f"a log of it: aws logs tail {name} " not in notes] == []


def test_logs_that_may_not_be_deleted_fail_no_deploy(account, shell, capsys):
    """Without the permission, a note has the command."""
    (name, _) = sorted(account.create("Endpoint", PROGRAMS, fails=True))
    account.delete()
    account.create("Endpoint", PROGRAMS)

    def deny(**_):
        raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "any")

    class _Session(Session):
        def create_client(self, service, **given):
            client = super().create_client(service, **given)
            client.meta.events.register(f"before-parameter-build.logs.{denied}", deny)
            return client

    account.session = _Session()
    denied = "DeleteLogGroup"
    assert account.run(after_deploy) == 0
    assert f"to delete it: aws logs delete-log-group --log-group-name {name}" in (
        capsys.readouterr().err
    )
    denied = "DescribeLogGroups"
    assert account.run(after_deploy) == 0
    assert "note: logs of earlier deploys may be left: " in capsys.readouterr().err


def test_a_log_group_that_the_file_names_is_no_leftover(account):
    """An earlier deploy has left it, and `[existing]` has it for the next one."""
    named, _ = sorted(
        account.create("Endpoint", PROGRAMS, fails=True), key=lambda name: "Check" in name
    )
    account.delete()
    account.environment = account.environment.model_copy(
        update={"existing": Existing(log_group=named)}
    )
    served = account.create("Endpoint", _logs("EndpointCheckLogs"))
    for act in (after_deploy, after_destroy):
        assert account.run(act) == 0
        assert account.groups() == served | {named}


DOCUMENTS = {"Documents": {"Type": "AWS::S3::Bucket", "DeletionPolicy": "RetainExceptOnCreate"}}


@pytest.mark.parametrize("branch", [True, False])
def test_a_branch_is_destroyed_with_its_documents(account, shell, capsys, branch):
    """With all versions of them, after a question. Those of earlier deploys stay, and are named.

    They may be of a file that had the branch's name. Those of other environments stay, too.
    """
    account.environment = account.environment.model_copy(
        update={"branch_of": "dev", "removal_policy": "destroy"} if branch else {}
    ).model_copy(update={"index": VectorIndexSettings(), "ingest": IngestSettings()})
    shell.setattr("sys.stdin", io.StringIO("n\n"))
    account.run(before_destroy, force=False, only_removed=False)
    assert ("its documents, in 1234" in capsys.readouterr().err) == branch
    buckets = []
    for _ in range(2):
        before = account.buckets()
        account.create("Index", DOCUMENTS)
        (bucket,) = account.buckets() - before
        buckets.append(bucket)
        account.s3.put_bucket_versioning(
            Bucket=bucket, VersioningConfiguration={"Status": "Enabled"}
        )
        for body in (b"one", b"two"):
            account.s3.put_object(Bucket=bucket, Key="a.md", Body=body)
        account.s3.delete_object(Bucket=bucket, Key="a.md")
        account.delete("Index")
        time.sleep(0.01)  # The emulator's order of two stacks is that of their times.
    deleted = {buckets[-1]} if branch else set()
    for again in (False, True):
        assert account.run(after_destroy) == 0
        printed = capsys.readouterr().out
        assert {*buckets} - account.buckets() == deleted
        for name in buckets:
            assert (f"deleted the bucket {name} with" in printed) == (name in deleted and not again)
            assert (f"aws s3 rb --force s3://{name}\n" in printed) == (name not in deleted)


def test_each_call_on_a_bucket_states_the_owner(account, shell):
    """Another account may have taken the name of one that is gone."""
    account.environment = account.environment.model_copy(update={"branch_of": "dev"})
    calls = {}

    class _Session(Session):
        def create_client(self, service, **given):
            client = super().create_client(service, **given)
            client.meta.events.register("provide-client-params.s3", remember)
            return client

    def remember(params, model, **_):
        calls[model.name] = params["ExpectedBucketOwner"]

    account.session = _Session()
    account.create("Artifact", {"Bucket": {"Type": "AWS::S3::Bucket", "DeletionPolicy": "Retain"}})
    (bucket,) = {name for name in account.buckets() if account.environment.name in name}
    account.s3.put_object(Bucket=bucket, Key="artifact/a", Body=b"one")
    account.delete("Artifact")
    assert account.run(after_destroy) == 0
    assert calls.keys() == {"HeadBucket", "ListObjectVersions", "DeleteObjects", "DeleteBucket"}
    (owner,) = set(calls.values())
    assert owner == Session().create_client("sts").get_caller_identity()["Account"]


def test_a_bucket_of_two_deploys_of_a_branch_is_deleted_once(account, capsys):
    """The bucket of artifacts has the same name in each deploy, which may also import it."""
    account.environment = account.environment.model_copy(update={"branch_of": "dev"})
    name = f"kit-{account.environment.name}"
    bucket = {"Type": "AWS::S3::Bucket", "DeletionPolicy": "Retain"}
    for deploy in (1, 2):
        account.create("Artifact", {"Bucket": {**bucket, "Properties": {"BucketName": name}}})
        account.delete("Artifact")
        if deploy == 1:
            account.s3.delete_bucket(Bucket=name)
    assert account.run(after_destroy) == 0
    assert capsys.readouterr().out.count(f"deleted the bucket {name} with its objects\n") == 1
    assert name not in account.buckets()
