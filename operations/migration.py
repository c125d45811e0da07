"""Change the model of an environment without an outage: `scripts/migrate NAME STEP`.

The file has both models: the earlier one, and below it the next one as `[standby]`, which has an
index too. Ingestion keeps both indexes up to date. A switch exchanges the headers `[model]` and
`[standby]` and releases as usual: each version of the function searches the index of its own model,
so model and index move together, and a rollback finds an index that is up to date.

No step writes a state of its own. Each reads the file and AWS, so it can be killed and repeated.
The order of the two tables in the file is the direction: from the first to the second.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from botocore.session import Session

from embedding_client import (
    EmbeddingClient,
    EmbeddingClientError,
    Executions,
    TextSource,
    VectorIndex,
    ingest_status,
)
from embedding_client.doctor.release import traffic_shares
from embedding_kit.image_identity import index_id
from embedding_kit.programs import exit_with
from embedding_kit.settings import ModelSettings, VectorIndexSettings, index_dimension
from jobs.errors import BatchError
from operations.checkup import DEPLOYED_WITH_FAILED_CHECK
from operations.command import ENVIRONMENTS, command_parser, run_command
from operations.deployed import find_deployed, status_and_outputs
from operations.environment_session import confirm, session_for
from operations.environment_tables import exchange_models, read_table_names, remove_table
from operations.migration_report import compare, lines_of
from operations.packages import read_address
from operations.prune import PrunePlan, prune
from operations.rollback import roll_back
from operations.vector_store import find_store, list_versions, unused_indexes
from stacks.environment import EnvironmentSettings
from stacks.names import endpoint_stack_name, index_stack_name

#: The steps that scripts/deploy is a part of, which gets their further options.
_DEPLOYING = ("copy", "switch", "finish")
#: The steps after which the file is another one, or that need the table which somebody wrote there.
_EDITING = (*_DEPLOYING, "back")
#: The option of scripts/deploy that deploys a file which is older than what is deployed.
OLDER_FILE = "--allow-older-file"
#: Seconds between two looks at AWS.
_DELAY = 5


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status, that of scripts/deploy where a step deploys."""
    parser = command_parser("scripts/migrate", "Change the model of an environment in steps.")
    steps = parser.add_subparsers(dest="step", required=True, metavar="STEP")
    parsers = {
        name: steps.add_parser(name, help=description, description=description)
        for name, (_, description) in _STEPS.items()
    }
    parsers["copy"].add_argument("--job", metavar="FOLDER", help="a batch job with the texts")
    parsers["finish"].add_argument("--yes", action="store_true", help="delete without asking")
    queries = parsers["compare"]
    queries.add_argument("--queries", type=Path, required=True, metavar="FILE", help="texts")
    queries.add_argument("--column", default="text", help="the field with the query")
    queries.add_argument("--json", action="store_true", help="print JSON")
    failure = "the step did not end for {}"
    return run_command(parser, _act, arguments, failure=failure, takes_cdk_options=True)


def _act(environment: EnvironmentSettings, options: argparse.Namespace) -> int | None:
    step = options.step
    if options.cdk_options and step not in _DEPLOYING:
        raise ValueError(
            f"only {', '.join(_DEPLOYING)} pass options to scripts/deploy; found: {step} "
            f"{' '.join(options.cdk_options)}; allowed: those of {step} --help"
        )
    if environment.branch_of:
        raise ValueError(
            f"a migration edits {environment.file}, which a branch shares; found: "
            f"{environment.argument}; allowed: {environment.branch_of}"
        )
    if environment.standby is None and step not in {"finish", "status"}:
        raise ValueError(
            f"a migration is to the model of [standby]; found: no such table in {environment.file};"
            " allowed: [standby] below [model] (docs/migrate.md)"
        )
    session = session_for(environment, changes=step in _EDITING)
    run, _ = _STEPS[step]
    try:
        status = run(Migration(session, environment), options)
    except (EmbeddingClientError, BatchError) as error:
        raise ValueError(str(error)) from error
    if step in _EDITING:
        print(f"Commit {environment.file} before the next deploy, which refuses an older file")
    return status


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratedModel:
    """One of the two models, and its index."""

    model: ModelSettings
    #: The prefix of its outputs: "" or "Standby", as of the last deploy; None before it.
    role: str | None
    #: The ARN of the index; "" before a deploy.
    index: str

    def __str__(self) -> str:
        properties = [self.model.precision, f"{index_dimension(self.model)} dimensions"]
        return f"{self.model.name} ({', '.join(filter(None, properties))})"


