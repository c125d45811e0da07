"""A function from an image or from a zip, otherwise equal."""

from typing import Any, Literal

from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from embedding_kit.findings import acknowledge, acknowledge_untraced
from embedding_kit.image import image_code
from embedding_kit.settings import Model
from embedding_kit.settings.package import EMBEDDER
from embedding_kit.zip_package import zip_code

__all__ = ["packaged_function"]


def packaged_function(
    scope: Construct,
    id: str,
    *,
    package: Literal["image", "zip"],
    model: Model,
    with_artifact: bool = True,
    handler: str | None = None,
    tracing: lambda_.Tracing,
    **properties: Any,
) -> lambda_.Function:
    """Create a function on ARM64 that runs the code with the model.

    Args:
        scope: The parent.
        id: The construct's id.
        package: How the code is deployed.
        model: The model.
        with_artifact: Whether a zip has the model's artifact; see `zip_code`.
        handler: Another handler than the embedder's.
        tracing: Whether X-Ray traces the function.
        properties: Further properties of `aws_lambda.Function`.

    Raises:
        FileNotFoundError: The model's folder or the file of texts does not exist.
    """
    properties |= {"architecture": lambda_.Architecture.ARM_64, "tracing": tracing}
    function: lambda_.Function
    if package == "image":
        code = image_code(model, command=[handler] if handler else None)
        function = lambda_.DockerImageFunction(scope, id, code=code, **properties)
        acknowledge_untraced(function, tracing, "Serverless-LambdaTracing")
        return function
    function = lambda_.Function(
        scope,
        id,
        code=zip_code(scope, model, with_artifact=with_artifact),
        handler=handler or EMBEDDER,
        runtime=lambda_.Runtime.PYTHON_3_13,
        **properties,
    )
    for rule in ("AwsSolutions-L1", "Serverless-LambdaLatestVersion"):
        acknowledge(function, {rule: "The Python of the image, with the same packages."})
    acknowledge_untraced(function, tracing, "Serverless-LambdaTracing")
    return function
