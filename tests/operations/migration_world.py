"""An environment with two models, on this machine: real ingestion, real searches, AWS by doubles.

Documents, lists and vectors are in the doubles of S3 and S3 Vectors, over HTTP. The jobs' own steps
fill the indexes, and Lambda's own handler answers, for each version with its model and index. The
double of the account has what else the commands call. Before each call of it a query is searched
through the alias, and now and then a document changes. Before a write it may end the command.
"""

import io
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from botocore.exceptions import ClientError
from botocore.session import get_session

from embedder.core.engine import Engine
from embedder.core.s3_vectors import SPACE_TAG, S3VectorsIndex, open_index
from embedder.http.apis.operation import ServedModel
from embedder.http.router import Router
from embedding_client import invocation_event
from embedding_kit.image_identity import index_id
from jobs.ingest.run import DocumentSteps, IngestConfig, ReconcileSteps, entry, open_documents
from operations import migration
from stacks.environment_file import load_environment
from tests.embedder.small_model import HashSession, WordTokenizer, manifest_of
from tests.fixtures.local_server import QuietHandler, serving
from tests.fixtures.s3_vectors.server import REGION, LocalS3Vectors
from tests.jobs.ingest.conftest import Context, KilledError, chunks_of, paragraphs, run_of
from tests.jobs.local_s3 import LocalS3

OLD, NEW = "sentence-transformers/all-MiniLM-L6-v2", "BAAI/bge-small-en-v1.5"
FILE = f"""region = "{REGION}"

[model]  # the first one
name = "{OLD}"

[index]

[ingest]
source = "s3://documents/docs/"

[release]
kind = "canary"
interval = "5m"
"""
#: What a migration adds, below [model].
STANDBY = f"""
# The next one.
[standby]
name = "{NEW}"
"""
ACCOUNT = "123456789012"
FUNCTION, STACK = "embedder", "EmbeddingKit-dev-Endpoint"
QUERY = "w17 w233 w408 w11"


class SaltedSession(HashSession):
    """A model with other vectors of the same dimensions."""

    salt = 0

    def _row(self, ids: Any) -> Any:
        return super()._row(np.append(ids, self.salt))


def engine_of(name: str) -> Engine:
    """Return the small model that stands for one of the catalog."""
    session = SaltedSession(dimensions=384)
    session.salt = len(name)
    manifest = manifest_of(dimensions=(384,), max_tokens=34)._replace(
        vector_space=f"{name}@1/fp32/0"
    )
    return Engine(manifest, WordTokenizer(), session)


