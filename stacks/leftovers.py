"""Ends what the CDK leaves billing, after a deploy and before everything is destroyed.

Provisioned concurrency outlives the scaling that allocated it: CloudFormation removes the scaling
and not what it scaled (https://github.com/aws/aws-cdk/issues/31507). So after a deploy that turned
it off, and before everything is destroyed, it is ended here.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session, get_session

from embedding_kit.environment import Environment, EnvironmentFileError, load_environment
from embedding_kit.settings import Provisioned
from stacks.names import endpoint_stack_name, repository_name

__all__ = ["end_provisioned_concurrency", "main"]

_ENVIRONMENTS = Path(__file__).parents[1] / "environments"
_SUSPENDED = {
    "DynamicScalingInSuspended": True,
    "DynamicScalingOutSuspended": True,
    "ScheduledScalingSuspended": True,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m stacks.leftovers", description=__doc__)
    parser.add_argument("environment")
    moment = parser.add_mutually_exclusive_group(required=True)
    moment.add_argument("--after", choices=["deploy", "destroy"])
    moment.add_argument("--before", choices=["destroy"])
    options = parser.parse_args(arguments)
    try:
        environment = load_environment(options.environment, folder=_ENVIRONMENTS)
    except EnvironmentFileError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if options.after == "destroy":
        _tell_what_stays(environment)
        return 0
    if options.after == "deploy" and isinstance(environment.cold_start, Provisioned):
        return 0
    try:
        for ended in end_provisioned_concurrency(get_session(), environment):
            print(f"ended provisioned concurrency of {ended}, which nothing managed any more")
    except (BotoCoreError, ClientError) as error:
        print(f"error: {environment.name} could not be looked through: {error}", file=sys.stderr)
        return 1
    return 0


def end_provisioned_concurrency(session: Session, environment: Environment) -> Iterator[str]:
    """End all provisioned concurrency of an environment's function, and suspend its scaling.

    Args:
        session: Whose credentials are used, and whose region where the environment names none.
        environment: Whose endpoint; nothing is done if it is not deployed.

    Yields:
        The ARN of each version or alias whose provisioned concurrency was ended.
    """
    region = environment.region
    function = _function(session.create_client("cloudformation", region_name=region), environment)
    if function is None:
        return
    _suspend_scaling(session.create_client("application-autoscaling", region_name=region), function)
    client = session.create_client("lambda", region_name=region)
    pages = client.get_paginator("list_provisioned_concurrency_configs")
    for page in pages.paginate(FunctionName=function):
        for config in page["ProvisionedConcurrencyConfigs"]:
            arn = config["FunctionArn"]
            client.delete_provisioned_concurrency_config(
                FunctionName=function, Qualifier=arn.rpartition(":")[2]
            )
            yield arn


def _function(client: Any, environment: Environment) -> str | None:
    """Return the name of the deployed function, from the ARN of its alias; None without a stack."""
    try:
        (stack,) = client.describe_stacks(StackName=endpoint_stack_name(environment.name))["Stacks"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ValidationError":
            return None
        raise
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
    alias_arn = outputs.get("AliasArn")
    return alias_arn.split(":")[6] if alias_arn else None


def _suspend_scaling(client: Any, function: str) -> None:
    # Scaling that still stands would allocate again what is ended here.
    pages = client.get_paginator("describe_scalable_targets")
    for page in pages.paginate(ServiceNamespace="lambda"):
        for target in page["ScalableTargets"]:
            if target["ResourceId"].startswith(f"function:{function}:"):
                client.register_scalable_target(
                    ServiceNamespace="lambda",
                    ResourceId=target["ResourceId"],
                    ScalableDimension=target["ScalableDimension"],
                    SuspendedState=_SUSPENDED,
                )


def _tell_what_stays(environment: Environment) -> None:
    if environment.repository.on_destroy == "retain":
        name = repository_name(environment.name)
        print(
            f"the images stay in the repository {name}, as the environment says; to remove them:\n"
            f"  aws ecr delete-repository --force --repository-name {name}"
        )


if __name__ == "__main__":
    sys.exit(main())
