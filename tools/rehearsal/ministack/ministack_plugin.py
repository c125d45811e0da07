"""MiniStack with the features that it lacks and the stacks need: run this module instead of it.

It runs in MiniStack's virtual environment (pinned in `tools/rehearsal/ministack.txt`). The modules
next to it replace functions of MiniStack, each with AWS's documented rule next to it. This one adds
the actions, resources and conditions by which AWS authorizes requests, ECR's rules, those of
CloudFormation's change sets, and the resources that MiniStack does not make from templates.
"""

import copy
import json
import os
import uuid
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import ministack_functions  # noqa: F401 - replaces functions of MiniStack
from ministack import app
from ministack.core import iam_actions, iam_evaluator, responses
from ministack.services import budgets, cloudformation, cloudwatch_logs, ecr, iam, waf
from ministack.services.cloudformation import changesets, handlers, helpers, stacks
from ministack_patches import (
    HANDLERS,
    Created,
    Properties,
    add_handler,
    arn,
    forget,
    record,
    records,
    refused,
    replaces,
)

_BY_URL = "lambda:InvokeFunctionUrl"
#: The condition keys of a simulation, in lower case; each request has its own.
_simulated: ContextVar[dict[str, str]] = ContextVar("simulated", default={})  # noqa: B039 - not changed
_OF_ONE_ALIAS = {"GET": "GetAlias", "PUT": "UpdateAlias", "DELETE": "DeleteAlias"}


# Bootstrap's bucket refuses requests without TLS: here the loopback interface counts as TLS.
@replaces(iam_evaluator, "_resolve_condition_key")
def _condition_key(original: Callable[..., Any], key: str, context: Any) -> Any:
    if key.lower() == "aws:securetransport":
        return "true"
    return _simulated.get().get(key.lower()) or original(key, context)


# SimulatePrincipalPolicy uses the conditions of its request, which MiniStack ignores:
# https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html
@replaces(iam, "_extract_simulate_params")
def _extract(original: Callable[..., Any], request: dict[str, Any]) -> Any:
    keys, number = {}, 1
    while name := iam._p(request, f"ContextEntries.member.{number}.ContextKeyName"):
        value = iam._p(request, f"ContextEntries.member.{number}.ContextKeyValues.member.1")
        keys[name.lower()] = value
        number += 1
    _simulated.set(keys)
    return original(request)


# A request to a Function URL needs `InvokeFunction` besides `InvokeFunctionUrl`:
# https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html
@replaces(app, "_enforce_data_plane")
def _enforce(
    original: Callable[..., Any],
    service: str,
    wanted: str,
    headers: dict[str, str],
    *request: Any,
    **given: Any,
) -> Any:
    denied = original(service, wanted, headers, *request, **given)
    # An unsigned request has no caller; the URL itself refuses it.
    if denied or wanted != _BY_URL or "authorization" not in headers:
        return denied
    by_url = given | {"service_context": {"lambda:InvokedViaFunctionUrl": "true"}}
    return original(service, "lambda:InvokeFunction", headers, *request, **by_url)


# https://docs.aws.amazon.com/service-authorization/latest/reference/list_awslambda.html:
# an alias is not read by `ListAliases`, nor the reserved concurrency by an action that sets it.
@replaces(iam_actions, "_lambda_action")
def _action(original: Callable[..., Any], method: str, path: str) -> Any:
    segments = path.strip("/").split("/")
    if "aliases" in segments[3:-1] and method in _OF_ONE_ALIAS:
        return _OF_ONE_ALIAS[method]
    if method == "GET" and segments[-1] == "concurrency":
        return "GetFunctionConcurrency"
    return original(method, path)


# A repository, a map run, the principal of a simulation, and a version or alias are resources:
# https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelasticcontainerregistry.html
# https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsstepfunctions.html
# https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsidentityandaccessmanagementiam.html
@replaces(iam_actions, "extract_resource_arn")
def _resource(original: Callable[..., Any], service: str, *request: Any) -> Any:
    _, _, _, body, query, region, account = request
    if service == "ecr":
        names = json.loads(body or b"{}").get("repositoryNames", [])
        if len(names) == 1:
            return f"arn:aws:ecr:{region}:{account}:repository/{names[0]}"
    if service == "states" and (run := json.loads(body or b"{}").get("mapRunArn")):
        return run
    if service == "iam" and (principal := _first(query.get("PolicySourceArn"))):
        return principal
    result = original(service, *request)
    qualifier = _first(query.get("Qualifier")) if service == "lambda" else None
    if qualifier and result.startswith("arn:aws:lambda:") and result.count(":") == 6:
        return f"{result}:{qualifier}"
    return result


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) else value


_UNCHANGED = "The submitted information didn't contain changes."
#: The logical ids that the running deploy imports. Each deploy is a task with its own value.
_imported: ContextVar[frozenset[str]] = ContextVar("imported", default=frozenset())