@dataclass
class Ingested:
    """What `[ingest]` has of an index: a queue, a function, and a state machine."""

    messages: DocumentSteps
    reconciliation: ReconcileSteps
    events: list[str] = field(default_factory=list)
    letters: list[str] = field(default_factory=list)
    #: The executions, the newest first, each with the groups that are left.
    executions: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class World:
    """The account, the environment's file, and what was asked and answered."""

    s3: LocalS3
    vectors: LocalS3Vectors
    handle: Callable[[Router, Any, Any], dict[str, Any]]
    file: Path
    url: str = ""
    #: The model and the ingestion of each index by its ARN.
    engines: dict[str, Engine] = field(default_factory=dict)
    ingested: dict[str, Ingested] = field(default_factory=dict)
    #: The outputs of the index's stack: what ingests now.
    kept: set[str] = field(default_factory=set)
    #: The versions of the function: index and router.
    versions: dict[str, tuple[str, Router]] = field(default_factory=dict)
    alias: dict[str, Any] = field(default_factory=dict)
    status: str = "UPDATE_COMPLETE"
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    standby: Router | None = None
    #: Whether a release that a killed command leaves succeeds.
    completes: bool = False
    #: The version before the release that runs.
    before: str = ""
    since_release: timedelta = timedelta(hours=1)
    #: Whether a command ends before each of its writes, once.
    kills: bool = False
    #: The number of the step, and its writes by their names since it was started.
    step: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    writes: set[tuple[int, str]] = field(default_factory=set)
    #: Before what the steps ended: step, name, and which one or how many of that name came before.
    killed: set[tuple[int, str, object]] = field(default_factory=set)
    searches: int = 0
    #: Answers of other kinds than 200, and those of another space than the index's.
    failed: int = 0
    mixed: int = 0
    #: Whether documents change meanwhile.
    changes: bool = True
    opened: list[S3VectorsIndex] = field(default_factory=list)
    rng: random.Random = field(default_factory=lambda: random.Random(31))

    def write(self, what: str, which: object = None) -> None:
        """End the command before a write before which it has not ended yet.

        `which` identifies a write that a repeated step does not do again.
        """
        self.tick()
        place = (self.step, what, self.counts[what] if which is None else which)
        self.counts[what] += 1
        if self.kills and place not in self.killed:
            self.killed.add(place)
            raise KilledError(what)
        self.writes.add((self.step, what))

    def tick(self) -> None:
        """Search once; change a document and deliver events now and then."""
        if not self.alias:
            return
        self.search()
        if self.changes and self.searches % 4 == 0:
            self.put(f"d{self.rng.randrange(8)}.md", *paragraphs(self.rng, 2))
        if self.searches % 7 == 0:
            self.deliver()

    def search(self, query: str = QUERY) -> Any:
        """Ask the alias; compare the answer's space with that of the index which it searched."""
        weights = (self.alias.get("RoutingConfig") or {}).get("AdditionalVersionWeights", {})
        version = self.alias["FunctionVersion"]
        for other, share in weights.items():
            version = other if self.rng.random() < share else version
        self.searches += 1
        body = json.dumps({"query": query, "top_k": 5})
        answer = self.handle(self.versions[version][1], event_of("/search", body), None)
        found = json.loads(answer["body"])
        if answer["statusCode"] != 200 or not found["results"]:
            self.failed += 1
            return found
        asked = next(call for name, call in reversed(self.vectors.calls) if name == "QueryVectors")
        tag = self.vectors.indexes[asked["indexArn"]].tags[SPACE_TAG]
        engine = self.engines[asked["indexArn"]]
        best = found["results"][0]
        vectors = engine.embed([query, best["text"]]).vectors
        is_same = found["vector_space"] == tag == engine.vector_space()
        # The score of the answer is that of two vectors of this model, too.
        self.mixed += not (is_same and abs(float(vectors[0] @ vectors[1]) - best["score"]) < 1e-4)
        return found["results"]

    def put(self, key: str, *parts: str) -> None:
        """Write a document; each ingestion gets its event."""
        self.s3.objects[f"documents/docs/{key}"] = "\n\n".join(parts).encode()
        detail = {"bucket": {"name": "documents"}, "object": {"key": f"docs/{key}"}}
        event = json.dumps({"time": "2026-11-25T00:00:00Z", "detail": detail})
        for arn in self.kept & self.ingested.keys():
            self.ingested[arn].events.append(event)

    def deliver(self) -> None:
        """Hand all events to the functions."""
        for one in self.ingested.values():
            events, one.events[:] = list(one.events), []
            records = [{"messageId": str(n), "body": body} for n, body in enumerate(events)]
            handler = entry(run_of(one.messages), run_of(one.reconciliation))
            assert handler({"Records": records}, Context()) == {"batchItemFailures": []}

    def is_equal(self, index: str) -> bool:
        """Return whether an index has exactly the chunks of the documents."""
        documents = self.ingested[index].messages._documents
        paths = [path for path in self.s3.objects if path.startswith("documents/docs/")]
        keys = (path.removeprefix("documents/docs/") for path in paths)
        wanted = {name for key in keys for name in chunks_of(documents, key)}
        return set(self.vectors.indexes[index].vectors) == wanted

    def run(self, step: str, *options: str) -> int:
        """Run the command."""
        self.counts.clear()
        return migration.main(["dev", step, *options])

    def index_of(self, model: str) -> str:
        """Return the ARN of a model's index."""
        space = engine_of(model).vector_space()
        return next(arn for arn, one in self.engines.items() if one.vector_space() == space)

    # What `scripts/deploy` and CloudFormation do.

    def deploy(self, *_given: Any) -> int:
        """Deploy the file as it is."""
        self.settle()
        environment = load_environment("dev", folder=self.file.parent)
        tables = {"": environment.model, "Standby": environment.standby}
        outputs, ids = {"DocumentsUrl": "s3://documents/docs/"}, {}
        for role, model in tables.items():
            if model is None:
                continue
            ids[role] = index_id(model, environment.index, key_arn=None)
            name = ids[role].lower()
            arn = f"arn:aws:s3vectors:{REGION}:{ACCOUNT}:bucket/vectors/index/{name}"
            if arn not in self.vectors.indexes:
                self.write("index")
                self.vectors.create(name, 384, non_filterable=("text",))
                self.engines[arn] = engine_of(model.name)
            if environment.ingest and arn not in self.ingested:
                self.write("ingestion")
                self.ingested[arn] = self._ingestion(arn, self.engines[arn])
            machine = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{name}"
            outputs |= {
                f"{role}IndexArn": arn,
                f"{role}IngestStateMachineArn": machine,
                f"{role}DeadLettersUrl": f"letters/{arn}",
                f"{role}EventsUrl": arn,
                f"{role}IngestFunctionName": name,
            }
        self.write("index stack")
        self.outputs["EmbeddingKit-dev-Index"], self.ids = outputs, ids
        self.kept = set(outputs.values())
        version = self._published(environment.model.name, outputs["IndexArn"])
        self.before, self.status = self.alias.get("FunctionVersion", version), "UPDATE_IN_PROGRESS"
        if version != self.before:
            self.alias["RoutingConfig"] = {"AdditionalVersionWeights": {version: 0.5}}
            for _ in range(2):
                self.write("traffic")
        self.alias = {"FunctionVersion": version}
        if environment.standby:
            self.standby = self.router(environment.standby.name, outputs["StandbyIndexArn"])
            outputs = {"StandbyFunctionArn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:s:1"}
        else:
            outputs = {}
        alias = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{FUNCTION}:live"
        self.outputs[STACK] = {"AliasArn": alias, "Url": self.url, **outputs}
        self.status = "UPDATE_COMPLETE"
        return 0

    def settle(self) -> None:
        """End what AWS goes on with after a command has ended: a release, or its rollback."""
        if self.status != "UPDATE_IN_PROGRESS":
            return
        weights = self.alias.get("RoutingConfig", {}).get("AdditionalVersionWeights", {})
        is_complete = self.completes and weights
        self.alias = {"FunctionVersion": next(iter(weights)) if is_complete else self.before}
        self.status = "UPDATE_COMPLETE" if is_complete else "UPDATE_ROLLBACK_COMPLETE"

    def _published(self, model: str, index: str) -> str:
        newest = max(self.versions, key=int, default="0")
        if newest != "0" and self.versions[newest][0] == index:
            return newest
        self.write("version")
        number = str(int(newest) + 1)
        self.versions[number] = (index, self.router(model, index))
        return number

    def router(self, model: str, index: str) -> Router:
        """Return what a version of the function with a model and an index serves."""
        engine = engine_of(model)
        opened = open_index(index, endpoint=self.vectors.url, spaces=[engine.vector_space()])
        self.opened.append(opened)
        return Router(ServedModel(engine, opened))

    def _ingestion(self, arn: str, engine: Engine) -> Ingested:
        settings = IngestConfig(
            source="s3://documents/docs/",
            records="s3://documents/_ingest",
            index=arn,
            dead_letters="",
            chunk_tokens=24,
            overlap_tokens=4,
        )
        letters: list[str] = []
        messages, reconciliation = open_documents(settings, engine, send=letters.append)
        return Ingested(messages, reconciliation, letters=letters)

    # The AWS session of the commands.

    def create_client(self, name: str, *, region_name: str | None = None) -> Any:
        """Return the double of a service; of S3 Vectors, botocore's own client."""
        assert region_name in {None, REGION}
        if name != "s3vectors":
            return _Client(self, name)
        client = get_session().create_client(name, region_name=REGION)
        client.meta.events.register("before-call.s3vectors.DeleteIndex", self._delete_index)
        return client

    def _delete_index(self, **_: Any) -> None:
        self.write("delete index")

    def get_config_variable(self, _: str) -> str:
        """Return the region of the profile."""
        return REGION


