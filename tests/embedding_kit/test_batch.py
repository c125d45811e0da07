"""Test the batch: function, state machine, permissions of each role, alarms, dashboard."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk.assertions import Template

from embedding_kit import AlarmTopic, BatchSettings, EmbeddingBatch, Hosting, Model, PartAlarms
from embedding_kit.batch import PROGRAM
from jobs.embed.job import FRAME
from jobs.errors import __all__ as errors
from tests.embedding_kit.roles import HOME, KEY, asker, resolved

FUNCTION = f"arn:aws:lambda:us-east-1:{HOME}:function:one"
MACHINE = f"arn:aws:states:us-east-1:{HOME}:stateMachine:one"
CHILD = f"arn:aws:states:us-east-1:{HOME}:execution:one/Shards:1234"
IN, OUT = "arn:aws:s3:::documents", "arn:aws:s3:::vectors"
SETTINGS = BatchSettings(
    input="s3://documents/texts",
    output="s3://vectors/search/",
    max_concurrency=10,
    reserved_concurrency=15,
)
CONTEXT = "kms:EncryptionContext:${EncryptionContextKey}"
KEYS = (f"{KEY}1111aaaa", f"{KEY}2222bbbb")


@pytest.fixture(scope="module")
def template(synthesize, model) -> Template:
    """Return the template of a batch with alarms and a dashboard."""

    def build(stack: Stack) -> None:
        hosting = Hosting(existing_keys=KEYS)
        batch = EmbeddingBatch(
            stack, "Batch", model=model, settings=SETTINGS, name="test", hosting=hosting
        )
        topic = AlarmTopic(stack, "Notices").topic
        alarms = PartAlarms(stack, "Alarms", part=batch, topic=topic)
        dashboard = cloudwatch.Dashboard(stack, "Dashboard")
        dashboard.add_widgets(*alarms.widgets())

    made: Template = synthesize(build)
    return made


@pytest.fixture(scope="module")
def definition() -> dict[str, Any]:
    return PROGRAM.definition(
        function_arn="FUNCTION",
        bucket="vectors",
        defaults={"source": "s3://documents"},
        max_concurrency=10,
        worker={},
    )


def test_the_handler_and_the_files_are_those_of_the_image():
    """The constructs import no code of the image, so they repeat its names."""
    module, _, function = PROGRAM.handler.rpartition(".")
    # It loads a model when it is imported.
    source = importlib.util.find_spec(module)
    assert source
    assert source.origin
    assert f"\n{function} = " in Path(source.origin).read_text()
    assert (PROGRAM.plan, PROGRAM.results) == (FRAME.items_file, FRAME.results_folder)


def test_every_task_tries_what_can_pass_again_and_nothing_else(definition):
    """All classes of a job's errors are final; throttles are retried with jitter."""
    states = definition["States"]
    tasks = [states["Plan"], states["Finish"]]
    tasks.append(states["Shards"]["ItemProcessor"]["States"]["Embed"])
    for task in tasks:
        final, service, crash = task["Retry"]
        assert set(final["ErrorEquals"]) == set(errors) - {"UnavailableError", "VectorSpaceError"}
        assert final["MaxAttempts"] == 0
        assert "Lambda.TooManyRequestsException" in service["ErrorEquals"]
        assert service["JitterStrategy"] == crash["JitterStrategy"] == "FULL"
        assert crash["ErrorEquals"] == ["States.TaskFailed"]


def test_the_pauses_of_a_shard_leave_time_for_its_work(definition):
    """An EXPRESS child ends after 300 seconds, and a shard takes some 25."""
    (_, service, _) = definition["States"]["Shards"]["ItemProcessor"]["States"]["Embed"]["Retry"]
    pauses = [
        min(service["IntervalSeconds"] * service["BackoffRate"] ** n, service["MaxDelaySeconds"])
        for n in range(service["MaxAttempts"])
    ]
    assert sum(pauses) < 150


@pytest.fixture(scope="module")
def role_may(template, question, may):
    """Return whether a role of the batch may do an action on a resource."""

    def resolve(policy: Any) -> Any:
        # The evaluator knows this condition by its general name alone.
        text = json.dumps(resolved(policy)).replace("kms:EncryptionContext:aws:s3:arn", CONTEXT)
        return json.loads(text)

    return asker(template, question, may, resolve=resolve)


@pytest.mark.parametrize(
    ("role", "action", "resource"),
    [
        ("BatchRole", "s3:GetObject", f"{IN}/texts/a.jsonl"),
        ("BatchRole", "s3:GetObject", f"{OUT}/search/job/_job/job.json"),
        ("BatchRole", "s3:PutObject", f"{OUT}/search/job/part-000000.parquet"),
        ("BatchStateMachineRole", "lambda:InvokeFunction", FUNCTION),
        ("BatchStateMachineRole", "s3:GetObject", f"{OUT}/search/job/_job/shards.jsonl"),
        ("BatchStateMachineRole", "s3:PutObject", f"{OUT}/search/job/_job/results/1/a.json"),
        ("BatchStateMachineRole", "states:StartExecution", MACHINE),
        ("BatchStateMachineRole", "states:StopExecution", CHILD),
    ],
)
def test_a_role_may_do_its_work(role_may, role, action, resource):
    """The function reads and writes its folders; the state machine runs it over the plan."""
    assert role_may(role, action, resource)


