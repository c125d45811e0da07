"""An endpoint's name: allowed characters, and used once in an account and region."""

import re
from typing import cast

from aws_cdk import Stack
from constructs import Construct

from embedding_kit.settings.base import rule_error

__all__ = ["claim_name"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


def claim_name(scope: Construct, name: str) -> None:
    """Refuse a name that another endpoint of the app uses in the same account and region.

    Args:
        scope: The endpoint.
        name: Its name.

    Raises:
        PydanticCustomError: A `ValueError` with the rule, the value found and the values allowed.
    """
    if _NAME.fullmatch(name) is None:
        raise rule_error(
            "an endpoint's name is part of a dashboard's",
            found=name,
            allowed="1 to 100 letters, digits, hyphens and underscores",
        )
    # An empty construct at the app's root records each name, as long as the app exists.
    claimed = f"EmbeddingEndpoint {name} in {Stack.of(scope).environment}"
    root = cast("Construct", scope.node.root)
    if root.node.try_find_child(claimed):
        raise rule_error(
            "an endpoint's name is its metrics' namespace, so two would count as one",
            found=f"two endpoints named {name}",
            allowed="a name for each",
        )
    Construct(root, claimed)
