"""Test the batch: function, state machine, permissions of each role, alarms, dashboard."""

import json
import re
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk.assertions import Match, Template

from embedding_kit import AlarmTopic, BatchAlarms, BatchSettings, EmbeddingBatch, Model
from embedding_kit import batch as definition_module
from embedding_kit.batch import batch_definition
from embedding_kit.monitoring.batch import batch_widgets
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
    input_key=f"{KEY}1111aaaa",
    output_key=f"{KEY}2222bbbb",
)


@pytest.fixture(scope="module")
def template(synthesize, model) -> Template:
    """Return the template of a batch with alarms and a dashboard."""

    def build(stack: Stack) -> None:
        batch = EmbeddingBatch(stack, "Batch", model=model, settings=SETTINGS, name="test")
        topic = AlarmTopic(stack, "Notices").topic
        alarms = BatchAlarms(stack, "Alarms", batch=batch, topic=topic)
        dashboard = cloudwatch.Dashboard(stack, "Dashboard")
        dashboard.add_widgets(*batch_widgets(batch, alarms))

    made: Template = synthesize(build)
    return made


@pytest.fixture(scope="module")
def definition() -> dict[str, Any]:
    return batch_definition(
        function_arn="FUNCTION",
        partition="aws",
        bucket="vectors",
        defaults={"source": "s3://documents"},
        max_concurrency=10,
    )


def test_the_handler_and_the_files_are_those_of_the_image(definition):
    """The constructs import no code of the image, so they repeat its names."""
    from embedding_kit.batch import _HANDLER

    module, _, function = _HANDLER.rpartition(".")
    assert (module, function) == ("jobs.embed.handler", "handler")
    assert FRAME.items_file == definition_module.SHARDS_FILE
    assert FRAME.results_folder == definition_module.RESULTS_FOLDER


def test_the_state_machine_is_standard_and_logs_without_data(template):
    """Its log shows the steps, and not their input or output."""
    template.has_resource_properties(
        "AWS::StepFunctions::StateMachine",
        {
            "LoggingConfiguration": Match.object_like(
                {"IncludeExecutionData": False, "Level": "ALL"}
            ),
        },
    )
    (machine,) = template.find_resources("AWS::StepFunctions::StateMachine").values()
    assert machine["Properties"].get("StateMachineType", "STANDARD") == "STANDARD"


def test_shards_run_as_express_children_up_to_the_concurrency(definition):
    """The items are the lines of the plan; a failed one stops no other."""
    shards = definition["States"]["Shards"]
    assert shards["ItemProcessor"]["ProcessorConfig"] == {
        "Mode": "DISTRIBUTED",
        "ExecutionType": "EXPRESS",
    }
    assert shards["ItemReader"]["ReaderConfig"] == {"InputType": "JSONL"}
    assert shards["MaxConcurrency"] == 10
    assert shards["ToleratedFailurePercentage"] == 100
    # In a child, a task of 300 seconds would end without its own error.
    assert shards["ItemProcessor"]["States"]["Embed"]["TimeoutSeconds"] < 300


def test_the_template_has_the_whole_definition(template, definition):
    """The CDK drops values that are null from JSON, so the definition has none."""
    (machine,) = template.find_resources("AWS::StepFunctions::StateMachine").values()
    deployed = json.loads(resolved(machine["Properties"]["DefinitionString"]))
    assert deployed["States"].keys() == definition["States"].keys()
    assert deployed["States"]["Shards"].keys() == definition["States"]["Shards"].keys()
    # The results are put beside the plan's values, which the last step reads.
    assert deployed["States"]["Shards"]["ResultPath"] == "$.results"
    assert deployed["States"]["Finish"]["Parameters"]["Payload"]["folder.$"] == "$.folder"
    assert deployed["States"]["Plan"]["Parameters"]["Payload"] == {
        "step": "plan",
        "defaults": {
            "source": "s3://documents/texts",
            "destination": "s3://vectors/search/",
        },
        "job.$": "$",
    }


def test_a_job_without_shards_is_finished_at_once(definition):
    """A map over an empty file is not needed."""
    choice = definition["States"]["HasShards"]
    assert choice["Choices"] == [
        {"Variable": "$.shards", "NumericGreaterThan": 0, "Next": "Shards"}
    ]
    assert choice["Default"] == "Finish"


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
    return asker(template, question, may)


