"""What MiniStack lacks and the stacks need, added from outside: run this module in its place.

It runs in MiniStack's own environment (`rehearsal/ministack.txt` pins it), never in the project's.
Nothing here pretends to act: a recorded resource is kept as CloudFormation resolved it, so that a
check can read what would have been asked of AWS, and the rehearsal's report says so of each.

- ECR: `DescribeImages` of a missing tag is an error, as on AWS; MiniStack answers an empty list,
  and the CDK CLI would believe that the image is published and push nothing.
- Policies: `DescribeRepositories` is about the repository it names, and the loopback counts as TLS.
- Alarms on metric math, which MiniStack refuses, stand with all but the mathematics.
- Resource types that MiniStack refuses: `RECORDED` ones are kept; composite alarms and budgets go
  to MiniStack's own services, which have them, only not for CloudFormation.
- Application Auto Scaling: the calls that read and suspend what the stacks recorded.
- Lambda: a template's reserved concurrency is reserved, and a function's provisioned concurrency
  is listed; MiniStack has the first as a call alone, and the second for one qualifier at a time.
- Every function is invoked at `REHEARSAL_FUNCTION_PROXY`, MiniStack's own proxy mode: its
  `MINISTACK_LAMBDA_PROXY_URL` without a variable in a template.

`PRIVATE_NAMES` lists all of MiniStack that is touched and not public; a test fails when one moves.
"""

import copy
import json
import os
import pathlib
import time
import uuid
from collections.abc import Callable
from typing import Any

from ministack import app
from ministack.core import iam_actions, iam_evaluator, responses
from ministack.services import budgets, cloudwatch, ecr, lambda_svc
from ministack.services.cloudformation import provisioners

PRIVATE_NAMES = (
    (iam_actions, "extract_resource_arn"),
    (iam_evaluator, "_resolve_condition_key"),
    (app, "SERVICE_HANDLERS"),
    (ecr, "_describe_images"),
    (ecr, "_find_image"),
    (ecr, "_repositories"),
    (lambda_svc, "_functions"),
    (lambda_svc, "_get_provisioned_concurrency"),
    (lambda_svc, "_proxy_url_for"),
    (cloudwatch, "_composite_alarms"),
    (cloudwatch, "_put_metric_alarm"),
    (cloudwatch, "_put_composite_alarm"),
    (budgets, "_create_budget"),
    (budgets, "_delete_budget"),
    (provisioners, "_RESOURCE_HANDLERS"),
)

# Type → the property that names it (or none), and the ARN that its `Arn` attribute is.
RECORDED = {
    "AWS::ApplicationAutoScaling::ScalableTarget": (None, ""),
    "AWS::ApplicationAutoScaling::ScalingPolicy": (None, ""),
    "AWS::CodeDeploy::Application": (
        "ApplicationName",
        "codedeploy:{region}:{account}:application:{name}",
    ),
    "AWS::CodeDeploy::DeploymentConfig": (
        "DeploymentConfigName",
        "codedeploy:{region}:{account}:deploymentconfig:{name}",
    ),
    "AWS::CodeDeploy::DeploymentGroup": (
        "DeploymentGroupName",
        "codedeploy:{region}:{account}:deploymentgroup:{name}",
    ),
    "AWS::Logs::QueryDefinition": (None, ""),
}

Properties = dict[str, Any]
Created = tuple[str, dict[str, str]]

# Physical id → {"type", "stack", "logical_id", "properties"}, as CloudFormation resolved them.
records: dict[str, dict[str, Any]] = {}


