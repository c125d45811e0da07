"""Corrections of the action and the resource that MiniStack's policies see.

- Bootstrap's bucket refuses requests without TLS: the loopback interface counts as TLS.
- `DescribeRepositories` is authorized against the named repository.
- Reading an alias is `GetAlias` and changing it is `UpdateAlias`, not `ListAliases`.
- `DescribeMapRun` is authorized against the map run
  (https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsstepfunctions.html).
- The resource of `CreateFunction` is the function that it names.
- The resource of a function with a qualifier is that version or alias
  (https://docs.aws.amazon.com/service-authorization/latest/reference/list_awslambda.html).
"""

import json
from typing import Any

from ministack.core import iam_actions, iam_evaluator

__all__ = ["PRIVATE_NAMES", "install"]

PRIVATE_NAMES = (
    (iam_actions, "_lambda_action"),
    (iam_actions, "extract_resource_arn"),
    (iam_evaluator, "_resolve_condition_key"),
)

_OF_ONE_ALIAS = {"GET": "GetAlias", "PUT": "UpdateAlias", "DELETE": "DeleteAlias"}


def install() -> None:
    """Authorize requests against the actions and resources that AWS uses."""
    condition_key = iam_evaluator._resolve_condition_key
    iam_evaluator._resolve_condition_key = lambda key, context: (
        "true" if key.lower() == "aws:securetransport" else condition_key(key, context)
    )
    action = iam_actions._lambda_action
    iam_actions._lambda_action = lambda method, path: (
        _of_one_alias(method, path) or action(method, path)
    )
    resource = iam_actions.extract_resource_arn
    iam_actions.extract_resource_arn = lambda service, *request: (
        _named_repository(service, request)
        or _map_run(service, request)
        or _created_function(service, request)
        or _qualified(service, request, resource(service, *request))
    )


def _of_one_alias(method: str, path: str) -> str | None:
    parts = path.strip("/").split("/")
    return _OF_ONE_ALIAS.get(method) if "aliases" in parts[3:-1] else None


def _named_repository(service: str, request: tuple[Any, ...]) -> str | None:
    _, _, _, body, _, region, account = request
    names = json.loads(body or b"{}").get("repositoryNames", []) if service == "ecr" else []
    return f"arn:aws:ecr:{region}:{account}:repository/{names[0]}" if len(names) == 1 else None


def _map_run(service: str, request: tuple[Any, ...]) -> str | None:
    named = json.loads(request[3] or b"{}") if service == "states" else {}
    found: str | None = named.get("mapRunArn")
    return found


def _created_function(service: str, request: tuple[Any, ...]) -> str | None:
    method, path, _, body, _, region, account = request
    if (service, method) != ("lambda", "POST") or not path.rstrip("/").endswith("/functions"):
        return None
    name = json.loads(body or b"{}").get("FunctionName")
    return f"arn:aws:lambda:{region}:{account}:function:{name}"


def _qualified(service: str, request: tuple[Any, ...], arn: str) -> str:
    qualifier = request[4].get("Qualifier") if service == "lambda" else None
    if not qualifier or not arn.startswith("arn:aws:lambda:") or arn.count(":") != 6:
        return arn
    return f"{arn}:{qualifier[0] if isinstance(qualifier, list) else qualifier}"
