"""Checks of the repository, function, version, alias, URL, permissions and roles.

Each takes the emulated AWS, the deployed stacks and one resource. It returns the check, its source,
and the differences from the template.
"""

import json
from collections.abc import Callable
from typing import Any

from deploy_rehearsal.deployed import DeployedStacks, Resource
from deploy_rehearsal.differences import differences, literals
from deploy_rehearsal.emulator import Emulator

__all__ = ["FUNCTION_CHECKS", "Found"]

Found = tuple[str, str, list[str]]


def _repository(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    ecr, name = aws.client("ecr"), resource.physical_id
    found = ecr.describe_repositories(repositoryNames=[name])["repositories"][0]
    asked = literals(resource.properties)
    policy = json.loads(ecr.get_repository_policy(repositoryName=name)["policyText"])
    lifecycle = json.loads(ecr.get_lifecycle_policy(repositoryName=name)["lifecyclePolicyText"])
    faults = differences(
        {
            "imageTagMutability": asked.get("ImageTagMutability", "MUTABLE"),
            "scanOnPush": asked.get("ImageScanningConfiguration", {}).get("ScanOnPush", False),
            "policy": asked["RepositoryPolicyText"],
            "lifecycle": json.loads(asked["LifecyclePolicy"]["LifecyclePolicyText"]),
        },
        {
            "imageTagMutability": found["imageTagMutability"],
            "scanOnPush": found["imageScanningConfiguration"]["scanOnPush"],
            "policy": policy,
            "lifecycle": lifecycle,
        },
    )
    return (
        "tag mutability, scan, repository policy and lifecycle equal the template's",
        "ECR",
        faults,
    )


def _function(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    found = aws.client("lambda").get_function(FunctionName=resource.physical_id)
    configuration, asked = found["Configuration"], literals(resource.properties)
    wanted = {
        name: asked[name]
        for name in (
            "Architectures", "EphemeralStorage", "ImageConfig", "LoggingConfig", "MemorySize",
            "PackageType", "Timeout", "TracingConfig",
        )
        if name in asked
    }  # fmt: skip
    if "ImageConfig" in wanted:
        configuration["ImageConfig"] = configuration.get("ImageConfigResponse", {}).get(
            "ImageConfig"
        )
    faults = differences(wanted, configuration)
    variables = asked.get("Environment", {}).get("Variables", {})
    faults += differences(variables, configuration.get("Environment", {}).get("Variables", {}))
    reserved = asked.get("ReservedConcurrentExecutions")
    kept = found.get("Concurrency", {}).get("ReservedConcurrentExecutions")
    faults += differences(
        {"ReservedConcurrentExecutions": reserved}, {"ReservedConcurrentExecutions": kept}
    )
    if asked.get("SnapStart"):
        faults += differences(asked["SnapStart"], configuration.get("SnapStart", {}))
    faults += _tags(asked, found.get("Tags", {}))
    check = "size, logs, tracing, variables, concurrency and tags equal the template's"
    if "ImageUri" not in asked.get("Code", {}):
        return f"{check}; it runs the CDK's own code", "Lambda", faults
    faults += _image_is_there(aws, found.get("Code", {}).get("ImageUri", ""))
    return f"{check}; its image is in the repository", "Lambda, ECR", faults


def _tags(asked: dict[str, Any], found: dict[str, str]) -> list[str]:
    wanted = {tag["Key"]: tag["Value"] for tag in asked.get("Tags", [])}
    return [
        f"tag {k} asked {v!r}, found {found.get(k)!r}"
        for k, v in wanted.items()
        if found.get(k) != v
    ]


def _image_is_there(aws: Emulator, uri: str) -> list[str]:
    registry, _, name = uri.partition("/")
    name, _, tag = name.partition(":")
    if not registry.startswith(f"{aws.account}.dkr.ecr.{aws.region}."):
        return [f"image {uri!r} is in no repository of this account"]
    images = aws.client("ecr").batch_get_image(repositoryName=name, imageIds=[{"imageTag": tag}])[
        "images"
    ]
    if not images:
        return [f"image {tag} is not in {name}"]
    manifest = json.loads(images[0]["imageManifest"])
    return [] if "manifests" not in manifest else [f"image {tag} is an index"]


def _version(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    function, _, number = str(resource.physical_id).rpartition(":")
    found = aws.client("lambda").get_function_configuration(FunctionName=function, Qualifier=number)
    faults = [] if found["Version"] == number else [f"version {found['Version']}"]
    return "published", "Lambda", faults


def _alias(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    client, asked = aws.client("lambda"), literals(resource.properties)
    function = str(resource.physical_id).rpartition(":")[0]
    found = client.get_alias(FunctionName=function, Name=asked["Name"])
    versions = [
        item["Version"]
        for item in client.list_versions_by_function(FunctionName=function)["Versions"]
        if item["Version"] != "$LATEST"
    ]
    newest = max(versions, key=int)
    faults = differences({"Name": asked["Name"]}, found)
    if found["FunctionVersion"] != newest:
        faults.append(f"points to {found['FunctionVersion']}, newest is {newest}")
    weights = found.get("RoutingConfig", {}).get("AdditionalVersionWeights")
    if bool(weights) != bool(asked.get("RoutingConfig")):
        faults.append(f"weights {weights}")
    return (
        "points to the newest published version; its weights equal the template's",
        "Lambda",
        faults,
    )


def _url(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    asked, client = literals(resource.properties), aws.client("lambda")
    function = _embedder(deployed)
    found = client.get_function_url_config(FunctionName=function, Qualifier=asked["Qualifier"])
    faults = differences(
        {"AuthType": asked["AuthType"], "InvokeMode": asked.get("InvokeMode", "BUFFERED")}, found
    )
    urls = client.list_function_url_configs(FunctionName=function)["FunctionUrlConfigs"]
    wide = [url for url in urls if url["AuthType"] != "AWS_IAM"]
    faults += [f"{len(wide)} URLs without a signature"] if wide else []
    try:
        client.get_function_url_config(FunctionName=function)
        faults.append("the function itself has a URL")
    except client.exceptions.ResourceNotFoundException:
        pass
    return "accepts only signed requests; on the alias, not on the function", "Lambda", faults


def _permission(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    asked, client = literals(resource.properties), aws.client("lambda")
    function = _embedder(deployed)
    statements = json.loads(client.get_policy(FunctionName=function)["Policy"])["Statement"]
    wanted = {"Effect": "Allow", "Action": asked["Action"]}
    condition = {
        "lambda:InvokeFunctionUrl": "lambda:FunctionUrlAuthType",
        "lambda:InvokeFunction": "lambda:InvokedViaFunctionUrl",
    }[asked["Action"]]
    matching = [
        statement
        for statement in statements
        if not differences(wanted, statement)
        and not differences(asked.get("Principal"), _principal(statement))
        and condition in json.dumps(statement.get("Condition", {}))
    ]
    faults = [] if matching else [f"no such statement among {len(statements)}"]
    bare = [s for s in matching if s["Resource"].endswith(f":function:{function}")]
    faults += ["on the function, not on an alias"] if bare else []
    check = f"{asked['Action']} on an alias, for this principal, only through the URL"
    return check, "Lambda", faults


def _embedder(deployed: DeployedStacks) -> str:
    """Return the name of the endpoint's function."""
    return deployed.outputs["AliasArn"].split(":")[-2]


def _principal(statement: dict[str, Any]) -> str:
    principal = statement.get("Principal", {})
    return str(next(iter(principal.values()))) if isinstance(principal, dict) else str(principal)


def _role(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    iam, asked = aws.client("iam"), literals(resource.properties)
    role = iam.get_role(RoleName=resource.physical_id)["Role"]
    trusted = asked["AssumeRolePolicyDocument"]
    faults = differences(trusted, role["AssumeRolePolicyDocument"])
    attached = iam.list_attached_role_policies(RoleName=resource.physical_id)["AttachedPolicies"]
    wanted = len(asked.get("ManagedPolicyArns") or [])
    if len(attached) != wanted:
        faults.append(f"{len(attached)} managed policies, {wanted} asked")
    return "its trust policy equals the template's; it has no further managed policy", "IAM", faults


def _policy(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    iam, asked = aws.client("iam"), literals(resource.properties)
    name, wanted = asked["PolicyName"], asked["PolicyDocument"]
    roles = [role["RoleName"] for role in iam.list_roles()["Roles"]]
    found = [
        iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
        for role in roles
        if name in iam.list_role_policies(RoleName=role)["PolicyNames"]
    ]
    faults = differences(wanted, found[0]) if found else ["on no role"]
    return "the role has its statements, with every reference resolved", "IAM", faults


def _release_check(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    asked = literals(resource.properties)
    space = deployed.outputs.get(str(asked["RecordedAs"]), "")
    faults = [] if "/" in space else [f"recorded {space!r}"]
    return (
        "it accepted the version, and the stack records the vector space",
        "CloudFormation",
        faults,
    )


FUNCTION_CHECKS: dict[str, Callable[[Emulator, DeployedStacks, Resource], Found]] = {
    "AWS::ECR::Repository": _repository,
    "AWS::IAM::Policy": _policy,
    "AWS::IAM::Role": _role,
    "AWS::Lambda::Alias": _alias,
    "AWS::Lambda::Function": _function,
    "AWS::Lambda::Permission": _permission,
    "AWS::Lambda::Url": _url,
    "AWS::Lambda::Version": _version,
    "Custom::ReleaseCheck": _release_check,
}