def install() -> None:
    """Puts everything in its place; an error names what MiniStack no longer has."""
    for module, name in PRIVATE_NAMES:
        if not hasattr(module, name):
            message = f"{module.__name__}.{name} is gone from MiniStack: the plugin must follow"
            raise AttributeError(message)
    published = ecr._describe_images
    ecr._describe_images = lambda data: _missing_image(data) or published(data)
    condition_key = iam_evaluator._resolve_condition_key
    iam_evaluator._resolve_condition_key = lambda key, context: (
        "true" if key.lower() == "aws:securetransport" else condition_key(key, context)
    )
    resource = iam_actions.extract_resource_arn
    iam_actions.extract_resource_arn = lambda service, *request: (
        _named_repository(service, request) or resource(service, *request)
    )
    ready = lambda_svc._get_provisioned_concurrency
    lambda_svc._get_provisioned_concurrency = lambda function, qualifier: (
        ready(function, qualifier) if qualifier else _kept_ready(function)
    )
    if proxy := os.environ.get("REHEARSAL_FUNCTION_PROXY"):
        lambda_svc._proxy_url_for = lambda _config: proxy
    app.SERVICE_HANDLERS["application-autoscaling"] = _application_autoscaling
    handlers = provisioners._RESOURCE_HANDLERS
    for kind in RECORDED:
        _add(handlers, kind, _recorder(kind), _forget)
    _reserve_concurrency(handlers["AWS::Lambda::Function"])
    _keep_metric_math(handlers["AWS::CloudWatch::Alarm"])
    _add(handlers, "AWS::CloudWatch::CompositeAlarm", _composite_alarm, _remove_composite_alarm)
    _add(handlers, "AWS::Budgets::Budget", _budget, _remove_budget)


def _add(
    handlers: dict[str, Any],
    kind: str,
    create: Callable[[str, Properties, str], Created],
    delete: Callable[[str, Properties], None],
) -> None:
    if kind in handlers:
        message = f"MiniStack now makes {kind} itself: take it out of the plugin"
        raise ValueError(message)

    def update(
        physical: str, old: Properties, new: Properties, stack: str, logical: str
    ) -> Created:
        delete(physical, old)
        return create(logical, new, stack)

    handlers[kind] = {
        "create": create,
        "update": update,
        "update_with_logical_id": True,
        "delete": delete,
    }


def _named_repository(service: str, request: tuple[Any, ...]) -> str | None:
    """The one repository that `DescribeRepositories` names, which MiniStack takes for any."""
    _, _, _, body, _, region, account = request
    names = json.loads(body or b"{}").get("repositoryNames", []) if service == "ecr" else []
    return f"arn:aws:ecr:{region}:{account}:repository/{names[0]}" if len(names) == 1 else None


def _kept_ready(function: str) -> Any:
    """`ListProvisionedConcurrencyConfigs`, which MiniStack takes for a question about $LATEST."""
    place = f"{responses.get_region()}:{responses.get_account_id()}"
    kept = lambda_svc._functions[function].get("provisioned_concurrency", {})
    configs = [
        {**config, "FunctionArn": f"arn:aws:lambda:{place}:function:{function}:{qualifier}"}
        for qualifier, config in kept.items()
    ]
    return responses.json_response({"ProvisionedConcurrencyConfigs": configs})


def _missing_image(data: Properties) -> Any:
    repository = data.get("repositoryName", "")
    for image in data.get("imageIds") or []:
        if repository in ecr._repositories and not ecr._find_image(repository, image):
            return responses.error_response_json(
                "ImageNotFoundException", f"The image with imageId {image} does not exist", 400
            )
    return None


def _recorder(kind: str) -> Callable[[str, Properties, str], Created]:
    name_property, arn = RECORDED[kind]

    def create(logical: str, properties: Properties, stack: str) -> Created:
        name = properties.get(name_property) if name_property else None
        physical = name or _physical_id(kind, properties, f"{stack}-{logical}")
        _record(physical, kind, stack, logical, properties)
        place = {"region": responses.get_region(), "account": responses.get_account_id()}
        return physical, {"Arn": "arn:aws:" + arn.format(name=physical, **place)} if arn else {}

    return create


def _record(physical: str, kind: str, stack: str, logical: str, properties: Properties) -> None:
    records[physical] = {
        "type": kind,
        "stack": stack,
        "logical_id": logical,
        "properties": copy.deepcopy(properties),
    }
    _keep()