#: Operations with one answer.
_FIXED = {
    "_sts_get_caller_identity": {"Account": ACCOUNT},
    "_codedeploy_get_deployment_group": {
        "deploymentGroupInfo": {"lastSuccessfulDeployment": {"deploymentId": "d"}}
    },
    "_lambda_list_functions": {"Functions": [{"FunctionName": FUNCTION}]},
    "_ecs_list_task_definitions": {"taskDefinitionArns": []},
    "_ecs_list_clusters": {"clusterArns": []},
    "_s3_get_bucket_notification_configuration": {},
    "_cloudwatch_get_metric_statistics": {"Datapoints": []},
}


class _Client:
    """The operations of a service that the commands call, as botocore's client has them."""

    def __init__(self, world: World, service: str) -> None:
        self.world, self.service = world, service

    def __getattr__(self, name: str) -> Any:
        name_there = f"_{self.service}_{name}"
        operation = globals().get(name_there) or (lambda *_: _FIXED[name_there])

        def call(**asked: Any) -> Any:
            if name != "invoke":  # from threads
                self.world.tick()
            return operation(self.world, asked)

        return call

    def get_paginator(self, name: str) -> Any:
        """Return one page."""
        return SimpleNamespace(paginate=lambda **asked: [getattr(self, name)(**asked)])

    def get_waiter(self, _: str) -> Any:
        """Return one that does not wait."""
        return SimpleNamespace(wait=lambda **_: None)


