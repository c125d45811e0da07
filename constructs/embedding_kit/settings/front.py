"""What callers reach instead of the function's URL: an API of API Gateway, or CloudFront."""

from typing import Annotated

from pydantic import Field

from embedding_kit.settings.api_gateway import ApiGatewayFront, check_api_gateway
from embedding_kit.settings.callers import Callers
from embedding_kit.settings.cloudfront import CloudFrontFront, check_cloudfront
from embedding_kit.settings.cors import Cors

__all__ = ["Front", "check_front"]

#: The kinds of `[front]`.
Front = Annotated[ApiGatewayFront | CloudFrontFront, Field(discriminator="kind")]


def check_front(
    front: Front,
    *,
    account: str | None,
    region: str | None,
    callers: Callers,
    cors: Cors | None,
) -> None:
    """Refuse a front that other settings exclude, or with which AWS would fail the deploy.

    Args:
        front: The front.
        account: The environment's account, if it is known.
        region: The environment's region, if it is known.
        callers: The principals that may call the function's URL.
        cors: The web pages that may call it.

    Raises:
        PydanticCustomError: A `ValueError` with the rule, the value found and the values allowed.
    """
    if isinstance(front, CloudFrontFront):
        check_cloudfront(region=region, callers=callers, cors=cors)
    else:
        check_api_gateway(front, account=account, region=region)
