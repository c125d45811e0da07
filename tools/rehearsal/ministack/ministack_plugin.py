"""MiniStack with the features that it lacks and the stacks need: run this module instead of it.

It runs in MiniStack's virtual environment (pinned in `tools/rehearsal/ministack.txt`).
Each module next to it adds one feature. This one adds the rest:

- ECR: `DescribeImages` of a missing tag is an error
  (https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_DescribeImages.html). MiniStack
  returns an empty list, so the CDK CLI would assume that the image is published and push nothing.
- ECR: the endpoint of an authorization token is where MiniStack's registry answers.
- Alarms on metric math, which MiniStack refuses, are created. `ministack_alarms` evaluates them.
- Composite alarms and budgets are created with MiniStack's own services, which its CloudFormation
  does not use.
- Lambda: reserved concurrency in a template is reserved, and a function's provisioned concurrency
  is listed
  (https://docs.aws.amazon.com/lambda/latest/api/API_ListProvisionedConcurrencyConfigs.html).
  MiniStack reserves only by an API call, and lists one qualifier at a time.
- Lambda: a reservation that leaves the other functions fewer than 100 of the account's concurrency
  is refused (https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html). So is a
  function of an image that does not exist or is an index
  (https://docs.aws.amazon.com/lambda/latest/dg/images-create.html).
- Every function is invoked at `REHEARSAL_FUNCTION_PROXY`, in MiniStack's proxy mode
  (`MINISTACK_LAMBDA_PROXY_URL`), without a variable in the template. The event is sent with the
  credentials of the function's role. A response in the form of an error is the function's error.
- A version with SnapStart is active when it is published, because CloudFormation waits for that. A
  function's own code does not run in MiniStack, so there is no snapshot to wait for.

`PRIVATE_NAMES` lists MiniStack's private names that the plugin uses. A test fails if one is gone.
"""

import copy
import json
import os
import urllib.parse
from collections.abc import Callable
from typing import Any

import ministack_alarms
import ministack_change_sets
import ministack_codedeploy
import ministack_codedeploy_api
import ministack_firewall
import ministack_logs
import ministack_map_runs
import ministack_policies
import ministack_releases
import ministack_scaling
import ministack_versions
from ministack import app
from ministack.core import lambda_runtime, responses
from ministack.services import budgets, cloudwatch, ecr, lambda_svc
from ministack.services.cloudformation import provisioners
from ministack_records import (
    RECORDED,
    Created,
    Properties,
    forget,
    record,
    recorder,
    records,
)

_OWN = (
    (app, "SERVICE_HANDLERS"),
    (ecr, "_describe_images"),
    (ecr, "_find_image"),
    (ecr, "_get_authorization_token"),
    (ecr, "_repositories"),
    (lambda_svc, "_create_function"),
    (lambda_svc, "_execute_function_proxy"),
    (lambda_svc, "_functions"),
    (lambda_svc, "_get_provisioned_concurrency"),
    (lambda_svc, "_proxy_url_for"),
    (lambda_svc, "_put_function_concurrency"),
    (lambda_svc, "_snapstart_provision_version_async"),
    (lambda_svc, "_update_code"),
    (cloudwatch, "_composite_alarms"),
    (cloudwatch, "_put_metric_alarm"),
    (cloudwatch, "_put_composite_alarm"),
    (budgets, "_create_budget"),
    (budgets, "_delete_budget"),
    (provisioners, "_RESOURCE_HANDLERS"),
)
#: The concurrency of an account, and how much of it no function may reserve.
_CONCURRENCY, _UNRESERVED = 1000, 100
#: The private names of this module and of those next to it.
PRIVATE_NAMES = tuple(
    dict.fromkeys(
        _OWN
        + ministack_alarms.PRIVATE_NAMES
        + ministack_codedeploy.PRIVATE_NAMES
        + ministack_codedeploy_api.PRIVATE_NAMES
        + ministack_firewall.PRIVATE_NAMES
        + ministack_change_sets.PRIVATE_NAMES
        + ministack_logs.PRIVATE_NAMES
        + ministack_map_runs.PRIVATE_NAMES
        + ministack_policies.PRIVATE_NAMES
        + ministack_releases.PRIVATE_NAMES
        + ministack_versions.PRIVATE_NAMES
    )
)