def _missing() -> ClientError:
    return ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "none"}}, "any")


def _cloudformation_describe_stacks(world: World, asked: dict[str, Any]) -> Any:
    outputs = world.outputs.get(asked["StackName"], {})
    listed = [{"OutputKey": key, "OutputValue": value} for key, value in outputs.items()]
    return {"Stacks": [{"StackStatus": world.status, "Outputs": listed}]}


def _cloudformation_get_template(world: World, asked: dict[str, Any]) -> Any:
    if asked["StackName"].endswith("-Index"):
        values = {role: {"Fn::GetAtt": [f"Index{one}1234", "A"]} for role, one in world.ids.items()}
        outputs = {f"{role}IndexArn": {"Value": value} for role, value in values.items()}
        return {"TemplateBody": {"Outputs": outputs}}
    version = {"Fn::GetAtt": ["Version", "Version"]}
    alias = {
        "Type": "AWS::Lambda::Alias",
        "Properties": {"Name": "live", "FunctionVersion": version},
        "UpdatePolicy": {"CodeDeployLambdaAliasUpdate": {}},
    }
    return {"TemplateBody": {"Resources": {"Alias": alias}}}


def _cloudformation_list_stack_resources(_world: World, _asked: dict[str, Any]) -> Any:
    kinds = ("Application", "DeploymentGroup")
    found = [
        {"ResourceType": f"AWS::CodeDeploy::{kind}", "PhysicalResourceId": kind} for kind in kinds
    ]
    return {"StackResourceSummaries": found}


def _cloudformation_update_stack(world: World, asked: dict[str, Any]) -> Any:
    world.write("rollback")
    alias = json.loads(asked["TemplateBody"])["Resources"]["Alias"]
    world.alias = {"FunctionVersion": alias["Properties"]["FunctionVersion"]}


def _codedeploy_list_deployments(world: World, _asked: dict[str, Any]) -> Any:
    return {"deployments": ["d"] if world.status == "UPDATE_IN_PROGRESS" else []}


def _codedeploy_stop_deployment(world: World, _asked: dict[str, Any]) -> Any:
    world.write("stop")
    world.completes = False
    world.settle()


def _codedeploy_get_deployment(world: World, _asked: dict[str, Any]) -> Any:
    return {"deploymentInfo": {"completeTime": datetime.now(UTC) - world.since_release}}


def _lambda_get_alias(world: World, _asked: dict[str, Any]) -> Any:
    return dict(world.alias)


def _lambda_get_function_configuration(world: World, asked: dict[str, Any]) -> Any:
    if asked["FunctionName"] != FUNCTION:
        return {"MemorySize": 1769}
    if asked["Qualifier"] not in world.versions:
        raise _missing()
    return _configuration(world, asked["Qualifier"])


def _configuration(world: World, version: str) -> dict[str, Any]:
    variables = {"EMBEDDING_VECTOR_INDEX": world.versions[version][0]}
    return {"FunctionName": FUNCTION, "Version": version, "Environment": {"Variables": variables}}


def _lambda_list_versions_by_function(world: World, _asked: dict[str, Any]) -> Any:
    listed = [_configuration(world, version) for version in world.versions]
    latest = _configuration(world, max(world.versions, key=int)) | {"Version": "$LATEST"}
    return {"Versions": [latest, *listed]}