@replaces(changesets, "_deploy_stack_async")
async def _deploy(
    original: Callable[..., Any], *arguments: Any, imports: Any = None, **more: Any
) -> None:
    _imported.set(frozenset(imports or ()))
    await original(*arguments, imports=imports, **more)


# The name of a bucket is taken, unless the change set imports the bucket:
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/import-resources-automatically.html
@replaces(stacks, "_validation_errors")
def _errors(original: Callable[..., Any], *arguments: Any) -> list[tuple[str, ...]]:
    return [
        error
        for error in original(*arguments)
        if error[2] != "NAME_CONFLICT_VALIDATION" or error[0] not in _imported.get()
    ]


# A stack that is being changed cannot be updated. MiniStack refuses `UpdateStack` alone:
# https://github.com/ansible-collections/amazon.aws/pull/1910
@replaces(handlers._ACTION_HANDLERS, "CreateChangeSet")
def _create(original: Callable[..., Any], params: dict[str, Any]) -> Any:
    name = helpers._p(params, "StackName")
    status = (handlers._resolve_stack(name) or {}).get("StackStatus", "")
    if status.endswith("_IN_PROGRESS") and status != "REVIEW_IN_PROGRESS":
        message = f"Stack:{name} is in {status} state and can not be updated."
        return helpers._error("ValidationError", message)
    _remember(name)
    answer = original(params)
    _allow_outputs(name, helpers._p(params, "ChangeSetName"))
    return answer


@replaces(handlers._ACTION_HANDLERS, "CreateStack")
def _create_stack(original: Callable[..., Any], params: dict[str, Any]) -> Any:
    _remember(helpers._p(params, "StackName"))
    return original(params)


# A deleted stack is listed for 90 days, also after another one with its name was made:
# https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_ListStacks.html
def _remember(name: str) -> None:
    stack_record = cloudformation._stacks.get(name)
    if stack_record and stack_record["StackStatus"] == "DELETE_COMPLETE":
        cloudformation._stacks[stack_record["StackId"]] = dict(stack_record)


# A change of the outputs alone can be executed: https://github.com/aws/aws-cdk/issues/2029
def _allow_outputs(stack: str, name: str) -> None:
    _, change_set = changesets._find_change_set(name, stack)
    if not change_set or not change_set["StatusReason"].startswith(_UNCHANGED):
        return
    before = cloudformation._stacks[change_set["StackName"]]["_template"]
    if change_set["_template"].get("Outputs", {}) != before.get("Outputs", {}):
        change_set.update(Status="CREATE_COMPLETE", ExecutionStatus="AVAILABLE", StatusReason="")


_LOG_GROUP = HANDLERS["AWS::Logs::LogGroup"]


# The name of a log group without one is the stack's, the logical id, and random characters:
# https://github.com/aws-cloudformation/aws-cloudformation-resource-providers-logs/pull/32
@replaces(_LOG_GROUP, "create")
def _create_log_group(
    original: Callable[..., Any], logical: str, properties: Properties, stack: str
) -> Any:
    name = f"{stack}-{logical}-{uuid.uuid4().hex[:12]}"
    return original(logical, {"LogGroupName": name, **properties}, stack)


@replaces(_LOG_GROUP, "update")
def _update_log_group(
    original: Callable[..., Any], physical: str, old: Properties, new: Properties, *at: str
) -> Any:
    named = {"LogGroupName": physical}
    return original(physical, named | old, named | new, *at)


_TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
#: The resources that are recorded only: type → its service in ARNs and the property with its name.
_RECORDED = {
    _TARGET: ("", ""),
    "AWS::ApplicationAutoScaling::ScalingPolicy": ("", ""),
    "AWS::CodeDeploy::Application": ("codedeploy:application:", "ApplicationName"),
    "AWS::CodeDeploy::DeploymentConfig": ("codedeploy:deploymentconfig:", "DeploymentConfigName"),
    "AWS::CodeDeploy::DeploymentGroup": ("codedeploy:deploymentgroup:", "DeploymentGroupName"),
    "AWS::EC2::SecurityGroupEgress": ("", ""),
    "AWS::EC2::SecurityGroupIngress": ("", ""),
    "AWS::Logs::QueryDefinition": ("", ""),
    "AWS::WAFv2::IPSet": ("wafv2:regional/ipset/", ""),
}
_KEY = ("ResourceId", "ScalableDimension", "ServiceNamespace")


# A missing image is an error, and not an empty list, after which the CDK's command pushes nothing:
# https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_DescribeImages.html
@replaces(ecr, "_describe_images")
def _describe_images(original: Callable[..., Any], data: Properties) -> Any:
    repository = data.get("repositoryName", "")
    for image in data.get("imageIds") or []:
        if repository in ecr._repositories and not ecr._find_image(repository, image):
            message = f"The image with imageId {image} does not exist"
            return responses.error_response_json("ImageNotFoundException", message, 400)
    return original(data)