def install() -> None:
    """Install the plugin; an error names a private name that MiniStack no longer has."""
    for module, name in PRIVATE_NAMES:
        if not hasattr(module, name):
            message = f"{module.__name__}.{name} is gone from MiniStack: the plugin must follow"
            raise AttributeError(message)
    published = ecr._describe_images
    ecr._describe_images = lambda data: _missing_image(data) or published(data)
    token = ecr._get_authorization_token
    ecr._get_authorization_token = lambda data: _at_this_registry(token(data))
    ready = lambda_svc._get_provisioned_concurrency
    lambda_svc._get_provisioned_concurrency = lambda function, qualifier: (
        ready(function, qualifier) if qualifier else _provisioned(function)
    )
    if proxy := os.environ.get("REHEARSAL_FUNCTION_PROXY"):
        lambda_svc._proxy_url_for = lambda config: _with_credentials(proxy, config)
        answered = lambda_svc._execute_function_proxy
        lambda_svc._execute_function_proxy = lambda *asked: _with_error(answered(*asked))
        lambda_svc._snapstart_provision_version_async = _activate
    app.SERVICE_HANDLERS["application-autoscaling"] = ministack_scaling.answer
    handlers = provisioners._RESOURCE_HANDLERS
    for kind in RECORDED:
        _add(handlers, kind, recorder(kind), forget)
    _check_functions(handlers["AWS::Lambda::Function"])
    _keep_metric_math(handlers["AWS::CloudWatch::Alarm"])
    _add(handlers, "AWS::CloudWatch::CompositeAlarm", _composite_alarm, _remove_composite_alarm)
    _add(handlers, "AWS::Budgets::Budget", _budget, _remove_budget)
    _add(
        handlers,
        "AWS::WAFv2::WebACLAssociation",
        ministack_firewall.associate,
        ministack_firewall.disassociate,
    )
    ministack_policies.install()
    ministack_versions.install()
    ministack_alarms.install(_metric_math)
    ministack_releases.install(records)
    ministack_map_runs.install()
    ministack_change_sets.install()
    ministack_logs.install()


def _activate(_: str, version: dict[str, Any]) -> None:
    configuration = version["config"]
    configuration.update(State="Active", LastUpdateStatus="Successful")
    configuration.update(StateReason="", StateReasonCode="")


def _metric_math(alarm: str) -> list[dict[str, Any]]:
    """Return the metrics of an alarm on metric math; empty for a plain alarm."""
    record = records.get(alarm, {})
    found: list[dict[str, Any]] = record.get("properties", {}).get("Metrics", [])
    return found


def _with_credentials(proxy: str, config: dict[str, Any]) -> str:
    """Return the address of the proxy, with the credentials of the function's role."""
    return f"{proxy}?{urllib.parse.urlencode(lambda_runtime.execution_credentials(config))}"


def _with_error(result: dict[str, Any]) -> dict[str, Any]:
    """Mark an answer in the form of a function's error as an error."""
    body = result.get("body")
    failed = isinstance(body, dict) and set(body) == {"errorMessage", "errorType"}
    return {**result, "error": True} if failed else result


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


def _provisioned(function: str) -> Any:
    """Answer `ListProvisionedConcurrencyConfigs`, which MiniStack applies to $LATEST."""
    place = f"{responses.get_region()}:{responses.get_account_id()}"
    kept = lambda_svc._functions[function].get("provisioned_concurrency", {})
    configs = [
        {**config, "FunctionArn": f"arn:aws:lambda:{place}:function:{function}:{qualifier}"}
        for qualifier, config in kept.items()
    ]
    return responses.json_response({"ProvisionedConcurrencyConfigs": configs})


def _at_this_registry(answer: Any) -> Any:
    """Replace ECR's address in an authorization token by that of MiniStack's registry."""
    status, headers, body = answer
    content = json.loads(body)
    for data in content["authorizationData"]:
        data["proxyEndpoint"] = f"http://localhost:{os.environ['GATEWAY_PORT']}"
    return status, headers, json.dumps(content).encode()


def _missing_image(data: Properties) -> Any:
    repository = data.get("repositoryName", "")
    for image in data.get("imageIds") or []:
        if repository in ecr._repositories and not ecr._find_image(repository, image):
            return responses.error_response_json(
                "ImageNotFoundException", f"The image with imageId {image} does not exist", 400
            )
    return None