@pytest.mark.parametrize(
    ("role", "action", "resource"),
    [
        ("BatchRole", "s3:GetObject", f"{IN}/other/a.jsonl"),
        ("BatchRole", "s3:GetObject", f"{IN}/texts-2/a.jsonl"),
        ("BatchRole", "s3:PutObject", f"{IN}/texts/a.jsonl"),
        ("BatchRole", "s3:PutObject", f"{OUT}/other/a.parquet"),
        ("BatchRole", "s3:DeleteObject", f"{OUT}/search/job/part-000000.parquet"),
        ("BatchRole", "lambda:InvokeFunction", FUNCTION),
        ("BatchRole", "states:StartExecution", MACHINE),
        ("BatchStateMachineRole", "s3:GetObject", f"{IN}/texts/a.jsonl"),
        ("BatchStateMachineRole", "s3:GetObject", f"{OUT}/search/job/part-000000.parquet"),
        ("BatchStateMachineRole", "s3:PutObject", f"{OUT}/search/job/part-000000.parquet"),
        ("BatchStateMachineRole", "lambda:InvokeFunction", f"{FUNCTION}2"),
        ("BatchStateMachineRole", "states:StartExecution", f"{MACHINE}2"),
        ("BatchStateMachineRole", "states:StopExecution", CHILD.replace("one/", "one2/")),
    ],
)
def test_a_role_may_do_nothing_else(role_may, role, action, resource):
    """No other prefix, key, function or state machine, and no deletion."""
    assert not role_may(role, action, resource)


def through_s3(arn: str) -> dict[str, str]:
    """Return the context of S3's request to KMS for an object, or for a bucket with its own key."""
    service = "s3.us-east-1.amazonaws.com"
    return {"kms:ViaService": service, CONTEXT: arn}


@pytest.mark.parametrize(
    ("role", "action", "context", "allowed"),
    [
        ("BatchRole", "kms:Decrypt", through_s3(f"{IN}/texts/a.jsonl"), True),
        ("BatchRole", "kms:Decrypt", through_s3(IN), True),
        ("BatchRole", "kms:GenerateDataKey", through_s3(f"{OUT}/search/job/a.parquet"), True),
        ("BatchStateMachineRole", "kms:GenerateDataKey", through_s3(OUT), True),
        ("BatchRole", "kms:GenerateDataKey", through_s3(IN), False),
        ("BatchRole", "kms:Decrypt", through_s3("arn:aws:s3:::vectors-2/a"), False),
        ("BatchRole", "kms:Decrypt", {"kms:ViaService": "s3.us-east-1.amazonaws.com"}, False),
        ("BatchRole", "kms:Decrypt", {}, False),
        ("BatchStateMachineRole", "kms:Decrypt", through_s3(IN), False),
    ],
)
def test_a_role_uses_a_key_for_its_buckets_alone(role_may, role, action, context, allowed):
    """Through S3, with whichever key of the list encrypts the object."""
    assert {role_may(role, action, key, **context) for key in KEYS} == {allowed}


@pytest.mark.parametrize(
    ("bucket", "prefix", "allowed"),
    [
        (IN, "texts/", True),
        (IN, "texts/new/", True),
        (IN, "", False),
        (IN, "other/", False),
        (OUT, "search/", True),
        (OUT, "", False),
    ],
)
def test_the_function_lists_only_its_folders(role_may, bucket, prefix, allowed):
    """The names of other files in the buckets are not readable."""
    assert role_may("BatchRole", "s3:ListBucket", bucket, s3_prefix=prefix) is allowed


def test_a_whole_bucket_is_listed_without_a_condition(synthesize, model):
    """A listing of a whole bucket names no prefix."""
    settings = BatchSettings(input="s3://documents", output="s3://vectors/")
    whole = synthesize(lambda s: EmbeddingBatch(s, "Batch", model=model, settings=settings))
    policies = json.dumps(whole.find_resources("AWS::IAM::Policy"))
    assert "s3:ListBucket" in policies
    assert "s3:prefix" not in policies
    assert "kms:" not in policies
    (function,) = whole.find_resources("AWS::Lambda::Function").values()
    assert "ReservedConcurrentExecutions" not in function["Properties"]


def test_the_model_must_fit_into_the_memory(synthesize):
    """The need of a known model is checked at synth."""
    settings = BatchSettings(input="s3://documents", output="s3://vectors", memory_mb=128)
    gemma = Model(name="google/embeddinggemma-300m", accept_license="gemma")
    with pytest.raises(ValueError, match=r"batch\.memory_mb = 128; allowed: 256 or more"):
        synthesize(lambda s: EmbeddingBatch(s, "Batch", model=gemma, settings=settings))