@pytest.mark.parametrize(
    ("role", "action", "resource"),
    [
        ("BatchRole", "s3:GetObject", f"{IN}/texts/a.jsonl"),
        ("BatchRole", "s3:GetObject", f"{OUT}/search/job/_job/job.json"),
        ("BatchRole", "s3:PutObject", f"{OUT}/search/job/part-000000.parquet"),
        ("BatchRole", "kms:Decrypt", f"{KEY}1111aaaa"),
        ("BatchRole", "kms:GenerateDataKey", f"{KEY}2222bbbb"),
        ("BatchStateMachineRole", "lambda:InvokeFunction", FUNCTION),
        ("BatchStateMachineRole", "s3:GetObject", f"{OUT}/search/job/_job/shards.jsonl"),
        ("BatchStateMachineRole", "s3:PutObject", f"{OUT}/search/job/_job/results/1/a.json"),
        ("BatchStateMachineRole", "kms:GenerateDataKey", f"{KEY}2222bbbb"),
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
        ("BatchRole", "kms:GenerateDataKey", f"{KEY}1111aaaa"),
        ("BatchRole", "lambda:InvokeFunction", FUNCTION),
        ("BatchRole", "states:StartExecution", MACHINE),
        ("BatchStateMachineRole", "s3:GetObject", f"{IN}/texts/a.jsonl"),
        ("BatchStateMachineRole", "s3:GetObject", f"{OUT}/search/job/part-000000.parquet"),
        ("BatchStateMachineRole", "s3:PutObject", f"{OUT}/search/job/part-000000.parquet"),
        ("BatchStateMachineRole", "kms:Decrypt", f"{KEY}1111aaaa"),
        ("BatchStateMachineRole", "lambda:InvokeFunction", f"{FUNCTION}2"),
        ("BatchStateMachineRole", "states:StartExecution", f"{MACHINE}2"),
        ("BatchStateMachineRole", "states:StopExecution", CHILD.replace("one/", "one2/")),
    ],
)
def test_a_role_may_do_nothing_else(role_may, role, action, resource):
    """No other prefix, key, function or state machine, and no deletion."""
    assert not role_may(role, action, resource)


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


def test_a_failed_job_rejected_rows_and_throttles_alarm(template):
    """Each alarm notifies the topic, and its text has the section of the runbook."""
    alarms = {
        alarm["Properties"]["AlarmDescription"].rpartition("#")[2]: alarm["Properties"]
        for alarm in template.find_resources("AWS::CloudWatch::Alarm").values()
    }
    assert set(alarms) == {"batchfailed", "batchrejected", "batchthrottled"}
    assert alarms["batchfailed"]["MetricName"] == "ExecutionsFailed"
    # That of jobs: the ARN in the metrics of the map's children ends with the map's label.
    (dimension,) = alarms["batchfailed"]["Dimensions"]
    assert dimension["Name"] == "StateMachineArn"
    assert dimension["Value"]["Ref"].startswith("BatchStateMachine")
    assert alarms["batchrejected"]["Threshold"] == 1
    assert alarms["batchthrottled"]["MetricName"] == "Throttles"
    assert all(len(alarm["AlarmActions"]) == 1 for alarm in alarms.values())


def test_the_dashboards_row_shows_jobs_rows_and_load(template):
    """The metrics are those that the function writes."""
    (dashboard,) = template.find_resources("AWS::CloudWatch::Dashboard").values()
    body = json.dumps(dashboard["Properties"]["DashboardBody"])
    # 50 ms a row on 1,769 MB: 1.73 GB-s of Lambda, and 0.06 GB-s of Step Functions.
    (found,) = re.findall(r"duration / 1000 \* ([\d.]+)", body)
    assert 1_000_000 * 0.05 * float(found) == pytest.approx(1.15 + 0.05, abs=0.01)
    assert "rows / PERIOD(rows)" in body
    for name in ("ExecutionsSucceeded", "Rows", "RejectedRows", "Tokens", "ConcurrentExecutions"):
        assert f'\\"{name}\\"' in json.dumps(body) or f'"{name}"' in body.replace('\\"', '"')


def test_the_model_must_fit_into_the_memory(synthesize):
    """The need of a known model is checked at synth."""
    settings = BatchSettings(input="s3://documents", output="s3://vectors", memory_mb=128)
    gemma = Model(name="google/embeddinggemma-300m", accept_license="gemma")
    with pytest.raises(ValueError, match=r"batch\.memory_mb = 128; allowed: 256 or more"):
        synthesize(lambda s: EmbeddingBatch(s, "Batch", model=gemma, settings=settings))