def _check_functions(handler: dict[str, Any]) -> None:
    """Check functions as Lambda does, and reserve the concurrency of a template."""
    create, update = handler["create"], handler["update"]

    def set_up(made: Created, properties: Properties) -> Created:
        reserved = properties.get("ReservedConcurrentExecutions")
        kept = None if reserved is None else int(reserved)
        _check(_excess(made[0], kept))
        lambda_svc._functions[made[0]]["concurrency"] = kept
        return made

    def created(logical: str, properties: Properties, stack: str) -> Created:
        _check(_no_image(properties["Code"].get("ImageUri")))
        return set_up(create(logical, properties, stack), properties)

    def updated(physical: str, old: Properties, new: Properties, *rest: str) -> Created:
        _check(_no_image(new["Code"].get("ImageUri")))
        return set_up(update(physical, old, new, *rest), new)

    handler.update(create=created, update=updated)
    make, change = lambda_svc._create_function, lambda_svc._update_code
    reserve = lambda_svc._put_function_concurrency
    lambda_svc._create_function = lambda data: (
        _refused(_no_image(data.get("Code", {}).get("ImageUri"))) or make(data)
    )
    lambda_svc._update_code = lambda name, data: (
        _refused(_no_image(data.get("ImageUri"))) or change(name, data)
    )
    lambda_svc._put_function_concurrency = lambda name, data: (
        _refused(_excess(name, data["ReservedConcurrentExecutions"])) or reserve(name, data)
    )


def _excess(function: str, wanted: int | None) -> str | None:
    """Return why concurrency cannot be reserved; None if it can be."""
    reserved = sum(
        int(record.get("concurrency") or 0)
        for name, record in lambda_svc._functions.items()
        if name != function
    )
    if not wanted or reserved + wanted <= _CONCURRENCY - _UNRESERVED:
        return None
    return (
        "Specified ReservedConcurrentExecutions for function decreases account's "
        f"UnreservedConcurrentExecution below its minimum value of [{_UNRESERVED}]."
    )


def _no_image(uri: str | None) -> str | None:
    """Return why a function cannot have an image; None if it can, or has none."""
    place, _, name = (uri or "").partition("/")
    repository, at, digest = name.partition("@")
    if not at:
        repository, _, tag = name.rpartition(":")
    image = {"imageDigest": digest} if at else {"imageTag": tag}
    if uri is None:
        return None
    found = ecr._find_image(repository, image) if ".dkr.ecr." in place else None
    if not found:
        return f"Source image {uri} does not exist. Provide a valid source image."
    if "manifests" not in json.loads(found["imageManifest"]):
        return None
    return f"The image manifest media type for the source image {uri} is not supported."


def _refused(reason: str | None) -> Any:
    if reason is None:
        return None
    return responses.error_response_json("InvalidParameterValueException", reason, 400)


def _check(reason: str | None) -> None:
    """Raise a reason as the resource's error."""
    if reason is not None:
        raise ValueError(reason)


def _keep_metric_math(handler: dict[str, Any]) -> None:
    """Create alarms on metric math, and record their metrics."""
    kind = "AWS::CloudWatch::Alarm"
    create, update, delete = handler["create"], handler["update"], handler["delete"]

    def created(logical: str, properties: Properties, stack: str) -> Created:
        if "Metrics" not in properties:
            return create(logical, properties, stack)
        name = properties.get("AlarmName") or f"{stack}-{logical}"
        plain = {key: value for key, value in properties.items() if key != "Metrics"}
        _refuse(cloudwatch._put_metric_alarm({}, _as_call(plain, name), False, True))
        record(name, kind, stack, logical, properties)
        place = f"{responses.get_region()}:{responses.get_account_id()}"
        return name, {"Arn": f"arn:aws:cloudwatch:{place}:alarm:{name}"}

    def updated(
        physical: str, old: Properties, new: Properties, stack: str, logical: str
    ) -> Created:
        if "Metrics" in new:
            return created(logical, new, stack)
        return update(physical, old, new, stack, logical)

    def deleted(physical: str, properties: Properties) -> None:
        forget(physical, properties)
        delete(physical, properties)

    handler.update(create=created, update=updated, delete=deleted)


def _composite_alarm(logical: str, properties: Properties, stack: str) -> Created:
    name = properties.get("AlarmName") or f"{stack}-{logical}"
    _refuse(cloudwatch._put_composite_alarm({}, _as_call(properties, name), False, True))
    place = f"{responses.get_region()}:{responses.get_account_id()}"
    return name, {"Arn": f"arn:aws:cloudwatch:{place}:alarm:{name}"}


def _as_call(properties: Properties, name: str) -> Properties:
    """Return an alarm's properties as API parameters, without the stack's tags."""
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
    """Raise an error of the emulated service as the resource's error."""
    status, _, body = answer
    if status >= 400:
        raise ValueError(body.decode() if isinstance(body, bytes) else str(body))


if __name__ == "__main__":
    install()
    app.main()
