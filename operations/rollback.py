"""Roll the endpoint back to the previous version: `scripts/rollback NAME`.

While a release runs, it is stopped: CodeDeploy shifts all requests back to the previous version,
and CloudFormation rolls the stack back.

After a release, the stack is updated from its own template: the alias names the previous version,
CodeDeploy shifts all requests at once, and no alarm can stop it. CloudFormation makes the change,
so the stack and the alias agree. If the alias were changed outside the stack, the next release
would start from a version that the alias does not serve: CodeDeploy needs the version "that
traffic currently points to", and AWS does not document the effect of a wrong one
(https://docs.aws.amazon.com/codedeploy/latest/userguide/reference-appspec-file-structure-resources.html).
"""

import argparse
import hashlib
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from botocore.exceptions import ClientError
from botocore.session import Session

from embedding_client import invocation_event
from embedding_kit.programs import exit_with
from embedding_kit.settings.callers import without_path
from operations.command import command_parser, run_command
from operations.deployed import Deployed, find_deployed
from operations.environment_session import (
    answer_or_none,
    bootstrap_client,
    partition_domain,
    session_for,
)
from operations.packages import PackageBucket, RepositoryAddress, package_bucket, read_address
from stacks.environment import EnvironmentSettings

_NEXT = (
    "Next: fix the cause and run scripts/deploy; the fix is checked and released as usual. "
    "The same commit again releases the version that was rolled back"
)
#: The longest template that `UpdateStack` takes in the request itself, in bytes.
#: https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_UpdateStack.html
_INLINE = 51_200
_UPDATING = "UPDATE_IN_PROGRESS"
#: The time between two looks at an update that runs, in seconds.
_DELAY = 5
#: The number of environments to start before the version serves, as the release check does.
_WARM_STARTS = 3


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = command_parser("scripts/rollback", __doc__)
    text = "the version that gets all requests; the one before by default"
    parser.add_argument("--version", help=text)
    return run_command(parser, _roll_back, arguments, failure="{} was not rolled back")


def _roll_back(environment: EnvironmentSettings, options: argparse.Namespace) -> None:
    session = session_for(environment, changes=True)
    print(roll_back(session, environment, version=options.version))


def roll_back(
    session: Session, environment: EnvironmentSettings, *, version: str | None = None
) -> str:
    """Stop the running release, or move the alias back, to the version before it by default.

    Returned is what was done, and the next step. A `ValueError` says that there is no version
    before, or why the stack cannot be updated now.
    """
    deployed = find_deployed(session, environment)
    if deployed is None:
        raise ValueError(f"{environment.name} is not deployed; nothing was changed")
    stopped = _stop(deployed) if deployed.status == _UPDATING else None
    if stopped:
        return stopped
    deployed = _after_update(deployed)
    stack = deployed.stack
    if "ROLLBACK" in deployed.status and deployed.status.endswith("_IN_PROGRESS"):
        return f"{stack} is rolling back ({deployed.status}); nothing was changed"
    _require_complete(stack, deployed.status)
    served = deployed.read_alias()["FunctionVersion"]
    template = deployed.template()
    alias = _alias(template)
    pinned = alias["Properties"]["FunctionVersion"]
    if version is None:
        undone = isinstance(pinned, str) or "ROLLBACK" in deployed.status
        version = None if undone else version_before(deployed, served)
    if version is None or version == pinned:
        return (
            f"the last release of {stack} is rolled back already; nothing was changed. "
            "To choose a version: --version N"
        )
    _warm(deployed, version)
    _update(deployed, _pinned(template, alias, version))
    print(f"moving the alias {deployed.alias} of {stack} to version {version} ...", flush=True)
    waiter = deployed.client("cloudformation").get_waiter("stack_update_complete")
    waiter.wait(StackName=stack, WaiterConfig={"Delay": _DELAY, "MaxAttempts": 720})
    return f"the alias {deployed.alias} serves version {version}. {_NEXT}"


def _require_complete(stack: str, status: str) -> None:
    if status.endswith("_COMPLETE"):
        return
    advice = (
        f"to complete the rollback first: aws cloudformation continue-update-rollback "
        f"--stack-name {stack}"
        if status == "UPDATE_ROLLBACK_FAILED"
        else "to wait until it is"
    )
    raise ValueError(f"{stack} is {status}; allowed: a completely updated stack, or {advice}")


