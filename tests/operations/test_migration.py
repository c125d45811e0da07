"""`scripts/migrate`, acted out: two models, real ingestion and searches, kills at each write."""

import io
import json
import shlex
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from subprocess import CalledProcessError
from types import SimpleNamespace
from typing import Any

import pytest

from embedder.core.artifact import Artifact
from embedder.core.s3_vectors import SPACE_TAG
from embedding_client import EmbeddingClient, VectorSpaceError, _ingest_command, _jobs
from embedding_kit.settings import ModelSettings
from jobs.embed.job import Job
from jobs.embed.run import finish_job, plan_job
from jobs.embed.worker import embed_shard
from jobs.load import index_client
from jobs.load.__main__ import main as load
from jobs.load.index_client import IndexClient
from jobs.storage import open_folder
from operations import command, deploy, environment_tables, migration, older_file
from stacks.environment import EnvironmentSettings
from stacks.environment_file import load_environment
from tests.docs.pages import SKILL, blocks
from tests.fixtures.s3_vectors.server import local_s3_vectors
from tests.jobs.conftest import s3
from tests.jobs.ingest.conftest import KilledError, paragraphs
from tests.operations.migration_world import (
    FILE,
    NEW,
    OLD,
    QUERY,
    STANDBY,
    World,
    engine_of,
    event_of,
    serve,
)

__all__ = ["s3"]

QUERIES = [QUERY, "w5 w250", "w99 w100 w101"]


@pytest.fixture
def worlds(s3, tmp_path, monkeypatch, minilm_artifact: Artifact) -> Iterator[Any]:
    """Return a function that makes an environment that searches documents with the old model."""
    monkeypatch.setenv("EMBEDDING_ARTIFACT", str(minilm_artifact.folder))
    monkeypatch.setattr(index_client, "_ATTEMPTS", 1)
    no_wait = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: None)
    monkeypatch.setattr(migration, "time", no_wait)
    from embedder.aws_lambda.handler import handle_event

    folder = tmp_path / "environments"
    folder.mkdir()
    for module in (command, migration):
        monkeypatch.setattr(module, "ENVIRONMENTS", folder)
    ends, edit_file = [], environment_tables._write

    def make(text: str = FILE) -> World:
        s3.objects.clear()
        manager = local_s3_vectors()
        vectors = manager.__enter__()
        ends.append(lambda: manager.__exit__(None, None, None))
        vectors.any_credentials = True
        world = World(s3, vectors, handle_event, folder / "dev.toml")
        served = serve(world)
        next(served)
        ends.append(lambda: next(served, None))
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3VECTORS", vectors.url)
        monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", world.url)
        monkeypatch.setattr(migration, "session_for", lambda *_, **__: world)
        monkeypatch.setattr(migration, "deploy", world.deploy)

        def write_file(*edit: Any) -> None:
            world.write("file")
            edit_file(*edit)

        monkeypatch.setattr(environment_tables, "_write", write_file)
        for module in (_ingest_command, _jobs):
            monkeypatch.setattr(
                module, "aws_client", lambda service, *_, **__: world.create_client(service)
            )
        for number in range(8):
            world.put(f"d{number}.md", *paragraphs(world.rng, 3))
        world.file.write_text(text)
        world.deploy()
        if world.ingested:
            compared(world)
        world.file.write_text(text.replace("\n[index]", f"{STANDBY}\n[index]"))
        return world

    yield make
    for end in reversed(ends):
        end()


@pytest.fixture
def world(worlds) -> World:
    return worlds()


def compared(world: World) -> None:
    """Let all documents be brought into the first index."""
    machines = world.create_client("stepfunctions")
    (arn,) = world.ingested
    machine = f"arn:aws:states:eu-central-1:1:stateMachine:{arn.rpartition('/')[2]}"
    machines.start_execution(stateMachineArn=machine, name="first")
    execution = f"{machine.replace(':stateMachine:', ':execution:')}:first"
    while machines.describe_execution(executionArn=execution)["status"] == "RUNNING":
        world.deliver()
    # Before that, there was nothing to find.
    world.searches = world.failed = 0
    world.writes.clear()


def act(world: World, *arguments: str) -> None:
    """Run a step until it ends; AWS goes on with what a killed one has begun."""
    world.step += 1
    while True:
        try:
            assert world.run(*arguments) == 0
        except KilledError:
            world.settle()
        else:
            return


