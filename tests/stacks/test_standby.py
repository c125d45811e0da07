"""Test a second model: what an exchange of the two changes, and who may search which index."""

import json
from typing import Any

import pytest
from aws_cdk import App

from stacks.environment import EnvironmentSettings
from stacks.environment_stacks import EnvironmentStacks
from tests.stacks.conftest import CONTEXT, NETWORK, VARIANTS, of_kind, templates_of

LIVE, STANDBY = "sentence-transformers/all-MiniLM-L6-v2", "BAAI/bge-small-en-v1.5"
#: What begins the ids of the two indexes, which `index_id` makes.
IDS = {LIVE: "Index880e133e", STANDBY: "Index9a9e8266"}


@pytest.fixture(scope="module")
def pair(environments):
    """Return the templates of an environment with all that searches, and of its exchange."""
    with_standby = environments["standby"]
    with_all = dict(with_standby) | {"network": NETWORK, "server": VARIANTS["server"]["server"]}

    def make(model: Any, standby: Any) -> dict[str, dict[str, Any]]:
        app = App(context=CONTEXT, analytics_reporting=False)
        switched = with_all | {"model": model, "standby": standby}
        EnvironmentStacks(app, EnvironmentSettings(**switched))
        return templates_of(app)

    return make(with_standby.model, with_standby.standby), make(
        with_standby.standby, with_standby.model
    )


def test_an_exchange_changes_no_resource_of_index_and_documents(pair):
    """The outputs alone say which model answers, so both indexes stay up to date meanwhile."""
    before, after = (templates["index"] for templates in pair)
    assert before["Resources"] == after["Resources"]
    outputs, exchanged = before["Outputs"], after["Outputs"]
    roles = ("IndexArn", "IngestStateMachineArn", "DeadLettersUrl", "EventsUrl")
    for name in (*roles, "IngestFunctionName"):
        assert outputs[name]["Value"] == exchanged[f"Standby{name}"]["Value"]
        assert outputs[f"Standby{name}"]["Value"] == exchanged[name]["Value"]
        assert outputs[name] != exchanged[name]
    assert IDS[LIVE] in json.dumps(outputs["IndexArn"])


def test_a_version_is_a_model_with_its_index(pair):
    """An alias that shifts between two versions never mixes their vector spaces."""
    for templates, (live, standby) in zip(pair, ((LIVE, STANDBY), (STANDBY, LIVE)), strict=True):
        searched = {
            properties["Description"]: _indexes(properties["Environment"])
            for properties in of_kind(templates["endpoint"], "AWS::Lambda::Function")
            if "EMBEDDING_VECTOR_INDEX" in json.dumps(properties)
        }
        assert searched == {f"Embeddings by {name}": {name} for name in (live, standby)}
        assert list(searched) == [f"Embeddings by {live}", f"Embeddings by {standby}"]
        (task,) = of_kind(templates["server"], "AWS::ECS::TaskDefinition")
        assert _indexes(task["ContainerDefinitions"]) == {live}


def test_each_role_searches_what_it_must(pair):
    """A version before the switch has the role of those after it, as a task of the server has.

    So the switch changes neither, and no version waits for a permission.
    """
    before, after = (
        {**_searching(environment, "endpoint"), **_searching(environment, "server")}
        for environment in pair
    )
    indexes_by_role = {
        role.rstrip("0123456789ABCDEF"): _indexes(policy) for role, policy in before.items()
    }
    assert indexes_by_role == {
        "EndpointCheckRole": {LIVE, STANDBY},
        "EndpointEmbedderRole": {LIVE, STANDBY},
        "StandbyRole": {STANDBY},
        "ServerTaskTaskRole": {LIVE, STANDBY},
    }
    changed = [role for role in before if before[role] != after[role]]
    assert [role.rstrip("0123456789ABCDEF") for role in changed] == ["StandbyRole"]


def test_each_queue_writes_into_one_index(pair):
    """The documents of one model never reach the index of the other."""
    writing = _searching(pair[0], "index").values()
    assert sorted(map(sorted, map(_indexes, writing))) == [[STANDBY], [LIVE]]


def test_another_space_is_released_only_with_its_index(synthesized, pair):
    """The check looks into the index of the version, which a second model has as well."""
    alone = synthesized("ingest").templates
    for templates, model in ((alone, None), (pair[0], LIVE), (pair[1], STANDBY)):
        (check,) = of_kind(templates["endpoint"], "Custom::ReleaseCheck")
        assert check["AllowVectorSpaceChange"] == "false"
        assert _indexes(check.get("Index")) == ({model} if model else set())


def test_a_second_model_that_falls_behind_is_noticed(pair):
    """Else a rollback would answer from an old index. The text says which of the two it is."""
    alarms = [
        properties["AlarmDescription"]
        for properties in of_kind(pair[0]["observability"], "AWS::CloudWatch::Alarm")
        if "Documents" in json.dumps(properties) or "Ingestion" in json.dumps(properties)
    ]
    of_standby = {text.removeprefix("Standby: ") for text in alarms if text[:7] == "Standby"}
    assert of_standby == {text for text in alarms if text[:7] != "Standby"}
    assert len(of_standby) == 5


def _searching(templates: dict[str, dict[str, Any]], stack: str) -> dict[str, Any]:
    """Return the policies that have permissions on an index, by the logical ids of their roles."""
    return {
        policy["Roles"][0]["Ref"]: policy["PolicyDocument"]
        for policy in of_kind(templates[stack], "AWS::IAM::Policy")
        if "s3vectors:" in json.dumps(policy)
    }


def _indexes(value: Any) -> set[str]:
    """Return the models of the indexes that a part of a template refers to."""
    text = json.dumps(value)
    return {model for model, index in IDS.items() if index in text}
