"""A CDK app: an endpoint with alarms, and a role that may call it."""

from aws_cdk import App, CfnOutput, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from embedding_kit import (
    AlarmTopic,
    EmbeddingEndpoint,
    EndpointAlarms,
    FunctionSettings,
    ModelSettings,
)


class SearchStack(Stack):
    """Everything that the search of your application needs."""

    def __init__(self, scope: Construct, id: str) -> None:
        """Add the resources."""
        super().__init__(scope, id)
        # `cdk deploy -c package=zip` needs no Docker.
        zipped = self.node.try_get_context("package") == "zip"
        endpoint = EmbeddingEndpoint(
            self,
            "Embeddings",
            model=ModelSettings(name="BAAI/bge-small-en-v1.5"),
            function=FunctionSettings(package="zip" if zipped else "image"),
        )
        topic = AlarmTopic(self, "Notices", emails=["ops@example.com"]).topic
        EndpointAlarms(self, "Alarms", endpoint=endpoint, topic=topic)

        # The role of the tasks that embed documents and queries.
        tasks = iam.Role(self, "Tasks", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
        endpoint.grant_invoke_url(tasks)
        CfnOutput(self, "EmbeddingUrl", value=endpoint.url)


app = App()
SearchStack(app, "Search")
app.synth()