def answers(world: World) -> list[Any]:
    """Return the answers to some queries, once all changes are in the indexes."""
    world.changes = False
    world.deliver()
    found = [world.search(query) for query in QUERIES]
    world.changes = True
    return found


def migrate(world: World) -> None:
    """Go through all steps, and once back."""
    act(world, "status")
    act(world, "copy")
    world.put("late.md", *paragraphs(world.rng, 2))
    world.deliver()
    old, new = world.index_of(OLD), world.index_of(NEW)
    assert world.is_equal(old)
    assert world.is_equal(new)
    before = answers(world)
    world.changes = False
    act(world, "switch")
    assert set(world.alias) == {"FunctionVersion"}
    after = answers(world)
    assert after != before
    world.changes = False
    act(world, "back")
    assert answers(world) == before
    assert load_environment("dev", folder=world.file.parent).model.name == OLD
    act(world, "copy")
    act(world, "switch")
    act(world, "status")
    world.deliver()
    assert world.is_equal(old)
    act(world, "finish", "--yes")
    world.put("last.md", *paragraphs(world.rng, 2))
    world.deliver()
    assert world.is_equal(new)
    assert list(world.vectors.indexes) == [new]
    assert {index for index, _ in world.versions.values()} == {new}
    environment = load_environment("dev", folder=world.file.parent)
    assert (environment.model.name, environment.standby) == (NEW, None)
    assert (world.failed, world.mixed) == (0, 0)


def test_a_migration_goes_forth_and_back_under_searches(world, capsys):
    """Changes land in both indexes, no search fails, and after `back` the answers are the old."""
    migrate(world)
    assert world.searches > 100
    shown = capsys.readouterr().out
    assert "groups of documents" not in shown
    assert f"{NEW} (384 dimensions) answers" in shown