def _stop(deployed: Deployed) -> str | None:
    """Stop the running release, or the update of the stack before it.

    None if it ended after its state was read, so that nothing was stopped.
    """
    stack, running = deployed.stack, deployed.running()
    try:
        if not running:
            deployed.client("cloudformation").cancel_update_stack(StackName=stack)
            return f"canceled the update of {stack}, which rolls back. {_NEXT}"
        for deployment in running:
            deployed.client("codedeploy").stop_deployment(
                deploymentId=deployment, autoRollbackEnabled=True
            )
    except ClientError as error:
        # CloudFormation has no code of its own for an update that cannot be canceled any more.
        if error.response["Error"]["Code"] in {
            "DeploymentAlreadyCompletedException",
            "ValidationError",
        }:
            return None
        raise
    return (
        f"stopped {', '.join(running)}: CodeDeploy gives all requests back to the version before, "
        f"then {stack} rolls back. {_NEXT}"
    )


def _after_update(deployed: Deployed) -> Deployed:
    """Wait for the end of an update that cannot be stopped any more."""
    ending = {_UPDATING, "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"}
    if deployed.status in ending:
        print("the stack's update is ending; waiting for it ...", flush=True)
    current: Deployed | None = deployed
    while current is not None and current.status in ending:
        time.sleep(_DELAY)
        current = find_deployed(deployed.session, deployed.environment)
    if current is None:
        raise ValueError(f"{deployed.environment.name} was deleted meanwhile; nothing was changed")
    return current


def _alias(template: dict[str, Any]) -> dict[str, Any]:
    """Return the alias that CodeDeploy moves."""
    for resource in template["Resources"].values():
        if "CodeDeployLambdaAliasUpdate" in resource.get("UpdatePolicy", {}):
            alias: dict[str, Any] = resource
            return alias
    raise ValueError(
        "CodeDeploy does not move this alias; found: an experiment by weights; allowed: "
        "to take [experiment] out and deploy, which gives all requests to one version"
    )


def version_before(deployed: Deployed, served: str) -> str | None:
    """Return the version that the last release replaced by the one that the alias serves.

    None if that release was rolled back.

    Raises:
        ValueError: No release has replaced a version, or the alias was changed by other means.
    """
    client, deployment = deployed.client("codedeploy"), deployed.last_successful()
    if deployment is None:
        raise ValueError(
            "no release has replaced a version yet, so there is none to go back to; "
            "allowed: --version N, or to deploy another commit"
        )
    if client.get_deployment(deploymentId=deployment)["deploymentInfo"]["creator"] == (
        "codeDeployRollback"
    ):
        return None
    targets = client.list_deployment_targets(deploymentId=deployment)["targetIds"]
    (target,) = client.batch_get_deployment_targets(deploymentId=deployment, targetIds=targets)[
        "deploymentTargets"
    ]
    moved = target["lambdaTarget"]["lambdaFunctionInfo"]
    if served != moved["targetVersion"]:
        raise ValueError(
            f"the alias serves version {served}, and the last release moved it to "
            f"{moved['targetVersion']}: it was changed by other means; allowed: --version N"
        )
    return str(moved["currentVersion"])


def _warm(deployed: Deployed, version: str) -> None:
    """Start a version before it serves.

    Lambda makes a version Inactive that was not invoked for weeks, and rejects its first invocation
    (https://docs.aws.amazon.com/lambda/latest/dg/functions-states.html).
    """
    client = deployed.client("lambda")
    qualified = {"FunctionName": deployed.function, "Qualifier": version}
    configuration = answer_or_none(client.get_function_configuration, **qualified)
    if configuration is None:
        raise ValueError(
            f"there is no version {version} (with SnapStart, old versions are deleted); "
            "allowed: --version N of a published version, or to deploy the commit before"
        )
    _check_limits(deployed, version, configuration.get("Environment", {}))
    state = configuration.get("State", "Active")
    try:
        if state != "Active":
            print(f"version {version} is {state}; waiting until it is Active ...", flush=True)
            _activate(client, qualified)
        with ThreadPoolExecutor(_WARM_STARTS) as pool:
            starts = [pool.submit(_status, client, qualified) for _ in range(_WARM_STARTS)]
        # If one is throttled, the others have warmed theirs.
        statuses = [start.result() for start in starts]
    except ClientError as error:
        # Without the permission, or where requests are throttled, the version can still serve.
        print(f"note: version {version} was not warmed: {error}", file=sys.stderr)
        return
    if set(statuses) != {200}:
        raise ValueError(
            f"version {version} does not answer GET /health; found: {max(statuses)}; allowed: 200. "
            "Nothing was changed; to choose another version: --version N"
        )


