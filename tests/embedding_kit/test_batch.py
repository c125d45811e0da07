"""Test the batch: function, state machine, permissions of each role, alarms, dashboard."""

import json
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk.assertions import Template

from embedding_kit import BatchSettings, EmbeddingBatch, Hosting, ModelSettings
from embedding_kit.programs import contract
from tests.embedding_kit.endpoints import add_alarms
from tests.embedding_kit.roles import HOME, KEY, Case, allowed, only, resolved, statements

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
        add_alarms(stack, batch)

    return synthesize(build)


@pytest.fixture(scope="module")
def definition(template) -> dict[str, Any]:
    machine = only(template, "AWS::StepFunctions::StateMachine")
    states: dict[str, Any] = json.loads(resolved(machine["DefinitionString"]))
    return states


def test_every_task_tries_what_can_pass_again_and_nothing_else(definition):
    """Errors of the input are final; what passes is tried again, with jitter."""
    states = definition["States"]
    tasks = [states["Plan"], states["Finish"]]
    tasks.append(states["Shards"]["ItemProcessor"]["States"]["Embed"])
    for task in tasks:
        final, service, crash = task["Retry"]
        assert final["ErrorEquals"] == contract().errors["final"]
        assert final["MaxAttempts"] == 0
        assert {"Lambda.TooManyRequestsException", "UnavailableError"} < {*service["ErrorEquals"]}
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


def through_s3(arn: str) -> dict[str, str]:
    """Return the context of S3's request to KMS for an object, or for a bucket with its own key."""
    service = "s3.us-east-1.amazonaws.com"
    return {"kms:ViaService": service, CONTEXT: arn}


MAY: list[Case] = [
    ("BatchRole", "s3:GetObject", f"{IN}/texts/a.jsonl"),
    ("BatchRole", "s3:GetObject", f"{OUT}/search/job/_job/job.json"),
    ("BatchRole", "s3:PutObject", f"{OUT}/search/job/part-000000.parquet"),
    ("BatchStateMachineRole", "lambda:InvokeFunction", FUNCTION),
    ("BatchStateMachineRole", "s3:GetObject", f"{OUT}/search/job/_job/shards.jsonl"),
    ("BatchStateMachineRole", "s3:PutObject", f"{OUT}/search/job/_job/results/1/a.json"),
    ("BatchStateMachineRole", "states:StartExecution", MACHINE),
    ("BatchStateMachineRole", "states:StopExecution", CHILD),
    ("BatchRole", "s3:ListBucket", IN, {"s3:prefix": "texts/"}),
    ("BatchRole", "s3:ListBucket", IN, {"s3:prefix": "texts/new/"}),
    ("BatchRole", "s3:ListBucket", OUT, {"s3:prefix": "search/"}),
]
MAY_NOT: list[Case] = [
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
    ("BatchRole", "s3:ListBucket", IN, {"s3:prefix": ""}),
    ("BatchRole", "s3:ListBucket", IN, {"s3:prefix": "other/"}),
    ("BatchRole", "s3:ListBucket", OUT, {"s3:prefix": ""}),
]
#: Through S3, with whichever key of the list encrypts the object.
MAY_USE_A_KEY = [
    ("BatchRole", "kms:Decrypt", through_s3(f"{IN}/texts/a.jsonl")),
    ("BatchRole", "kms:Decrypt", through_s3(IN)),
    ("BatchRole", "kms:GenerateDataKey", through_s3(f"{OUT}/search/job/a.parquet")),
    ("BatchStateMachineRole", "kms:GenerateDataKey", through_s3(OUT)),
]
MAY_USE_NO_KEY = [
    ("BatchRole", "kms:GenerateDataKey", through_s3(IN)),
    ("BatchRole", "kms:Decrypt", through_s3("arn:aws:s3:::vectors-2/a")),
    ("BatchRole", "kms:Decrypt", {"kms:ViaService": "s3.us-east-1.amazonaws.com"}),
    ("BatchRole", "kms:Decrypt", {}),
    ("BatchStateMachineRole", "kms:Decrypt", through_s3(IN)),
]


def test_a_role_may_do_its_work_and_nothing_else(template):
    """No other prefix, key, function or state machine, no deletion, and no name of another file."""

    def resolve(policy: Any) -> Any:
        # The evaluator knows this condition by its general name alone.
        text = json.dumps(resolved(policy)).replace("kms:EncryptionContext:aws:s3:arn", CONTEXT)
        return json.loads(text)

    may, may_not = (
        [*cases, *((role, action, key, context) for role, action, context in uses for key in KEYS)]
        for cases, uses in ((MAY, MAY_USE_A_KEY), (MAY_NOT, MAY_USE_NO_KEY))
    )
    assert allowed(template, may + may_not, resolve=resolve) == may


def test_a_whole_bucket_is_listed_without_a_condition(synthesize, model):
    """A listing of a whole bucket names no prefix."""
    settings = BatchSettings(input="s3://documents", output="s3://vectors/")
    whole = synthesize(lambda s: EmbeddingBatch(s, "Batch", model=model, settings=settings))
    policies = json.dumps(statements(whole))
    assert "s3:ListBucket" in policies
    assert "s3:prefix" not in policies
    assert "kms:" not in policies
    assert "ReservedConcurrentExecutions" not in only(whole, "AWS::Lambda::Function")


def test_the_model_must_fit_into_the_memory(synthesize):
    """The need of a known model is checked at synth."""
    settings = BatchSettings(input="s3://documents", output="s3://vectors", memory_mb=128)
    gemma = ModelSettings(name="google/embeddinggemma-300m", accept_license="gemma")
    with pytest.raises(ValueError, match=r"batch\.memory_mb = 128; allowed: 256 or more"):
        synthesize(lambda s: EmbeddingBatch(s, "Batch", model=gemma, settings=settings))
