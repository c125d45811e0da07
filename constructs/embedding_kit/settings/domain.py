"""A name of your own for an endpoint or a server, and its certificate."""

from typing import Annotated

from pydantic import Field

from embedding_kit.settings.base import allowed

__all__ = ["Certificate", "DomainName"]

Certificate = Annotated[
    str,
    Field(pattern=r"^arn:aws[a-z-]*:acm:[a-z0-9-]+:[0-9]{12}:certificate/[A-Za-z0-9-]+$"),
    allowed("an ARN such as arn:aws:acm:eu-central-1:111122223333:certificate/1234abcd"),
]
DomainName = Annotated[
    str,
    Field(pattern=r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}$"),
    allowed("a name such as embeddings.example.com"),
]
