"""Test the loads of an index: function, state machine, permissions, alarm and dashboard."""

import json
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_kms as kms
from aws_cdk.assertions import Template

from embedding_kit import Hosting, IndexLoading, VectorIndex, VectorIndexSettings
from jobs.load.run import LoadSettings
from jobs.steps import read_settings
from tests.embedding_kit.endpoints import add_alarms
from tests.embedding_kit.roles import HOME, KEY, allowed, only, resolved

INDEX = f"arn:aws:s3vectors:us-east-1:{HOME}:bucket/one/index/one"
FUNCTION = f"arn:aws:lambda:us-east-1:{HOME}:function:one"
MACHINE = f"arn:aws:states:us-east-1:{HOME}:stateMachine:one"
CHILD = f"arn:aws:states:us-east-1:{HOME}:execution:one/Parts:1234"
JOBS = "arn:aws:s3:::vectors/search"
LOAD = f"{JOBS}/job/_load/1234abcd/0"


@pytest.fixture(scope="module")
def template(synthesize, model) -> Template:
    """Return the template of an index with loads, their alarm and a dashboard."""

    def build(stack: Stack) -> None:
        settings = VectorIndexSettings(filterable=("lang",), non_filterable=("url",))
        key = kms.Key.from_key_arn(stack, "Key", f"{KEY}3333cccc")
        loading = IndexLoading(
            stack,
            "Loading",
            model=model,
            index=VectorIndex(stack, "Index", model=model, settings=settings, key=key),
            source="s3://vectors/search/",
            settings=settings,
            name="test",
            hosting=Hosting(existing_keys=[f"{KEY}2222bbbb"]),
        )
        add_alarms(stack, loading)

    return synthesize(build)


def deployed(template: Template) -> dict[str, Any]:
    """Return the definition of the one state machine."""
    machine = only(template, "AWS::StepFunctions::StateMachine")
    return json.loads(resolved(machine["DefinitionString"]))


def test_the_state_machine_loads_its_own_index_with_the_columns_of_the_settings(template):
    """An execution's input can choose the job, other columns and the rejected share."""
    payload = deployed(template)["States"]["Plan"]["Parameters"]["Payload"]
    assert payload == {
        "step": "plan",
        "defaults": {"source": "s3://vectors/search/", "index": INDEX, "metadata": ["lang", "url"]},
        "job.$": "$",
    }
    assert read_settings(LoadSettings, payload["defaults"], name="A load")


def test_all_workers_together_keep_to_the_rate_of_an_index(template):
    """AWS takes 2,500 vectors a second."""
    parts = deployed(template)["States"]["Parts"]
    work = parts["ItemProcessor"]["States"]["Load"]["Parameters"]["Payload"]
    assert parts["MaxConcurrency"] * work["vectors_per_second"] == 2500


MAY = [
    ("LoadingRole", "s3:GetObject", f"{JOBS}/job/part-000000.parquet"),
    ("LoadingRole", "s3:PutObject", f"{LOAD}/done/part-000000.parquet.json"),
    ("LoadingRole", "kms:GenerateDataKey", f"{KEY}3333cccc"),
    ("LoadingRole", "s3vectors:PutVectors", INDEX),
    ("LoadingRole", "s3vectors:GetIndex", INDEX),
    ("LoadingStateMachineRole", "s3:GetObject", f"{LOAD}/parts.jsonl"),
    ("LoadingStateMachineRole", "s3:PutObject", f"{LOAD}/results/1/a.json"),
    ("LoadingStateMachineRole", "states:StopExecution", CHILD),
    ("LoadingStateMachineRole", "lambda:InvokeFunction", FUNCTION),
]
MAY_NOT = [
    ("LoadingRole", "s3:GetObject", "arn:aws:s3:::vectors/other/a"),
    ("LoadingRole", "s3:PutObject", f"{JOBS}/job/part-000000.parquet"),
    ("LoadingRole", "s3:PutObject", f"{JOBS}/job/_job/manifest.json"),
    ("LoadingRole", "s3:DeleteObject", f"{LOAD}/parts.jsonl"),
    ("LoadingRole", "s3vectors:DeleteVectors", INDEX),
    ("LoadingRole", "s3vectors:QueryVectors", INDEX),
    ("LoadingRole", "s3vectors:PutVectors", f"{INDEX}2"),
    ("LoadingStateMachineRole", "s3:GetObject", f"{JOBS}/job/part-000000.parquet"),
    ("LoadingStateMachineRole", "s3vectors:PutVectors", INDEX),
    ("LoadingStateMachineRole", "states:StartExecution", f"{MACHINE}2"),
]


def test_a_role_may_do_its_work_and_nothing_else(template):
    """The output of batch jobs is never changed, and no vector is read or deleted."""
    assert allowed(template, MAY + MAY_NOT) == MAY