@pytest.mark.slow
def test_the_commands_of_the_skill_migrate(world, tmp_path, monkeypatch):
    """As they are written, in their order; then only the new model and its index are left."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.input", lambda: "y")
    (tmp_path / "queries.txt").write_text("\n".join(QUERIES))
    (block,) = (one for one in blocks(SKILL.read_text(), "bash") if "scripts/migrate" in one)
    old = world.index_of(OLD)
    for line in block.splitlines():
        script, environment, *step = shlex.split(line)
        assert (script, environment) == ("scripts/migrate", "dev")
        world.changes = False
        act(world, *step)
    assert load_environment("dev", folder=world.file.parent).model.name == NEW
    assert old not in world.vectors.indexes


@pytest.mark.slow
def test_each_step_can_be_killed_before_each_write_and_repeated(worlds):
    """Of the file, of the deploy and its release, of a comparison, a rollback, and a deletion."""
    plain = worlds()
    migrate(plain)
    for completes in (False, True):
        world = worlds()
        world.kills, world.completes = True, completes
        migrate(world)
        assert {(step, what) for step, what, _ in world.killed} >= plain.writes


def test_a_copy_attaches_to_a_comparison_and_starts_one_that_failed_again(world, capsys):
    """Progress goes to stderr; the copy ends when nothing is left to do."""
    world.deploy()
    (one,) = (made for made in world.ingested.values() if not made.executions)
    one.executions.append({"name": "broken", "status": "FAILED", "startDate": datetime.now(UTC)})
    act(world, "copy")
    names = [execution["name"] for execution in one.executions]
    running = next(name for name in reversed(names) if name != "broken")
    assert f"{running}: 1 of 1 groups of documents" in capsys.readouterr().err
    one.executions[0] |= {"status": "RUNNING", "groups": []}
    act(world, "copy")
    assert [execution["name"] for execution in one.executions] == names
    assert f"the index of {NEW} (384 dimensions) is complete" in capsys.readouterr().out


def test_a_copy_compares_again_until_no_document_is_busy(world):
    """A busy one was being written by another run, and may not be in the new index."""
    world.deploy()
    (one,) = (made for made in world.ingested.values() if not made.executions)
    run, busy = one.reconciliation.run, [0, 1]

    def counted(event: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = run(event)
        return found | {"changed": 0, "busy": busy.pop()} if event["step"] == "finish" else found

    one.reconciliation.run = counted
    act(world, "copy")
    assert len(one.executions) == 2


def test_a_comparison_that_fails_ends_the_copy(world, capsys):
    """The same command starts another one."""
    world.deploy()
    (one,) = (made for made in world.ingested.values() if not made.executions)
    one.executions.append({"name": "x", "status": "RUNNING", "startDate": datetime.now(UTC)})
    one.executions[0] |= {"groups": [], "total": 0, "folder": "", "fails": True}
    assert world.run("copy") == 1
    assert "the comparison x must succeed; found: failed" in capsys.readouterr().err


def test_the_answers_of_both_models_are_compared(world, tmp_path, capsys):
    """By their documents, in JSON and in words."""
    act(world, "copy")
    world.changes = False
    queries = tmp_path / "queries.txt"
    queries.write_text("w17 <b>w233\nw408 w11\n")
    capsys.readouterr()
    act(world, "compare", "--queries", str(queries), "--json")
    report = json.loads(capsys.readouterr().out)
    documents = {
        name: [
            {match["metadata"]["document"] for match in ask(world, name, query)}
            for query in queries.read_text().split("\n")[:2]
        ]
        for name in (OLD, NEW)
    }
    overlaps = [
        len(one & other) / max(len(one), len(other))
        for one, other in zip(documents[OLD], documents[NEW], strict=True)
    ]
    assert report["overlaps"] == pytest.approx(overlaps, abs=1e-4)
    assert report["overlap_lowest"] == min(report["overlaps"])
    assert [model["name"] for model in report["models"]] == [
        f"{name} (384 dimensions)" for name in (OLD, NEW)
    ]
    assert all(model["p95_ms"] >= model["p50_ms"] > 0 for model in report["models"])
    act(world, "compare", "--queries", str(queries))
    shown = capsys.readouterr().out
    assert "overlap@10  mean " in shown
    assert "  w17 <b>w233\n  A d" in shown
    queries.write_text("")
    assert world.run("compare", "--queries", str(queries)) == 1
    assert "has no queries; allowed: 1 or more" in capsys.readouterr().err


def ask(world: World, model: str, query: str) -> list[Any]:
    """Return the first ten answers of a model."""
    router = world.router(model, world.index_of(model))
    body = json.dumps({"query": query, "top_k": 10})
    found: list[Any] = json.loads(world.handle(router, event_of("/search", body), None)["body"])[
        "results"
    ]
    return found


def test_the_texts_of_a_batch_job_are_copied(worlds, tmp_path, monkeypatch, capsys):
    """By the standby's function, into its index, with ids and metadata; a killed copy goes on."""
    world = worlds(FILE.replace('[ingest]\nsource = "s3://documents/docs/"', ""))
    rows = [
        {"id": f"r{n}", "text": " ".join(paragraphs(world.rng, 1)), "year": n} for n in range(9)
    ]
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    source, destination = str(tmp_path / "texts"), str(tmp_path / "vectors")
    metadata = ("text", "year")
    job = Job(source=source, destination=destination, id="id", metadata=metadata, shard_bytes=400)
    engine = engine_of(OLD)
    plan = plan_job(job, engine.manifest)
    for shard in plan.shards:
        embed_shard(engine, open_folder(job.source), open_folder(plan.folder), shard, job)
    finish_job(plan)
    settings = {"source": plan.folder, "index": world.index_of(OLD)}
    assert load([json.dumps({"settings": settings})]) == 0
    bare = plan_job(replace(job, metadata=("year",)), engine.manifest)
    for shard in bare.shards:
        embed_shard(engine, open_folder(job.source), open_folder(bare.folder), shard, bare.job)
    finish_job(bare)
    assert world.run("copy", "--job", bare.folder) == 1
    assert "has its texts, as a column; found: year; allowed: " in capsys.readouterr().err
    world.changes = False
    assert world.run("copy") == 1
    assert "found: neither [ingest] nor --job" in capsys.readouterr().err
    put, count = IndexClient.put, [1]

    def once(*arguments: Any) -> Any:
        count[0] -= 1
        if count[0] < 0:
            monkeypatch.setattr(IndexClient, "put", put)
            raise KilledError
        return put(*arguments)

    monkeypatch.setattr(IndexClient, "put", once)
    with pytest.raises(KilledError):
        world.run("copy", "--job", plan.folder)
    assert world.run("switch") == 1
    assert "all vectors are there; found: " in capsys.readouterr().err
    act(world, "copy", "--job", plan.folder)
    found = world.vectors.indexes[world.index_of(NEW)].vectors
    years = {key: (one.metadata["text"], one.metadata["year"]) for key, one in found.items()}
    # A batch job's metadata of JSONL are strings.
    assert years == {str(row["id"]): (row["text"], str(row["year"])) for row in rows}
    (vector,) = engine_of(NEW).embed([str(rows[0]["text"])]).vectors
    assert found["r0"].numbers == pytest.approx(vector, abs=1e-6)
    act(world, "switch")
    assert (world.failed, world.mixed) == (0, 0)