def _physical_id(kind: str, properties: Properties, fallback: str) -> str:
    """What `Ref` gives on AWS, where something refers to it; the documented form of each type."""
    if kind == "AWS::ApplicationAutoScaling::ScalableTarget":
        return "|".join(
            properties[key] for key in ("ResourceId", "ScalableDimension", "ServiceNamespace")
        )
    if kind == "AWS::ApplicationAutoScaling::ScalingPolicy":
        place = f"{responses.get_region()}:{responses.get_account_id()}"
        name = f"{uuid.uuid4()}:policyName/{properties['PolicyName']}"
        return f"arn:aws:autoscaling:{place}:scalingPolicy:{name}"
    return fallback


def _forget(physical: str, properties: Properties) -> None:
    records.pop(physical, None)
    _keep()


def _keep() -> None:
    """Writes the records where the rehearsal reads them."""
    if path := os.environ.get("REHEARSAL_RECORDS"):
        pathlib.Path(path).write_text(json.dumps(records, default=str))


def _reserve_concurrency(handler: dict[str, Any]) -> None:
    """Reserves what a template asks for; MiniStack has it as a call alone."""
    create, update = handler["create"], handler["update"]

    def reserve(made: Created, properties: Properties) -> Created:
        reserved = properties.get("ReservedConcurrentExecutions")
        kept = None if reserved is None else int(reserved)
        lambda_svc._functions[made[0]]["concurrency"] = kept
        return made

    def created(logical: str, properties: Properties, stack: str) -> Created:
        return reserve(create(logical, properties, stack), properties)

    def updated(physical: str, old: Properties, new: Properties, *rest: str) -> Created:
        return reserve(update(physical, old, new, *rest), new)

    handler.update(create=created, update=updated)


def _keep_metric_math(handler: dict[str, Any]) -> None:
    """Lets an alarm on metric math stand, its mathematics kept and never computed."""
    kind = "AWS::CloudWatch::Alarm"
    create, update, delete = handler["create"], handler["update"], handler["delete"]

    def created(logical: str, properties: Properties, stack: str) -> Created:
        if "Metrics" not in properties:
            return create(logical, properties, stack)
        name = properties.get("AlarmName") or f"{stack}-{logical}"
        plain = {key: value for key, value in properties.items() if key != "Metrics"}
        _refuse(cloudwatch._put_metric_alarm({}, _as_call(plain, name), False, True))
        _record(name, kind, stack, logical, properties)
        place = f"{responses.get_region()}:{responses.get_account_id()}"
        return name, {"Arn": f"arn:aws:cloudwatch:{place}:alarm:{name}"}

    def updated(
        physical: str, old: Properties, new: Properties, stack: str, logical: str
    ) -> Created:
        if "Metrics" in new:
            return created(logical, new, stack)
        return update(physical, old, new, stack, logical)

    def deleted(physical: str, properties: Properties) -> None:
        _forget(physical, properties)
        delete(physical, properties)

    handler.update(create=created, update=updated, delete=deleted)


def _composite_alarm(logical: str, properties: Properties, stack: str) -> Created:
    name = properties.get("AlarmName") or f"{stack}-{logical}"
    _refuse(cloudwatch._put_composite_alarm({}, _as_call(properties, name), False, True))
    place = f"{responses.get_region()}:{responses.get_account_id()}"
    return name, {"Arn": f"arn:aws:cloudwatch:{place}:alarm:{name}"}


def _as_call(properties: Properties, name: str) -> Properties:
    """An alarm's properties as a call to the service: without the stack's own tags."""
    tags = [t for t in properties.get("Tags", []) if not t["Key"].startswith("aws:")]
    return {**properties, "AlarmName": name, "Tags": tags}


def _remove_composite_alarm(physical: str, properties: Properties) -> None:
    cloudwatch._composite_alarms.pop(physical, None)


