"""Run the steps before and after `cdk deploy` and `cdk destroy`.

Provisioned concurrency outlives the scaling that allocated it: CloudFormation removes the scaling
but not the provisioned concurrency (https://github.com/aws/aws-cdk/issues/31507). So this command
ends it after a deploy that turned it off, and before a confirmed destroy. An unfinished destroy
leaves the scaling suspended, which no template shows; the next deploy resumes it.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from botocore.exceptions import ClientError
from botocore.session import Session

from embedding_kit.settings import Provisioned, artifact_in_s3
from operations.deployed import Deployed, DeployedStack, DeployedStacks, find_deployed, read_stacks
from operations.environment_session import answer_or_none, confirm, list_all
from operations.left_buckets import delete_buckets, document_buckets
from operations.left_logs import delete_left_logs, function_logs, logs_of_failure
from operations.reset_traffic import find_stuck_weights
from operations.vector_store import delete_store, find_deleted_store
from stacks.environment import EnvironmentSettings
from stacks.names import (
    artifact_bucket_name,
    has_bucket_stack,
    has_repository_stack,
    index_stack_name,
    repository_name,
)

#: The mark of a stack that the CDK's command does not know, in a list of stacks.
_GONE = " (no longer in the file)"
_SCALING_KINDS = (
    "DynamicScalingInSuspended",
    "DynamicScalingOutSuspended",
    "ScheduledScalingSuspended",
)


def end_provisioned_concurrency(
    session: Session, environment: EnvironmentSettings
) -> Iterator[str]:
    """End all provisioned concurrency of an environment's function, and suspend its scaling.

    Yielded is the ARN of each version or alias that had one.
    """
    deployed = find_deployed(session, environment)
    if deployed is None:
        return
    scaling, client = deployed.client("application-autoscaling"), deployed.client("lambda")
    # Active autoscaling would allocate the provisioned concurrency again.
    for target in _targets(scaling, deployed):
        _register(scaling, target, suspended=True)
    function = {"FunctionName": deployed.function}
    configs = "ProvisionedConcurrencyConfigs"
    for config in list_all(client, "list_provisioned_concurrency_configs", configs, **function):
        arn = config["FunctionArn"]
        client.delete_provisioned_concurrency_config(**function, Qualifier=arn.rpartition(":")[2])
        yield arn


def resume_scaling(session: Session, environment: EnvironmentSettings) -> Iterator[str]:
    """Resume scaling that an unfinished destroy has suspended, and allocate its minimum again.

    The minimum comes first: after an interruption the scaling is still suspended, and the next run
    does both.
    """
    deployed = find_deployed(session, environment)
    if deployed is None:
        return
    scaling, client = deployed.client("application-autoscaling"), deployed.client("lambda")
    for target in _targets(scaling, deployed):
        if not any(target.get("SuspendedState", {}).values()):
            continue
        qualifier = target["ResourceId"].rpartition(":")[2]
        alias = {"FunctionName": deployed.function, "Qualifier": qualifier}
        if answer_or_none(client.get_provisioned_concurrency_config, **alias) is None:
            client.put_provisioned_concurrency_config(
                **alias, ProvisionedConcurrentExecutions=target["MinCapacity"]
            )
        _register(scaling, target, suspended=False)
        yield target["ResourceId"]


def before_deploy(session: Session, environment: EnvironmentSettings) -> None:
    """Refuse weights that block a release, and resume scaling that a destroy has suspended."""
    _refuse_stuck_weights(session, environment)
    if isinstance(environment.cold_start, Provisioned):
        for resumed in resume_scaling(session, environment):
            print(f"resumed the scaling of {resumed}, which an unfinished destroy had suspended")


def _refuse_stuck_weights(session: Session, environment: EnvironmentSettings) -> None:
    weights = find_stuck_weights(session, environment)
    if weights:
        raise ValueError(
            f"{weights} and no release is running, so AWS refuses further releases; "
            f"scripts/reset-traffic {environment.argument} gives all of it to version "
            f"{weights.favorite}"
        )


def after_failed_deploy(session: Session, environment: EnvironmentSettings) -> NoReturn:
    """Say what AWS continues after a deploy that failed or was interrupted, and what to do."""
    client = session.create_client("cloudformation", region_name=environment.region)
    reasons = [
        reason
        for stack in read_stacks(client, environment)
        if not stack.is_removed and (reason := stack.refuses_updates(environment.name))
    ]
    for reason in reasons:
        print(f"note: {reason}", file=sys.stderr)
    with suppress(ClientError):  # without the permission, the reason above is all that is said
        for name in logs_of_failure(session, environment):
            print(f"note: a log of it: aws logs tail {name} --since 1h", file=sys.stderr)
    again = f"scripts/deploy {environment.argument}"
    if reasons:
        raise ValueError(f"the deploy has not ended; when AWS has: {again}")
    _refuse_stuck_weights(session, environment)
    raise ValueError(
        f"{environment.name} was not deployed, for the reason above; after a fix: {again}"
    )


def before_destroy(
    session: Session, environment: EnvironmentSettings, *, force: bool, only_removed: bool
) -> int:
    """Ask, destroy what the file no longer has, and end the provisioned concurrency.

    The CDK would leave both, deployed and billed. Returned is the exit status: 1 if the answer is
    no.
    """
    stacks = DeployedStacks(session, environment)
    stacks_to_destroy = stacks.removed if only_removed else stacks.all
    if protected := [stack for stack in stacks_to_destroy if stack.is_protected]:
        raise ValueError(_unprotect(environment, protected))
    names = ", ".join(
        f"{stack.name}{_GONE if stack.is_removed else ''}" for stack in stacks_to_destroy
    )
    if only_removed and not stacks_to_destroy:
        print(f"no stack of {environment.name} is deployed that its file no longer has")
        return 0
    subject = names or f"{environment.name}, which has no stacks"
    if not only_removed and (deleted := " and ".join(_deleted_data(environment))):
        subject += f", and {deleted},"
    if not force and not confirm(f"Destroy {subject} in {stacks.place}?"):
        print("nothing was changed", file=sys.stderr)
        return 1
    for stack in stacks.removed:
        print(f"{stack.name}: destroying", flush=True)
        stacks.delete(stack)
        print(f"{stack.name}: destroyed")
    if only_removed:
        _delete_left_logs(session, environment)
    else:
        _end(session, environment)
    return 0


def _unprotect(environment: EnvironmentSettings, protected: Sequence[DeployedStack]) -> str:
    """Describe how to turn off the termination protection of stacks."""
    commands = [
        "aws cloudformation update-termination-protection --no-enable-termination-protection "
        f"--stack-name {stack.name}"
        for stack in protected
        if stack.is_removed
    ]
    if len(commands) < len(protected):
        commands.insert(
            0,
            f"set termination_protection = false in {environment.file}, "
            f"scripts/deploy {environment.argument}",
        )
    return (
        "no stack with termination protection can be deleted; found: "
        f"{', '.join(stack.name for stack in protected)}; nothing was changed. To turn it off: "
        f"{'; '.join(commands)}"
    )


def after_destroy(session: Session, environment: EnvironmentSettings) -> None:
    """Delete what no stack has any more, and print what stays."""
    _delete_left_logs(session, environment)
    if environment.branch_of:
        for line in delete_buckets(session, environment):
            print(line)
    _print_what_stays(session, environment)
    if _deletes_vectors(environment):
        # CloudFormation has left the vectors. Now, no version can search them.
        store = find_deleted_store(session, environment)
        for line in delete_store(session, store) if store else ():
            print(line)


def after_deploy(session: Session, environment: EnvironmentSettings) -> None:
    """End provisioned concurrency that was turned off, delete old logs, name removed stacks."""
    if not isinstance(environment.cold_start, Provisioned):
        _end(session, environment)
    _delete_left_logs(session, environment)
    for stack in DeployedStacks(session, environment).removed:
        print(
            f"note: {stack.name} is still deployed, reachable and billed, though "
            f"{environment.file} no longer has it; to destroy it: "
            f"scripts/destroy {environment.argument} --removed",
            file=sys.stderr,
        )


def _delete_left_logs(session: Session, environment: EnvironmentSettings) -> None:
    for line in delete_left_logs(session, environment):
        print(line, file=sys.stderr if line.startswith("note:") else sys.stdout)


def _end(session: Session, environment: EnvironmentSettings) -> None:
    for ended in end_provisioned_concurrency(session, environment):
        print(f"ended provisioned concurrency of {ended}")


def _deleted_data(environment: EnvironmentSettings) -> Iterator[str]:
    """Yield what a destroy deletes besides the stacks."""
    if _deletes_vectors(environment):
        yield "the vectors of its index"
    if environment.branch_of and _has_document_bucket(environment):
        yield "its documents"


def _has_document_bucket(environment: EnvironmentSettings) -> bool:
    return environment.ingest is not None and not environment.ingest.source


def _deletes_vectors(environment: EnvironmentSettings) -> bool:
    return environment.index is not None and environment.removal_policy == "destroy"


def _targets(client: Any, deployed: Deployed) -> Iterator[dict[str, Any]]:
    service = {"ServiceNamespace": "lambda"}
    for target in list_all(client, "describe_scalable_targets", "ScalableTargets", **service):
        if target["ResourceId"].startswith(f"function:{deployed.function}:"):
            yield target


def _register(client: Any, target: dict[str, Any], *, suspended: bool) -> None:
    client.register_scalable_target(
        ServiceNamespace="lambda",
        ResourceId=target["ResourceId"],
        ScalableDimension=target["ScalableDimension"],
        SuspendedState=dict.fromkeys(_SCALING_KINDS, suspended),
    )


def _print_what_stays(session: Session, environment: EnvironmentSettings) -> None:
    has_images = environment.function.package == "image"
    if has_repository_stack(environment) and environment.removal_policy == "retain":
        name = repository_name(environment.name)
        print(
            f"the images stay in the repository {name}, as the environment says; to remove them:\n"
            f"  aws ecr delete-repository --force --repository-name {name}\n"
            "to deploy the environment again with them:\n"
            f"  scripts/deploy {environment.argument} --import-existing-resources"
        )
    if has_bucket_stack(environment) and not environment.branch_of:
        account, region = environment.account or "ACCOUNT", environment.region or "REGION"
        name = artifact_bucket_name(environment.name, account=account, region=region)
        hint = "" if environment.account else ", with account and region in the environment's file"
        print(
            f"the artifacts stay in the bucket {name}; to remove them:\n"
            f"  aws s3 rb --force s3://{name}\n"
            f"to deploy the environment again with them{hint}:\n"
            f"  scripts/deploy {environment.argument} --import-existing-resources"
        )
    if not has_images and not artifact_in_s3(environment.model, environment.function):
        print(
            "the zips stay in the bucket of `cdk bootstrap`; to remove what no stack uses:\n"
            "  scripts/node_modules/.bin/cdk gc --unstable=gc --type s3"
        )
    if environment.index and not _deletes_vectors(environment):
        print(
            "the vectors stay in the vector bucket of the index, as the environment says; to find "
            "it, and to remove it after each of its indexes:\n"
            "  aws s3vectors list-vector-buckets\n"
            "  aws s3vectors list-indexes --vector-bucket-name BUCKET\n"
            "  aws s3vectors delete-index --index-arn INDEX\n"
            "  aws s3vectors delete-vector-bucket --vector-bucket-name BUCKET"
        )
    if _has_document_bucket(environment):
        _print_documents(session, environment)
    if environment.removal_policy == "retain":
        print(
            "the function's log group stays, as the environment says, and a new deploy makes a new "
            "one; to find it:\n"
            f"  aws logs describe-log-groups --log-group-name-prefix {function_logs(environment)}"
        )


def _print_documents(session: Session, environment: EnvironmentSettings) -> None:
    try:
        for name in document_buckets(session, environment):
            print(f"the documents stay; to delete them:\n  aws s3 rb --force s3://{name}")
    except ClientError as error:
        name = f"{index_stack_name(environment.name)}-Documents".lower()
        print(f"note: documents may stay: {error}; to find them: aws s3 ls | grep {name}")