def test_what_a_step_refuses(world, capsys, monkeypatch):
    """Each message has the rule, what was found, and what is allowed; nothing changes."""

    def refused(message: str, *arguments: str) -> None:
        text = world.file.read_text()
        assert world.run(*arguments) == 1
        assert message in capsys.readouterr().err
        assert world.file.read_text() == text

    refused(
        "only copy, switch, finish pass options to scripts/deploy; found: back -x", "back", "-x"
    )
    refused(f"both models are deployed; found: not {NEW}", "compare", "--queries", "none.txt")
    refused(f"both indexes are deployed; found: not that of {NEW}", "switch")
    refused(
        "finish follows a switch; found: [standby] below [model] in environments/dev.toml; allowed:"
        f" scripts/migrate dev switch. To give up {NEW} (384 dimensions): take [standby] out, then "
        "finish again",
        "finish",
    )
    act(world, "copy")
    world.changes = False
    world.versions["9"] = (world.index_of(NEW), world.router(NEW, world.index_of(NEW)))
    world.alias["RoutingConfig"] = {"AdditionalVersionWeights": {"9": 0.1}}
    refused("is that of the model that does not answer", "compare", "--queries", "none.txt")
    world.alias.pop("RoutingConfig")
    del world.versions["9"]
    new = world.ingested[world.index_of(NEW)]
    output = json.loads(new.executions[0]["output"])
    new.executions[0]["output"] = json.dumps(output | {"refused": 2})
    refused("the new index refuses no document that the old one has; found: 2 refused", "switch")
    new.executions[0]["output"] = json.dumps(output | {"refused": 0, "busy": 1})
    refused("no document is left out; found: 1 busy", "switch")
    new.executions[0]["output"] = json.dumps(output | {"refused": 0})
    new.executions.insert(0, new.executions[0] | {"status": "TIMED_OUT"})
    refused("all documents are compared with the new index; found: timed_out", "switch")
    new.executions.pop(0)
    succeeded, new.executions[:] = list(new.executions), []
    new.executions.append({**succeeded[0], "status": "RUNNING"})
    refused("all documents are compared with the new index; found: running", "switch")
    new.executions[:] = succeeded
    index = world.vectors.indexes[world.index_of(NEW)]
    index.tags[SPACE_TAG] = "another@1/fp32/0/384"
    refused("another@1/fp32/0/384", "switch")
    index.tags[SPACE_TAG] = engine_of(NEW).vector_space()
    act(world, "switch")
    refused("a copy comes before the switch; found: [standby] above [model]", "copy")
    world.since_release = timedelta(minutes=2)
    refused("found: 2 minutes; allowed: 5 or more", "finish", "--yes")
    world.since_release = timedelta(hours=1)
    world.alias["RoutingConfig"] = {"AdditionalVersionWeights": {"1": 0.5}}
    refused("found: 50% of the requests are there", "finish", "--yes")
    world.alias.pop("RoutingConfig")
    world.status = "UPDATE_IN_PROGRESS"
    refused("100% of the requests are there, or a release runs; allowed: 100%, and", "finish")
    world.status = "UPDATE_COMPLETE"
    monkeypatch.setattr("sys.stdin", io.StringIO("no\n"))
    refused("a deletion is confirmed by yes, or --yes; nothing was changed", "finish")
    world.file.write_text(FILE)
    refused(
        "found: no such table in environments/dev.toml; allowed: [standby] below [model]", "back"
    )


def test_a_finish_deletes_only_the_index_that_it_listed(world, capsys):
    """Nobody has confirmed the end of another one, although nothing uses it."""
    act(world, "copy")
    act(world, "switch")
    world.vectors.create("other", 384)
    old, new = world.index_of(OLD), world.index_of(NEW)
    left = set(world.vectors.indexes) - {old}
    act(world, "finish", "--yes")
    assert set(world.vectors.indexes) == left > {new}
    assert f"that search it:\n  {old}\n" in capsys.readouterr().err