def _budget(logical: str, properties: Properties, stack: str) -> Created:
    budget = copy.deepcopy(properties["Budget"])
    budget.setdefault("BudgetName", f"{stack}-{logical}")
    if "BudgetLimit" in budget:
        budget["BudgetLimit"]["Amount"] = str(budget["BudgetLimit"]["Amount"])
    _refuse(
        budgets._create_budget(
            {
                "AccountId": responses.get_account_id(),
                "Budget": budget,
                "NotificationsWithSubscribers": properties.get("NotificationsWithSubscribers", []),
            }
        )
    )
    return budget["BudgetName"], {}


def _remove_budget(physical: str, properties: Properties) -> None:
    budgets._delete_budget({"AccountId": responses.get_account_id(), "BudgetName": physical})


def _refuse(answer: tuple[int, dict[str, str], bytes]) -> None:
    """An error of the emulated service is the resource's error."""
    status, _, body = answer
    if status >= 400:
        raise ValueError(body.decode() if isinstance(body, bytes) else str(body))


async def _application_autoscaling(
    method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, Any]
) -> Any:
    operation = headers.get("x-amz-target", "").rpartition(".")[2]
    asked = json.loads(body or b"{}")
    if operation == "DescribeScalableTargets":
        return responses.json_response({"ScalableTargets": [_target(r) for r in _targets(asked)]})
    if operation == "DescribeScalingPolicies":
        return responses.json_response({"ScalingPolicies": _policies(asked)})
    if operation == "DescribeScheduledActions":
        actions = [
            {
                **_key(record),
                **action,
                "ScheduledActionARN": "arn:aws:autoscaling:recorded",
                "CreationTime": 0,
            }
            for record in _targets(asked)
            for action in record["properties"].get("ScheduledActions", [])
        ]
        return responses.json_response({"ScheduledActions": actions})
    if operation == "RegisterScalableTarget":
        found = _targets(asked)
        for record in found:
            record["properties"]["SuspendedState"] = asked["SuspendedState"]
        _keep()
        if found:
            return responses.json_response({"ScalableTargetARN": "arn:aws:autoscaling:recorded"})
        return responses.error_response_json(
            "ValidationException", "only a recorded target is suspended here", 400
        )
    return responses.error_response_json("ValidationException", f"not emulated: {operation}", 400)


def _targets(asked: Properties) -> list[dict[str, Any]]:
    wanted = set(
        asked.get("ResourceIds") or ([asked["ResourceId"]] if asked.get("ResourceId") else [])
    )
    return [
        record
        for record in records.values()
        if record["type"] == "AWS::ApplicationAutoScaling::ScalableTarget"
        and (not wanted or record["properties"]["ResourceId"] in wanted)
        and asked.get("ScalableDimension") in (None, record["properties"]["ScalableDimension"])
    ]


def _policies(asked: Properties) -> list[dict[str, Any]]:
    policies = []
    for physical, record in records.items():
        if record["type"] == "AWS::ApplicationAutoScaling::ScalingPolicy":
            properties = dict(record["properties"])
            if target := properties.pop("ScalingTargetId", None):
                keys = ("ResourceId", "ScalableDimension", "ServiceNamespace")
                properties.update(zip(keys, target.split("|"), strict=True))
            policies.append({**properties, "PolicyARN": physical, "CreationTime": time.time()})
    return [p for p in policies if asked.get("ResourceId") in (None, p["ResourceId"])]


def _key(record: dict[str, Any]) -> dict[str, str]:
    return {
        k: record["properties"][k] for k in ("ServiceNamespace", "ResourceId", "ScalableDimension")
    }


def _target(record: dict[str, Any]) -> dict[str, Any]:
    properties = record["properties"]
    return {
        **_key(record),
        "MinCapacity": int(properties["MinCapacity"]),
        "MaxCapacity": int(properties["MaxCapacity"]),
        "RoleARN": properties.get("RoleARN", ""),
        **{k: properties[k] for k in ("SuspendedState",) if k in properties},
        "CreationTime": time.time(),
    }


if __name__ == "__main__":
    install()
    app.main()
