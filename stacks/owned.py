"""What an environment has in common in its stacks: its own key, rules of roles, tracing."""

from typing import cast

from aws_cdk import Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_

from embedding_kit.environment import Environment
from embedding_kit.owned_key import encrypt_logs
from embedding_kit.owned_roles import apply_role_rules
from stacks.existing import has_bucket_stack

__all__ = ["own_key", "prescribe", "tracing", "with_own_key"]

_KEY = "OwnKey"


def own_key(stack: Stack, environment: Environment) -> kms.IKey | None:
    """Return the environment's own key, imported into a stack; None without one."""
    encryption = environment.encryption
    if encryption is None:
        return None
    found = stack.node.try_find_child(_KEY)
    return cast("kms.IKey", found) or kms.Key.from_key_arn(stack, _KEY, encryption.key)


def tracing(environment: Environment) -> lambda_.Tracing:
    """Return whether X-Ray traces an environment's functions, API and state machines."""
    active = environment.observability.tracing
    return lambda_.Tracing.ACTIVE if active else lambda_.Tracing.DISABLED


def prescribe(stack: Stack, environment: Environment) -> None:
    """Give a stack's log groups the environment's key, and its roles their rules."""
    key = own_key(stack, environment)
    if key is not None:
        encrypt_logs(stack, key)
    if environment.roles is not None:
        apply_role_rules(stack, environment.roles)


def with_own_key(environment: Environment) -> Environment:
    """Return the environment with its own key where a more specific one is unset."""
    if environment.encryption is None:
        return environment
    key, function, index = environment.encryption.key, environment.function, environment.index
    if has_bucket_stack(environment):
        function = function.model_copy(update={"artifact_key": function.artifact_key or key})
    if index is not None:
        index = index.model_copy(update={"key": index.key or key})
    return environment.model_copy(update={"function": function, "index": index})