def _check_limits(deployed: Deployed, version: str, environment: dict[str, Any]) -> None:
    """Refuse a version in which a caller of `prefixes` may search more than its prefix now."""
    prefixes = deployed.environment.callers.prefixes
    if prefixes and "Error" in environment:
        raise ValueError(
            f"the limits of callers are in the variables of version {version}; found: "
            f"{environment['Error'].get('Message')}; allowed: kms:Decrypt of the function's key"
        )
    text = environment.get("Variables", {}).get("EMBEDDING_SEARCH_PREFIXES")
    limits = {
        without_path(arn): prefix
        for prefix, arns in json.loads(text or "{}").items()
        for arn in arns
    }
    # Whom the version does not name may search nothing in it.
    unlimited = [
        arn for arn, prefix in prefixes.items() if limits.get(without_path(arn), prefix) != prefix
    ]
    if prefixes and (text is None or unlimited):
        raise ValueError(
            f"version {version} was published before these prefixes of [callers], and would let "
            f"{unlimited[0] if unlimited else 'each of them'} search something else; allowed: "
            "--version N of a later one, or to take the prefixes out and deploy"
        )


def _activate(client: Any, which: dict[str, str]) -> None:
    try:
        client.invoke(**which, Payload=invocation_event("GET", "/health"))
    except ClientError as error:
        # Any other rejection makes Lambda prepare the version.
        if error.response["Error"]["Code"] == "AccessDeniedException":
            raise
    client.get_waiter("function_active").wait(**which)


def _status(client: Any, which: dict[str, str]) -> int:
    """Return the status of a version's answer; 502 for a crash, as callers of the URL see it."""
    answer = client.invoke(**which, Payload=invocation_event("GET", "/health"))
    body = json.loads(answer["Payload"].read())
    return 502 if "FunctionError" in answer else int(body["statusCode"])


def _update(deployed: Deployed, template: dict[str, Any]) -> None:
    """Update the stack with a template: by its text, or by the address of an upload."""
    text = json.dumps(template, separators=(",", ":"))
    client, body = deployed.client("cloudformation"), {"TemplateBody": text}
    if len(text.encode()) > _INLINE:
        session, address = deployed.session, read_address(deployed.session, deployed.environment)
        body = {"TemplateURL": _upload(deployed, address, text.encode())}
        # CloudFormation reads the bucket with the caller's permissions, which this role has.
        client = bootstrap_client(
            session, "cloudformation", "deploy", account=address.account, region=address.region
        )
    client.update_stack(
        StackName=deployed.stack,
        **body,
        Parameters=[
            {"ParameterKey": name, "UsePreviousValue": True}
            for name in template.get("Parameters", {})
        ],
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
    )


def _upload(deployed: Deployed, address: RepositoryAddress, content: bytes) -> str:
    """Write a template to the bucket of the stack's own files; return its address."""
    bucket = package_bucket(deployed.environment, address)
    key = f"{hashlib.sha256(content).hexdigest()}.json"
    with TemporaryDirectory() as folder:
        file = Path(folder) / key
        file.write_bytes(content)
        PackageBucket(deployed.session, bucket).write(key, file)
    return f"https://s3.{address.region}.{partition_domain(address.region)}/{bucket}/{key}"


def _pinned(template: dict[str, Any], alias: dict[str, Any], version: str) -> dict[str, Any]:
    """Write the version into the template, and make CodeDeploy shift to it at once."""
    alias["Properties"]["FunctionVersion"] = version
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::CodeDeploy::DeploymentGroup":
            properties = resource["Properties"]
            properties["DeploymentConfigName"] = "CodeDeployDefault.LambdaAllAtOnce"
            properties["AlarmConfiguration"]["Enabled"] = False
        if resource["Type"] == "Custom::ReleaseCheck":
            # This is the space of the version being rolled back, and may differ.
            template["Outputs"].pop(resource["Properties"]["RecordedAs"], None)
    return template


if __name__ == "__main__":
    exit_with(main)