def _lambda_delete_function(world: World, asked: dict[str, Any]) -> Any:
    world.write("delete version", asked["Qualifier"])
    del world.versions[asked["Qualifier"]]


def _lambda_invoke(world: World, asked: dict[str, Any]) -> Any:
    answer = world.handle(world.versions[asked["Qualifier"]][1], json.loads(asked["Payload"]), None)
    return {"Payload": io.BytesIO(json.dumps(answer).encode())}


def _sqs_get_queue_attributes(world: World, asked: dict[str, Any]) -> Any:
    one = world.ingested[asked["QueueUrl"].removeprefix("letters/")]
    count = len(one.letters if asked["QueueUrl"].startswith("letters/") else one.events)
    return {
        "Attributes": {name: str(count) for name in asked["AttributeNames"][:1]}
        | dict.fromkeys(asked["AttributeNames"][1:], "0")
    }


def _of_machine(world: World, arn: str) -> Ingested:
    name = arn.partition(":stateMachine:")[2] or arn.partition(":execution:")[2].partition(":")[0]
    return next(one for index, one in world.ingested.items() if index.endswith(f"/{name}"))


def _stepfunctions_list_executions(world: World, asked: dict[str, Any]) -> Any:
    return {"executions": _of_machine(world, asked["stateMachineArn"]).executions}


def _stepfunctions_start_execution(world: World, asked: dict[str, Any]) -> Any:
    world.write("comparison")
    one = _of_machine(world, asked["stateMachineArn"])
    plan = one.reconciliation.run({"step": "plan", "defaults": {}, "job": {}})
    lines = world.s3.objects[f"{plan['bucket']}/{plan['groups_key']}"].splitlines()
    groups = [json.loads(line) for line in lines]
    one.executions.insert(
        0,
        {
            "name": asked["name"],
            "status": "RUNNING",
            "startDate": datetime.now(UTC),
            "folder": plan["folder"],
            "groups": groups,
            "total": len(groups),
        },
    )


def _stepfunctions_describe_execution(world: World, asked: dict[str, Any]) -> Any:
    one = _of_machine(world, asked["executionArn"])
    found = next(e for e in one.executions if asked["executionArn"].endswith(f":{e['name']}"))
    if found["status"] == "RUNNING" and found["groups"]:
        # A look later, one more group is done.
        world.write("group", len(found["groups"]))
        group = {"step": "group", "folder": found["folder"], "group": found["groups"].pop(0)}
        one.reconciliation.run(group)
    elif found.get("fails"):
        found |= {"status": "FAILED", "error": "TimedOut"}
    elif found["status"] == "RUNNING":
        result = one.reconciliation.run({"step": "finish", "folder": found["folder"]})
        found |= {"status": "SUCCEEDED", "output": json.dumps(result)}
    return {
        "executionArn": asked["executionArn"],
        "input": "{}",
        "stopDate": datetime.now(UTC),
        **found,
    }


def _stepfunctions_list_map_runs(_world: World, asked: dict[str, Any]) -> Any:
    return {"mapRuns": [{"mapRunArn": asked["executionArn"]}]}


def _stepfunctions_describe_map_run(world: World, asked: dict[str, Any]) -> Any:
    one = _of_machine(world, asked["mapRunArn"])
    found = next(e for e in one.executions if asked["mapRunArn"].endswith(f":{e['name']}"))
    done = found["total"] - len(found["groups"])
    return {"itemCounts": {"total": found["total"], "succeeded": done}}


def event_of(path: str, body: str) -> dict[str, Any]:
    """Return the event of a request with a body."""
    event: dict[str, Any] = json.loads(invocation_event("POST", path, body.encode()))
    return event


def serve(world: World) -> Iterator[None]:
    """Serve the Function URL of the alias, and Lambda's Invoke of the standby's function."""

    class Handler(QuietHandler):
        def respond(self) -> None:
            body = self.read_body().decode()
            if self.path.startswith("/2015-03-31/functions/"):
                answer = world.handle(world.standby, json.loads(body), None)
                self.answer(200, json.dumps(answer).encode(), content_type="application/json")
                return
            router = world.versions[world.alias["FunctionVersion"]][1]
            answer = world.handle(router, event_of(self.path, body), None)
            body = answer["body"].encode()
            self.answer(answer["statusCode"], body, content_type="application/json")

    with serving(Handler) as world.url:
        yield
        for index in world.opened:
            index.forget()
