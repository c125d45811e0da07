"""`embed ingest status`: the documents of an environment and their index."""

import argparse
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from embedding_client._aws import aws_client, aws_errors
from embedding_client._jobs import Executions
from embedding_client.errors import ConfigurationError, counted

_DAY = timedelta(days=1)
_PERCENTILES = ("p50", "p99")
#: Executions of the state machine to look through for one that succeeded.
_LOOKED = 20


def show_status(args: argparse.Namespace) -> int:
    """Run `embed ingest status`."""
    role = "Standby" if args.standby else ""
    status = ingest_status(args.environment, role=role, region=args.region, profile=args.profile)
    if args.json:
        print(json.dumps(status, default=datetime.isoformat))
    else:
        for name, value in _lines(status):
            print(f"{name:<13}{value}")
    return 0


def ingest_status(
    environment: str, *, role: str = "", region: str | None = None, profile: str | None = None
) -> dict[str, Any]:
    """Return the state of an environment's documents and their index.

    Args:
        environment: The name of a deployed environment.
        role: An empty string, or `Standby` for the index of `[standby]`.
        region: The environment's region; by default the configured one.
        profile: A profile of AWS's configuration.

    Returns:
        The fields of `embed ingest status --json`.

    Raises:
        ConfigurationError: If the environment has no documents.
        AwsError: If AWS refuses or does not answer.
    """
    client = partial(aws_client, region=region, profile=profile)
    stack = f"EmbeddingKit-{environment}-Index"
    with aws_errors():
        (described,) = client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
        outputs = {item["OutputKey"]: item["OutputValue"] for item in described.get("Outputs", [])}
        machine = outputs.get(f"{role}IngestStateMachineArn")
        if machine is None:
            table = "[standby] with [ingest]" if role else "[ingest]"
            raise ConfigurationError(f"The environment {environment} has no {table}.")
        queues = client("sqs")

        def count(output: str, *names: str) -> int:
            answer = queues.get_queue_attributes(
                QueueUrl=outputs[role + output], AttributeNames=list(names)
            )
            return sum(int(answer["Attributes"][name]) for name in names)

        waiting = count(
            "EventsUrl", "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"
        )
        letters = count("DeadLettersUrl", "ApproximateNumberOfMessages")
        end = datetime.now(UTC)
        points = client("cloudwatch").get_metric_statistics(
            Namespace=f"EmbeddingKit/{environment}",
            MetricName="SearchableDelay",
            Dimensions=[{"Name": "FunctionName", "Value": outputs[f"{role}IngestFunctionName"]}],
            StartTime=end - _DAY,
            EndTime=end,
            Period=int(_DAY.total_seconds()),
            ExtendedStatistics=list(_PERCENTILES),
        )["Datapoints"]
    executions = Executions(machine, output=f"{role}IngestStateMachineArn", profile=profile)
    newest = list(executions.newest(_LOOKED))
    complete = next((name for name, state, _ in newest if state == "SUCCEEDED"), None)
    comparison = executions.status(complete) if complete else None
    return {
        "source": outputs["DocumentsUrl"],
        "compared": comparison.ended if comparison else None,
        **dict.fromkeys(("documents", "chunks", "refused", "incomplete")),
        **(comparison.result or {} if comparison else {}),
        "newest_comparison": newest[0][1] if newest else None,
        "waiting": waiting,
        "dead_letters": letters,
        "searchable_seconds": points[0]["ExtendedStatistics"] if points else None,
        "state_machine": machine,
    }


def _lines(status: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "source", status["source"]
    if status["compared"] is None:
        yield "documents", f"not known yet; start {status['state_machine']}"
    else:
        yield "documents", f"{status['documents']:,}, with {counted(status['chunks'], 'chunk')}"
        yield "refused", f"{status['refused']:,}"
        yield "incomplete", f"{status['incomplete']:,}"
        yield "compared", f"{status['compared']:%Y-%m-%d %H:%M %Z}, {status['changed']:,} repaired"
    yield "newest", (status["newest_comparison"] or "none").lower()
    yield "waiting", counted(status["waiting"], "event")
    yield "dead letters", f"{status['dead_letters']:,}"
    seconds = status["searchable_seconds"]
    shown = ", ".join(f"{name} {seconds[name]:,.1f} s" for name in _PERCENTILES) if seconds else ""
    yield "searchable", f"{shown} after the event, in the last day" if shown else "no event today"