def test_the_index_of_a_version_that_answers_is_never_deleted(world):
    """Nor the version: after a rollback to it, the file alone does not name its index."""
    act(world, "copy")
    act(world, "switch")
    environment_tables.remove_table(world.file, "standby")
    world.deploy()
    world.alias = {"FunctionVersion": "1"}
    act(world, "finish", "--yes")
    assert world.index_of(OLD) in world.vectors.indexes
    assert "1" in world.versions


@pytest.mark.parametrize("is_deployed", [False, True])
def test_a_finish_asks_after_the_table_was_taken_out_by_hand(
    world, monkeypatch, capsys, is_deployed
):
    """It deploys the file, and names what it found: the file no longer names the earlier index."""
    act(world, "copy")
    act(world, "switch")
    environment_tables.remove_table(world.file, "standby")
    if is_deployed:
        world.deploy()
    old = world.index_of(OLD)
    monkeypatch.setattr("sys.stdin", io.StringIO("no\nyes\n"))
    assert world.run("finish") == 1
    assert f"that search it:\n  {old}\n" in capsys.readouterr().err
    assert old in world.vectors.indexes
    assert world.run("finish") == 0
    assert old not in world.vectors.indexes


def test_a_finish_without_the_table_gives_the_next_model_up(world):
    """Before a switch. A deploy of its own, which refuses an older file, is not needed."""
    act(world, "copy")
    new, old = world.index_of(NEW), world.index_of(OLD)
    environment_tables.remove_table(world.file, "standby")
    act(world, "finish", "--yes")
    assert world.index_of(OLD) == old in world.vectors.indexes
    assert new not in world.vectors.indexes


def test_back_takes_the_newest_version_of_the_earlier_model(world):
    """An older one has the code and the settings of before."""
    old = world.index_of(OLD)
    world.versions["2"] = (old, world.router(OLD, old))
    world.alias = {"FunctionVersion": "2"}
    act(world, "copy")
    act(world, "switch")
    act(world, "back")
    assert world.alias == {"FunctionVersion": "2"}


def test_a_switch_waits_for_events_of_the_new_index_alone(world, capsys, monkeypatch):
    """Then both indexes are equally far, and a busy bucket does not stop a switch."""
    act(world, "copy")
    world.deliver()
    event = json.dumps(
        {"time": "2026-11-25T00:00:00Z", "detail": {"object": {"key": "docs/d0.md"}}}
    )
    world.ingested[world.index_of(NEW)].events[:] = [event] * 5
    world.ingested[world.index_of(OLD)].events[:] = [event] * 2
    world.changes = False
    capsys.readouterr()
    calls: list[None] = []

    def deliver_late() -> None:
        calls.append(None)
        if len(calls) > 6:
            World.deliver(world)

    monkeypatch.setattr(world, "deliver", deliver_late)
    act(world, "switch")
    assert "events: 3 wait\n" in capsys.readouterr().err


def test_a_client_searches_on_after_a_switch(world):
    """Unless it has named the vector space that its answers must be of."""
    act(world, "copy")
    space = engine_of(OLD).vector_space()
    with (
        EmbeddingClient(world.url) as client,
        EmbeddingClient(world.url, vector_space=space) as own,
    ):
        before = [one.search(QUERY, top=3, candidates=10) for one in (client, own)]
        assert before[0] == before[1]
        act(world, "switch")
        assert client.search(QUERY, top=3, candidates=10) != before[0]
        with pytest.raises(VectorSpaceError, match="cannot be compared"):
            own.search(QUERY, top=3, candidates=10)


@pytest.mark.parametrize(("status", "wanted"), [(0, 0), (3, 3), (1, CalledProcessError)])
def test_a_deploy_is_that_of_the_script(tmp_path, monkeypatch, status, wanted):
    """With its options. A failed check of the doctor, 3, does not end the step."""
    script = tmp_path / "scripts" / "deploy"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\necho "$@" > {shlex.quote(str(tmp_path))}/given\nexit {status}\n')
    script.chmod(0o755)
    monkeypatch.setattr(migration, "ENVIRONMENTS", tmp_path / "environments")
    given = Namespace(cdk_options=["--no-doctor", "-c", "a b"])
    environment = EnvironmentSettings(name="dev", model=ModelSettings(name=OLD))
    with pytest.raises(wanted) if status == 1 else nullcontext():
        assert migration.deploy(environment, given) == wanted
    assert (tmp_path / "given").read_text() == "dev --no-doctor -c a b\n"


