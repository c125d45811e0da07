"""The stack of the vector index."""

from aws_cdk import CfnOutput, Stack
from aws_cdk import Environment as Where
from constructs import Construct

from embedding_kit.environment import Environment
from embedding_kit.settings import VectorIndexSettings
from embedding_kit.vector_index import VectorIndex

__all__ = ["IndexStack"]


class IndexStack(Stack):
    """The vector index of one environment.

    Attributes:
        index: The index, for the endpoint that searches it.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        environment: Environment,
        settings: VectorIndexSettings,
        env: Where,
    ) -> None:
        """Create the stack."""
        super().__init__(
            scope,
            id,
            env=env,
            description=f"Embedding Kit, {environment.name}: index",
            termination_protection=environment.protect,
        )
        self.index = VectorIndex(self, "Index", model=environment.model, settings=settings)
        CfnOutput(self, "IndexArn", value=self.index.index_arn)
