"""A CDK app: documents, the endpoint that searches them, and a function that answers from them."""

from aws_cdk import App, CfnOutput, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

import embedding_kit as kit

#: Lambda Web Adapter 1.0: https://github.com/aws/aws-lambda-web-adapter
ADAPTER = "arn:{partition}:lambda:{region}:753240598075:layer:LambdaAdapterLayerArm64:27"
VARIABLES = {
    "AWS_LAMBDA_EXEC_WRAPPER": "/opt/bootstrap",
    "AWS_LWA_INVOKE_MODE": "response_stream",
    "AWS_LWA_READINESS_CHECK_PATH": "/v1/models",
}


class AskStack(Stack):
    """A bucket of documents, and a URL that answers from them."""

    def __init__(self, scope: Construct, id: str, *, generator: str, caller: str) -> None:
        """Add the resources; `generator` is of Bedrock or `s3://BUCKET/FOLDER`, `caller` a role."""
        super().__init__(scope, id)
        model = kit.ModelSettings(name="sentence-transformers/all-MiniLM-L6-v2")
        index = kit.VectorIndex(self, "Index", model=model)
        zipped = kit.FunctionSettings(package="zip")
        endpoint = kit.EmbeddingEndpoint(self, "Search", model=model, function=zipped)
        endpoint.add_vector_index(index)
        documents = kit.document_bucket(self, "Documents")
        settings = kit.IngestSettings()
        kit.Ingestion(self, "Ingest", model=model, index=index, settings=settings, bucket=documents)

        is_local = generator.startswith("s3://")
        adapter = ADAPTER.format(partition=self.partition, region=self.region)
        assistant = lambda_.Function(
            self,
            "Assistant",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            code=lambda_.Code.from_asset("build"),
            handler="run.sh",
            layers=[lambda_.LayerVersion.from_layer_version_arn(self, "Adapter", adapter)],
            memory_size=5307 if is_local else 512,  # 1,769 MB have one processor
            timeout=Duration.seconds(120),
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS,  # keeps /tmp at 512 MB
            log_group=logs.LogGroup(self, "Logs", retention=logs.RetentionDays.ONE_MONTH),
            environment=VARIABLES | {"SEARCH_URL": endpoint.url, "MODEL": generator},
        )
        assert assistant.role is not None  # noqa: S101 - for mypy
        endpoint.grant_search(assistant.role)
        if is_local:
            bucket, _, folder = generator.removeprefix("s3://").partition("/")
            s3.Bucket.from_bucket_name(self, "Model", bucket).grant_read(assistant, f"{folder}*")
        else:
            # An inference profile, such as `eu.amazon.nova-micro-v1:0`, calls a model of its name.
            models = f"arn:{self.partition}:bedrock:*::foundation-model"
            profile = f"arn:{self.partition}:bedrock:*:{self.account}:inference-profile/{generator}"
            arns = [f"{models}/{generator}", f"{models}/{generator.partition('.')[2]}", profile]
            actions = ["bedrock:InvokeModelWithResponseStream", "bedrock:GetInferenceProfile"]
            assistant.add_to_role_policy(iam.PolicyStatement(actions=actions, resources=arns))
        url = assistant.add_alias("live").add_function_url(  # a snapshot is of a version
            auth_type=lambda_.FunctionUrlAuthType.AWS_IAM,
            invoke_mode=lambda_.InvokeMode.RESPONSE_STREAM,
        )
        url.grant_invoke_url(iam.Role.from_role_arn(self, "Caller", caller))
        CfnOutput(self, "AskUrl", value=url.url)
        CfnOutput(self, "DocumentsUrl", value=documents.s3_url_for_object())


app = App()
chosen = app.node.try_get_context("model") or "amazon.nova-micro-v1:0"
AskStack(app, "Ask", generator=chosen, caller=app.node.get_context("caller"))
app.synth()