@dataclass(frozen=True)
class Migration:
    """A migration as the file and AWS have it; the file has `[standby]` for `old` and `new`."""

    session: Session
    environment: EnvironmentSettings

    @property
    def command(self) -> str:
        """The command, for messages that name a step."""
        return f"scripts/migrate {self.environment.name}"

    @property
    def file(self) -> Path:
        """The environment's file."""
        return ENVIRONMENTS / f"{self.environment.name}.toml"

    def client(self, service: str) -> Any:
        """Return botocore's client of a service in the environment's region."""
        return self.session.create_client(service, region_name=self.environment.region)

    @cached_property
    def outputs(self) -> Mapping[str, str]:
        """The outputs of the deployed stacks of endpoint and index."""
        session, environment = self.session, self.environment
        (_, endpoint), (_, index) = (
            status_and_outputs(session, environment, name_of(environment.name))
            for name_of in (endpoint_stack_name, index_stack_name)
        )
        return endpoint | index

    @cached_property
    def is_exchanged(self) -> bool:
        """Whether the file has `[standby]` above `[model]`, as after a switch."""
        tables = read_table_names(self.file)
        return tables.index("standby") < tables.index("model")

    @cached_property
    def old(self) -> MigratedModel:
        """The earlier model, of the first table."""
        return self._of_table("standby" if self.is_exchanged else "model")

    @cached_property
    def new(self) -> MigratedModel:
        """The next model, of the second table."""
        return self._of_table("model" if self.is_exchanged else "standby")

    def _of_table(self, table: str) -> MigratedModel:
        environment = self.environment
        model = getattr(environment, table)
        key = environment.encryption.key if environment.encryption else None
        logical_id = index_id(model, environment.index or VectorIndexSettings(), key_arn=key)
        # The roles are those of the last deploy: what belongs to a model of the file is known by
        # the logical id of its index.
        role = next((role for role, full in self._ids.items() if logical_id in full), None)
        index = "" if role is None else self.outputs[f"{role}IndexArn"]
        return MigratedModel(model=model, role=role, index=index)

    @cached_property
    def _ids(self) -> Mapping[str, str]:
        """The logical ids of the deployed indexes by role."""
        roles = [role for role in ("", "Standby") if f"{role}IndexArn" in self.outputs]
        if not roles:
            return {}
        stack = index_stack_name(self.environment.name)
        template = self.client("cloudformation").get_template(StackName=stack)
        outputs = template["TemplateBody"]["Outputs"]
        return {role: outputs[f"{role}IndexArn"]["Value"]["Fn::GetAtt"][0] for role in roles}

    def searched_indexes(self) -> dict[str, str | None]:
        """Return the index that each published version of the function searches, by its number."""
        deployed = find_deployed(self.session, self.environment)
        versions = list_versions(self.client("lambda"), deployed.function) if deployed else ()
        return {
            version["Version"]: variables.get("EMBEDDING_VECTOR_INDEX")
            for version in versions
            if version["Version"].isdecimal()
            for variables in [version.get("Environment", {}).get("Variables", {})]
        }

    def shares(self) -> dict[str | None, float]:
        """Return the share of the requests that each index answers now; none before a deploy."""
        deployed = find_deployed(self.session, self.environment)
        indexes = self.searched_indexes()
        shares: defaultdict[str | None, float] = defaultdict(float)
        for version, share in traffic_shares(deployed.read_alias()).items() if deployed else ():
            shares[indexes[version]] += share
        return shares

    def documents(self, model: MigratedModel) -> dict[str, Any]:
        """Return the state of the documents in a model's index: `embed ingest status --json`."""
        region = self.environment.region
        return ingest_status(self.environment.name, role=model.role or "", region=region)

    def standby(self, space: str | None = None) -> EmbeddingClient:
        """Return a client of the function of `[standby]` that accepts one space; any with None."""
        return EmbeddingClient(function=self.outputs["StandbyFunctionArn"], vector_space=space)

    def incomplete(self) -> Iterator[str]:
        """Yield why the new index cannot answer yet: the rule, what was found, what is allowed."""
        new, old, copy = self.new, self.old, f"{self.command} copy"
        if not (new.index and old.index):
            yield f"both indexes are deployed; found: not that of {new}; allowed: {copy}"
            return
        if self.environment.ingest:
            yield from _unfinished(self.documents(new), self.documents(old), copy)
        else:
            count, needed = VectorIndex(new.index).count(), VectorIndex(old.index).count()
            if count < needed:
                yield f"all vectors are there; found: {count:,} of {needed:,}; allowed: {copy}"
        space = read_space(new.index)
        if space is None:
            yield f"the new index has vectors; found: none; allowed: {copy}"
        elif new.role == "Standby":
            # The function refuses an index of another space than its own.
            with self.standby(space) as client:
                client.search("ready", top=1, candidates=1)


