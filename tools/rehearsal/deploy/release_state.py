"""The state of a deployed release: alias, versions, stack, alarms, and notifications."""

import json
from dataclasses import dataclass

from tools.rehearsal.deploy.deployed import Outputs
from tools.rehearsal.deploy.emulator import Emulator

__all__ = ["ReleaseState"]

_QUEUE = "rehearsal-notifications"


@dataclass(frozen=True, kw_only=True)
class ReleaseState:
    """Reads the state of an environment's release.

    Attributes:
        aws: The emulated AWS.
        deployed: The environment's stacks.
        environment: The environment's name.
    """

    aws: Emulator
    deployed: Outputs
    environment: str

    @property
    def function(self) -> str:
        """The ARN of the endpoint's function."""
        return self.deployed["AliasArn"].rpartition(":")[0]

    def alias(self) -> tuple[str, dict[str, float]]:
        """Return the version of the alias, and the weights of other versions."""
        name = self.deployed["AliasArn"].rpartition(":")[2]
        found = self.aws.client("lambda").get_alias(FunctionName=self.function, Name=name)
        weights = found.get("RoutingConfig", {}).get("AdditionalVersionWeights", {})
        return found["FunctionVersion"], weights

    def versions(self) -> list[str]:
        """Return the published versions."""
        client = self.aws.client("lambda")
        found = client.list_versions_by_function(FunctionName=self.function)["Versions"]
        return [version["Version"] for version in found if version["Version"] != "$LATEST"]

    def stack_status(self) -> str:
        """Return the status of the endpoint's stack."""
        name = f"EmbeddingKit-{self.environment}-Endpoint"
        stacks = self.aws.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
        return str(stacks[0]["StackStatus"])

    def alarms(self) -> list[str]:
        """Return the names of the release's alarms that are in ALARM."""
        (group,) = self.aws.recorded("AWS::CodeDeploy::DeploymentGroup")
        names = [each["Name"] for each in group["properties"]["AlarmConfiguration"]["Alarms"]]
        found = self.aws.client("cloudwatch").describe_alarms(AlarmNames=names, StateValue="ALARM")[
            "MetricAlarms"
        ]
        return [alarm["AlarmName"] for alarm in found]

    def provisioned(self) -> int:
        """Return the provisioned concurrency that the alias requests."""
        name = self.deployed["AliasArn"].rpartition(":")[2]
        found = self.aws.client("lambda").get_provisioned_concurrency_config(
            FunctionName=self.function, Qualifier=name
        )
        return int(found["RequestedProvisionedConcurrentExecutions"])

    def __str__(self) -> str:
        """Name the alias, the versions and the stack's status."""
        return f"alias {self.alias()}, versions {self.versions()}, {self.stack_status()}"

    def subscribe(self) -> None:
        """Subscribe a queue to the alarm topic."""
        topic = self.deployed["AlarmTopicArn"]
        queue = f"arn:aws:sqs:{self.aws.region}:{self.aws.account}:{_QUEUE}"
        # https://docs.aws.amazon.com/sns/latest/dg/subscribe-sqs-queue-to-sns-topic.html
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": "sns.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": queue,
            "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
        }
        policy = {"Version": "2012-10-17", "Statement": [statement]}
        self.aws.client("sqs").create_queue(
            QueueName=_QUEUE, Attributes={"Policy": json.dumps(policy)}
        )
        self.aws.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue)

    def notifications(self) -> list[str]:
        """Return the messages that the topic has sent since the last call."""
        sqs = self.aws.client("sqs")
        url = sqs.get_queue_url(QueueName=_QUEUE)["QueueUrl"]
        messages: list[str] = []
        while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for message in found:
                messages.append(str(json.loads(message["Body"])["Message"]))
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return messages