def test_a_branch_has_no_migration_of_its_own(world, capsys):
    """The edit of the file would be another environment's."""
    assert migration.main(["dev/pr-1", "status"]) == 1
    assert "which a branch shares; found: dev/pr-1; allowed: dev" in capsys.readouterr().err


@pytest.fixture
def may_deploy(world, monkeypatch, capsys):
    """Return what the check of a deploy says of a file's text: nothing if it may be deployed."""
    monkeypatch.setattr(deploy, "session_for", lambda *_, **__: world)
    monkeypatch.setattr(deploy, "steps", lambda _: [deploy.check_age])

    def check(text: str, *options: str) -> str:
        kept = world.file.read_text()
        world.file.write_text(text)
        capsys.readouterr()
        status = deploy.main(["dev", *options])
        world.file.write_text(kept)
        said = capsys.readouterr().err
        assert status == bool(said)
        return said

    return check


def test_a_file_of_before_a_step_is_not_deployed(world, may_deploy, capsys):
    """A deploy without the commit of a step is refused, with the file that is right."""
    before_copy, with_standby = FILE, world.file.read_text()
    assert may_deploy(before_copy) == may_deploy(with_standby) == ""
    act(world, "copy")
    assert capsys.readouterr().out.endswith(
        "Commit environments/dev.toml before the next deploy, which refuses an older file\n"
    )
    assert may_deploy(with_standby) == ""
    lost = may_deploy(before_copy)
    assert "environments/dev.toml is older than what is deployed: it has no [standby], " in lost
    assert "or scripts/migrate dev finish, which ends that, or --allow-older-file for" in lost
    world.changes = False
    act(world, "switch")
    after_switch = world.file.read_text()
    assert may_deploy(after_switch) == ""
    stale = may_deploy(with_standby)
    assert f"{NEW} (384 dimensions) of [standby] answers all requests, and {OLD} (" in stale
    assert "allowed: the file as scripts/migrate dev switch or finish leaves it; to go " in stale
    assert may_deploy(before_copy) == lost.replace(
        world.index_of(NEW).rpartition("/")[2], world.index_of(OLD).rpartition("/")[2]
    )
    act(world, "finish", "--yes")
    assert may_deploy(world.file.read_text()) == ""
    assert may_deploy(with_standby) == stale
    gone = may_deploy(after_switch)
    assert f"{OLD} (384 dimensions) is not deployed; allowed: the file without [standby], " in gone
    assert "leaves it, or [standby] below [model] to begin a migration, or --allow-older-" in gone


def test_a_way_back_is_no_older_file(world, may_deploy):
    """After a rollback the file of the switch releases again, and after `back` its own file."""
    before = world.file.read_text()
    act(world, "copy")
    world.changes = False
    act(world, "switch")
    after = world.file.read_text()
    switched = world.alias
    world.alias = {"FunctionVersion": min(world.versions, key=int)}
    assert may_deploy(after) == may_deploy(before) == ""
    world.alias = switched
    act(world, "back")
    assert world.file.read_text() == before
    assert may_deploy(before) == may_deploy(after) == ""
    # Two versions share the requests: a release runs, which no deploy changes.
    world.alias = switched | {"RoutingConfig": {"AdditionalVersionWeights": {"1": 0.5}}}
    assert may_deploy(before) == ""


def test_an_older_file_is_deployed_if_somebody_says_so(world, may_deploy, monkeypatch):
    """At a terminal by yes, elsewhere by the option; the CDK's own --yes is no such answer."""
    older = world.file.read_text()
    act(world, "copy")
    world.changes = False
    act(world, "switch")
    assert may_deploy(older, "--allow-older-file") == ""
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    for answer, refused in (("n", True), ("", True), ("y", False)):
        monkeypatch.setattr("builtins.input", lambda answer=answer: answer)
        world.file.write_text(older)
        assert deploy.main(["dev"]) == refused
    monkeypatch.setattr("builtins.input", lambda: pytest.fail("asked"))
    assert "; nothing was deployed" in may_deploy(older, "--yes")


def test_an_older_file_of_a_branch_is_that_of_its_environment(world):
    """A branch has indexes of its own, which no step of the environment's migration has changed."""
    branch = load_environment("dev/pr-1", folder=world.file.parent)
    older_file.check_age(None, branch, ask=False)