# The address in an authorization token is where MiniStack's registry answers.
@replaces(ecr, "_get_authorization_token")
def _token(original: Callable[..., Any], data: Properties) -> Any:
    status, headers, body = original(data)
    content = json.loads(body)
    for token in content["authorizationData"]:
        token["proxyEndpoint"] = f"http://localhost:{os.environ['GATEWAY_PORT']}"
    return status, headers, json.dumps(content).encode()


# A pattern for JSON matches messages that are JSON; MiniStack takes it for one that matches all:
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html
@replaces(cloudwatch_logs, "_compile_filter_pattern")
def _filter(original: Callable[..., Any], pattern: str) -> Any:
    of_json = pattern.strip().startswith("{")
    return (lambda message: message.startswith("{")) if of_json else original(pattern)


def _recorder(kind: str) -> Callable[[str, Properties, str], Created]:
    service, _, resource = _RECORDED[kind][0].partition(":")

    def create(logical: str, properties: Properties, stack: str) -> Created:
        name = properties.get(_RECORDED[kind][1]) or _reference(kind, properties)
        name = name or f"{stack}-{logical}"
        record(name, kind, properties)
        return name, {"Arn": arn(service, f"{resource}{name}")} if service else {}

    return create


# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-applicationautoscaling-scalabletarget.html
def _reference(kind: str, properties: Properties) -> str | None:
    """Return the value of `Ref` in the documented form of a type; None if it is any name."""
    if kind == _TARGET:
        return "|".join(properties[key] for key in _KEY)
    if kind == "AWS::ApplicationAutoScaling::ScalingPolicy":
        policy = f"scalingPolicy:{uuid.uuid4()}:policyName/{properties['PolicyName']}"
        return str(arn("autoscaling", policy))
    return None


# Nothing scales here, but a target can be described and suspended:
# https://docs.aws.amazon.com/autoscaling/application/APIReference/API_Operations.html
async def _scaling(
    method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, Any]
) -> Any:
    operation = headers.get("x-amz-target", "").rpartition(".")[2]
    parameters = json.loads(body or b"{}")
    resource_ids = parameters.get("ResourceIds") or [parameters.get("ResourceId")]
    targets = [
        record["properties"]
        for record in records.values()
        if record["type"] == _TARGET
        and (resource_ids == [None] or record["properties"]["ResourceId"] in resource_ids)
        and parameters.get("ScalableDimension") in (None, record["properties"]["ScalableDimension"])
    ]
    if operation == "DescribeScalableTargets":
        described = [
            {
                **{key: target[key] for key in (*_KEY, "SuspendedState") if key in target},
                "MinCapacity": int(target["MinCapacity"]),
                "MaxCapacity": int(target["MaxCapacity"]),
                "RoleARN": target.get("RoleARN", ""),
                "CreationTime": 0,
            }
            for target in targets
        ]
        return responses.json_response({"ScalableTargets": described})
    if operation == "RegisterScalableTarget" and targets:
        targets[0]["SuspendedState"] = parameters["SuspendedState"]
        return responses.json_response({"ScalableTargetARN": "arn:aws:autoscaling:recorded"})
    return responses.error_response_json("ValidationException", f"not emulated: {operation}", 400)


# MiniStack has these two as an API and not in templates:
# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-budgets-budget.html
def _create_budget(logical: str, properties: Properties, stack: str) -> Created:
    budget = copy.deepcopy(properties["Budget"])
    budget.setdefault("BudgetName", f"{stack}-{logical}")
    budget["BudgetLimit"]["Amount"] = str(budget["BudgetLimit"]["Amount"])
    request = {
        "AccountId": responses.get_account_id(),
        "Budget": budget,
        "NotificationsWithSubscribers": properties.get("NotificationsWithSubscribers", []),
    }
    refused(budgets._create_budget(request))
    return budget["BudgetName"], {}


def _delete_budget(name: str, _: Properties) -> None:
    budgets._delete_budget({"AccountId": responses.get_account_id(), "BudgetName": name})


# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-wafv2-webaclassociation.html
def _associate(_: str, properties: Properties, __: str) -> Created:
    resource, acl = properties["ResourceArn"], properties["WebACLArn"]
    refused(waf._associate_web_acl({"ResourceArn": resource, "WebACLArn": acl}))
    return f"{resource}|{acl}", {}


def _disassociate(_: str, properties: Properties) -> None:
    waf._disassociate_web_acl({"ResourceArn": properties["ResourceArn"]})


for _kind in _RECORDED:
    add_handler(_kind, _recorder(_kind), forget)
add_handler("AWS::Budgets::Budget", _create_budget, _delete_budget)
add_handler("AWS::WAFv2::WebACLAssociation", _associate, _disassociate)
app.SERVICE_HANDLERS["application-autoscaling"] = _scaling

if __name__ == "__main__":
    app.main()
