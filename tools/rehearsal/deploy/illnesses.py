"""Illnesses of a deployed environment, each injected for the time of a block."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from tools.rehearsal.deploy.emulator import Emulator

__all__ = ["Patient"]

_STREAM = "rehearsal"
_DIMENSION = "lambda:function:ProvisionedConcurrency"


@dataclass(frozen=True, kw_only=True)
class Patient:
    """A deployed endpoint, which falls ill in the emulated AWS.

    Attributes:
        aws: The emulated AWS.
        alias_arn: The ARN of its alias.
        topic: The ARN of its alarms' topic.
        observability: The name of the stack of observability.
    """

    aws: Emulator
    alias_arn: str
    topic: str
    observability: str

    @property
    def function(self) -> str:
        """The function's name."""
        return self.alias_arn.split(":")[6]

    @property
    def alias(self) -> str:
        """The alias's name."""
        return self.alias_arn.split(":")[7]

    @property
    def logs(self) -> str:
        """The name of the function's log group."""
        found = self.aws.client("lambda").get_function_configuration(FunctionName=self.function)
        return str(found["LoggingConfig"]["LogGroup"])

    @contextmanager
    def open_url(self) -> Iterator[None]:
        """Let the URL answer without a signature."""
        client = self.aws.client("lambda")
        url = {"FunctionName": self.function, "Qualifier": self.alias}
        client.update_function_url_config(**url, AuthType="NONE")
        try:
            yield
        finally:
            client.update_function_url_config(**url, AuthType="AWS_IAM")

    @contextmanager
    def weights(self) -> Iterator[None]:
        """Send a quarter of the requests to the version before, without a release."""
        client = self.aws.client("lambda")
        alias = {"FunctionName": self.function, "Name": self.alias}
        served = int(client.get_alias(**alias)["FunctionVersion"])
        weights = {"AdditionalVersionWeights": {str(served - 1): 0.25}}
        client.update_alias(**alias, RoutingConfig=weights)
        try:
            yield
        finally:
            client.update_alias(**alias, RoutingConfig={"AdditionalVersionWeights": {}})

    @contextmanager
    def alarm(self) -> Iterator[None]:
        """Put an alarm into ALARM."""
        client = self.aws.client("cloudwatch")
        found = client.describe_alarms(AlarmNamePrefix=self.observability)["MetricAlarms"]
        name = next(alarm["AlarmName"] for alarm in found if "Throttles" in alarm["AlarmName"])
        set_state = {"AlarmName": name, "StateReason": "the rehearsal"}
        client.set_alarm_state(**set_state, StateValue="ALARM")
        try:
            yield
        finally:
            client.set_alarm_state(**set_state, StateValue="OK")

    @contextmanager
    def leftover(self) -> Iterator[None]:
        """Allocate provisioned concurrency, which is not set."""
        client = self.aws.client("lambda")
        where = {"FunctionName": self.function, "Qualifier": self.alias}
        client.put_provisioned_concurrency_config(**where, ProvisionedConcurrentExecutions=1)
        try:
            yield
        finally:
            client.delete_provisioned_concurrency_config(**where)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Suspend the autoscaling."""
        client = self.aws.client("application-autoscaling")
        target = {
            "ServiceNamespace": "lambda",
            "ResourceId": f"function:{self.function}:{self.alias}",
            "ScalableDimension": _DIMENSION,
        }
        client.register_scalable_target(
            **target, SuspendedState={"DynamicScalingInSuspended": True}
        )
        try:
            yield
        finally:
            client.register_scalable_target(
                **target, SuspendedState={"DynamicScalingInSuspended": False}
            )

    @contextmanager
    def endless_logs(self) -> Iterator[None]:
        """Keep the logs forever."""
        client, group = self.aws.client("logs"), self.logs
        (found,) = client.describe_log_groups(logGroupNamePrefix=group)["logGroups"]
        client.delete_retention_policy(logGroupName=group)
        try:
            yield
        finally:
            days = found["retentionInDays"]
            client.put_retention_policy(logGroupName=group, retentionInDays=days)

    @contextmanager
    def cold_start(self, milliseconds: float) -> Iterator[None]:
        """Log a cold start, as Lambda's platform does."""
        client, group = self.aws.client("logs"), self.logs
        client.create_log_stream(logGroupName=group, logStreamName=_STREAM)
        record = {"metrics": {"durationMs": 20.0, "initDurationMs": milliseconds}}
        message = json.dumps({"type": "platform.report", "record": record})
        event = {"timestamp": int(time.time() * 1000), "message": message}
        client.put_log_events(logGroupName=group, logStreamName=_STREAM, logEvents=[event])
        try:
            yield
        finally:
            client.delete_log_stream(logGroupName=group, logStreamName=_STREAM)

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Take the subscribers from the topic of the alarms."""
        client, topic = self.aws.client("sns"), {"TopicArn": self.topic}
        subscribers = client.list_subscriptions_by_topic(**topic)["Subscriptions"]
        for each in subscribers:
            client.unsubscribe(SubscriptionArn=each["SubscriptionArn"])
        try:
            yield
        finally:
            for each in subscribers:
                client.subscribe(**topic, Protocol=each["Protocol"], Endpoint=each["Endpoint"])

    def fail_job(self, stack: str) -> None:
        """Run a batch job whose input does not exist, to its end."""
        machine = self._output(stack, "StateMachineArn")
        client = self.aws.client("stepfunctions")
        arn = client.start_execution(stateMachineArn=machine, input="{}")["executionArn"]
        end = time.monotonic() + 60
        while client.describe_execution(executionArn=arn)["status"] == "RUNNING":
            if time.monotonic() > end:
                raise TimeoutError(f"{arn} does not end")
            time.sleep(0.1)

    def balancer(self, stack: str) -> tuple[str, str]:
        """Return the host of a server's URL, and the name of its load balancer."""
        name = self._output(stack, "LoadBalancerName")
        balancers = self.aws.client("elbv2").describe_load_balancers()["LoadBalancers"]
        (found,) = [each for each in balancers if each["DNSName"] == name]
        return str(urlsplit(self._output(stack, "Url")).hostname), str(found["LoadBalancerName"])

    def _output(self, stack: str, key: str) -> str:
        (found,) = self.aws.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
        outputs = {output["OutputKey"]: output["OutputValue"] for output in found["Outputs"]}
        return str(outputs[key])

    def count(self, metric: str, value: int) -> None:
        """Publish a metric of the alias; the emulated AWS keeps it."""
        dimensions = {"FunctionName": self.function, "Resource": f"{self.function}:{self.alias}"}
        self.publish("AWS/Lambda", metric, value, dimensions)

    def publish(
        self, namespace: str, metric: str, value: float, dimensions: dict[str, str] | None = None
    ) -> None:
        """Publish a metric."""
        data: dict[str, Any] = {
            "MetricName": metric,
            "Value": value,
            "Timestamp": datetime.now(UTC),
            "Dimensions": [
                {"Name": name, "Value": given} for name, given in (dimensions or {}).items()
            ],
        }
        self.aws.client("cloudwatch").put_metric_data(Namespace=namespace, MetricData=[data])