def _unfinished(new: Mapping[str, Any], old: Mapping[str, Any], copy: str) -> Iterator[str]:
    """Yield what the new index's documents lack, by the states of both."""
    newest = (new["newest_comparison"] or "none").lower()
    if new["compared"] is None or newest not in {"running", "succeeded"}:
        yield f"all documents are compared with the new index; found: {newest}; allowed: {copy}"
        return
    if new["refused"] > (old["refused"] or 0):
        yield (
            f"the new index refuses no document that the old one has; found: {new['refused']:,} "
            f"refused; allowed: {old['refused'] or 0:,}, as of the old one"
        )
    if new["busy"]:
        yield f"no document is left out; found: {new['busy']:,} busy; allowed: {copy}"


def read_space(index: str) -> str | None:
    """Return the vector space in the tag of an index; None before a load, or without an index."""
    space: str | None = VectorIndex(index).describe()["vector_space"] if index else None
    return space


def _copy(migration: Migration, options: argparse.Namespace) -> int:
    environment = migration.environment
    if environment.ingest is None and not options.job:
        raise ValueError(
            "the texts are documents or a batch job's; found: neither [ingest] nor --job; "
            "allowed: one of them"
        )
    if migration.is_exchanged:
        raise ValueError(
            f"a copy comes before the switch; found: [standby] above [model] in {environment.file},"
            f" as after it; allowed: [standby] below [model], or first {migration.command} back"
        )
    status = deploy(environment, options)
    migration = Migration(migration.session, environment)
    if options.job:
        from operations.migration_job import copy_job  # noqa: PLC0415 - it imports pyarrow

        dimension = index_dimension(migration.new.model)
        loaded = copy_job(options.job, migration.new.index, dimension, migration.standby)
        if loaded:
            return loaded
    else:
        _compare_documents(migration)
        _wait_for_events(migration)
    print(
        f"the index of {migration.new} is complete. Next: {migration.command} compare --queries "
        "FILE, then switch"
    )
    return status


def _compare_documents(migration: Migration) -> None:
    """Let all documents be compared with the new index until nothing changes."""
    output = f"{migration.new.role}IngestStateMachineArn"
    executions = Executions(migration.outputs[output], output=output)
    while True:
        newest = next(executions.newest(1), None)
        if newest and newest[1] == "RUNNING":
            name = newest[0]
        else:
            name = executions.start({}, name=f"migrate-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}")
        while (execution := executions.status(name)).state == "RUNNING":
            _report(name, f"{execution.done:,} of {execution.items or '?'} groups of documents")
        result = execution.result
        if result is None:
            raise ValueError(
                f"the comparison {name} must succeed; found: {execution.state.lower()}, "
                f"{execution.problem}; allowed: the same command, which starts another one"
            )
        numbers = (f"{result[key]:,} {key}" for key in ("documents", "changed", "refused"))
        print(f"{name}: {', '.join(numbers)}", flush=True)
        if not (result["changed"] or result["busy"]):
            return


def _wait_for_events(migration: Migration) -> None:
    """Wait until no more events wait for the new index than for the old one."""
    documents, new, old = migration.documents, migration.new, migration.old
    while (ahead := int(documents(new)["waiting"]) - int(documents(old)["waiting"])) > 0:
        _report("events", f"{ahead:,} wait")


def _report(name: str, progress: str) -> None:
    """Print the progress of what runs on AWS, and wait a little."""
    print(f"{name}: {progress}", file=sys.stderr, flush=True)
    time.sleep(_DELAY)


def _compare(migration: Migration, options: argparse.Namespace) -> None:
    new, old = migration.new, migration.old
    if not (new.index and old.index):
        raise ValueError(
            f"both models are deployed; found: not {new}; allowed: after {migration.command} copy"
        )
    live, standby = (old, new) if new.role == "Standby" else (new, old)
    if standby.index in migration.shares():
        raise ValueError(
            f"the function of [standby] is that of the model that does not answer; found: "
            f"{standby}; allowed: {live}, after scripts/deploy {migration.environment.name}"
        )
    space, standby_space = read_space(live.index), read_space(standby.index)
    with (
        EmbeddingClient(migration.outputs["Url"], vector_space=space) as client,
        migration.standby(standby_space) as standby_client,
    ):
        clients = [(str(live), client), (str(standby), standby_client)]
        report = compare(clients, TextSource(options.queries, column=options.column))
    print(json.dumps(report, ensure_ascii=False) if options.json else "\n".join(lines_of(report)))


def _switch(migration: Migration, options: argparse.Namespace) -> int:
    new = migration.new
    if migration.is_exchanged and set(migration.shares()) == {new.index}:
        print(f"{new} answers already. Next: {migration.command} finish, or back")
        return 0
    if problems := list(migration.incomplete()):
        raise ValueError(f"{'; '.join(problems)}; nothing was changed")
    if migration.environment.ingest:
        _wait_for_events(migration)
    if not migration.is_exchanged:
        _exchange(migration)
    status = deploy(migration.environment, options)
    print(f"{new} answers. To go back: {migration.command} back; when you are sure: finish")
    return status


def _exchange(migration: Migration) -> None:
    exchange_models(migration.file)
    print(f"exchanged [model] and [standby] in {migration.environment.file}", flush=True)


def _back(migration: Migration, _: argparse.Namespace) -> None:
    old, indexes = migration.old, migration.searched_indexes()
    versions = [version for version, index in indexes.items() if index == old.index]
    if not versions:
        raise ValueError(
            f"a version of the function searches the index of {old}; found: none; allowed: after a "
            "switch; nothing was changed"
        )
    while set(migration.shares()) != {old.index}:
        # First it may stop a release, then wait for the end of its rollback.
        newest = max(versions, key=int)
        print(roll_back(migration.session, migration.environment, version=newest), flush=True)
        time.sleep(_DELAY)
    if migration.is_exchanged:
        _exchange(migration)
    print(f"{old} answers. The index of {migration.new} stays up to date")


def _finish(migration: Migration, options: argparse.Namespace) -> int:
    environment, earlier_index, status = migration.environment, "", 0
    if environment.standby:
        _require_settled_release(migration)
        earlier_index = migration.old.index
        _confirm_deletion([earlier_index], options)
        remove_table(migration.file, "standby")
        print(f"took [standby] out of {migration.environment.file}", flush=True)
    if earlier_index or "StandbyIndexArn" in migration.outputs:
        # The deployed [standby] is what the file no longer has.
        options.cdk_options = [OLDER_FILE, *options.cdk_options]
        status = deploy(environment, options)
    plan = _unused(migration, only=earlier_index)
    # Without the table, an earlier run has taken it out, or somebody by hand.
    if plan.indexes and not earlier_index:
        _confirm_deletion(plan.indexes, options)
    prune(migration.session, environment, plan)
    print(f"deleted: {plan}")
    return status


def _require_settled_release(migration: Migration) -> None:
    """Check that the new model answers all requests, and has for the time of a release's step."""
    environment, new = migration.environment, migration.new
    interval = environment.release.interval
    if not migration.is_exchanged:
        raise ValueError(
            f"finish follows a switch; found: [standby] below [model] in {environment.file}; "
            f"allowed: {migration.command} switch. To give up {new}: take [standby] out, "
            "then finish again"
        )
    share = migration.shares().get(new.index, 0.0)
    deployed = find_deployed(migration.session, environment)
    if share < 1 or (deployed and deployed.running()):
        raise ValueError(
            f"finish follows the end of a release to {new}; found: {share:.0%} of the requests are "
            "there, or a release runs; allowed: 100%, and none"
        )
    last = deployed.last_successful() if deployed else None
    if last:
        deployment = migration.client("codedeploy").get_deployment(deploymentId=last)
        waited = datetime.now(UTC) - deployment["deploymentInfo"]["completeTime"]
        if waited < interval:
            raise ValueError(
                f"the last release is older than `interval` of [release], for it ends the way back;"
                f" found: {waited // timedelta(minutes=1)} minutes; allowed: "
                f"{interval // timedelta(minutes=1)} or more"
            )


def _confirm_deletion(indexes: Sequence[str], options: argparse.Namespace) -> None:
    """Ask before indexes are deleted, unless `--yes` is given."""
    arns = "\n".join(f"  {arn}" for arn in indexes)
    print(f"To be deleted for ever, with the versions that search it:\n{arns}", file=sys.stderr)
    if not options.yes and not confirm("Delete?"):
        raise ValueError("a deletion is confirmed by yes, or --yes; nothing was changed")


def _unused(migration: Migration, *, only: str = "") -> PrunePlan:
    """Return the indexes that nothing but old versions of the function names, and these versions.

    `only` is the ARN of the only index to return; all if empty.
    """
    session, environment = migration.session, migration.environment
    deployed, store = find_deployed(session, environment), find_store(session, environment)
    if deployed is None or store is None:
        raise ValueError(f"{environment.name} is not deployed; nothing was deleted")
    used = {*store.indexes, *migration.shares(), None}
    searched = migration.searched_indexes()
    gone = {(deployed.function, number) for number, index in searched.items() if index not in used}
    unused = unused_indexes(session, store, gone=gone)
    indexes = [arn for arn in unused if arn not in used and only in {"", arn}]
    return PrunePlan(
        function=deployed.function,
        versions=[number for number, index in searched.items() if index in indexes],
        address=read_address(session, environment),
        images=[],
        indexes=indexes,
    )


def _status(migration: Migration, _: argparse.Namespace) -> None:
    shares = migration.shares()
    if migration.environment.standby is None:
        is_left = "StandbyIndexArn" in migration.outputs or _unused(migration).indexes
        rest = f"an index is left: {migration.command} finish" if is_left else "nothing is left"
        print(f"step     none, without [standby] in {migration.environment.file}; {rest}")
        return
    for title, model in (("from", migration.old), ("to", migration.new)):
        print(f"{title:<9}{model}, {shares.get(model.index, 0):.0%} of the requests")
        print(f"  index       {model.index or 'not deployed'}")
        if model.index and migration.environment.ingest:
            state = migration.documents(model)
            for key in ("documents", "chunks", "refused", "waiting", "newest_comparison"):
                print(f"  {key.partition('_')[2] or key:<12}{state[key]}")
        elif model.index:
            print(f"  vectors     {VectorIndex(model.index).count()}")
    print(f"step     {_step(migration, shares)}")


def _step(migration: Migration, shares: Mapping[str | None, float]) -> str:
    """Say which step is next or under way."""
    share = shares.get(migration.new.index, 0.0)
    if not migration.is_exchanged:
        problems = list(migration.incomplete())
        return f"copy: {'; '.join(problems)}" if problems else "compare, then switch"
    if not share:
        return "switch, or back: the headers are exchanged, and the release is not deployed"
    return "finish, or back" if share == 1 else f"switch: {share:.0%} of the requests are there"


def deploy(environment: EnvironmentSettings, options: argparse.Namespace) -> int:
    """Run scripts/deploy; return 0, or its status if only a check of the doctor has failed."""
    command = [str(ENVIRONMENTS.parent / "scripts/deploy"), environment.name, *options.cdk_options]
    with subprocess.Popen(command) as process:  # noqa: S603 - our own script
        while process.returncode is None:
            # Ctrl-C reaches the script, too, which then says what AWS continues.
            with suppress(KeyboardInterrupt):
                process.wait()
    if process.returncode not in {0, DEPLOYED_WITH_FAILED_CHECK}:
        raise subprocess.CalledProcessError(process.returncode, command)
    return process.returncode


_STEPS: Mapping[str, tuple[Callable[[Migration, argparse.Namespace], int | None], str]] = {
    "copy": (_copy, "Deploy the standby, and bring all texts into its index."),
    "compare": (_compare, "Compare the answers of both models to your queries."),
    "switch": (_switch, "Exchange [model] and [standby], and release."),
    "back": (_back, "Give all requests back to the earlier model."),
    "finish": (_finish, "Delete the earlier model's index, after asking."),
    "status": (_status, "Print the step, and the numbers of both indexes."),
}


if __name__ == "__main__":
    exit_with(main)
