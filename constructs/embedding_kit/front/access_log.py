"""The access log of a REST API: a line for each request, without bodies, queries and keys."""

import json

from aws_cdk import aws_logs as logs
from constructs import Construct

from embedding_kit.hosting import make_log_group

__all__ = ["FORMAT", "THROTTLED_METRIC", "AccessLog"]

#: Counts the answers with status 429, which API Gateway counts only among all 4xx.
THROTTLED_METRIC = "ThrottledRequests"
#: `apiKeyId` is not the secret. The path may have a caller's text, and is not logged: the
#: embedder's own log has the operation, by `functionRequestId`.
#: https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-mapping-template-reference.html
_FIELDS = {
    "requestId": "$context.requestId",
    "extendedRequestId": "$context.extendedRequestId",
    "functionRequestId": "$context.integration.requestId",
    "time": "$context.requestTime",
    "apiKeyId": "$context.identity.apiKeyId",
    "sourceIp": "$context.identity.sourceIp",
    "method": "$context.httpMethod",
    "resource": "$context.resourcePath",
    "status": "$context.status",
    "errorType": "$context.error.responseType",
    "functionStatus": "$context.integration.status",
    "latencyMs": "$context.responseLatency",
    "functionLatencyMs": "$context.integration.latency",
    "responseBytes": "$context.responseLength",
    "tls": "$context.tlsVersion",
}
#: Every value is in quotes, because a missing one is written as a hyphen.
FORMAT = json.dumps(_FIELDS)


class AccessLog(Construct):
    """The log group, and the count of throttled requests in it.

    Attributes:
        log_group: The log group.
        namespace: The namespace of the metrics that are made from the log.
    """

    def __init__(self, scope: Construct, id: str, *, name: str) -> None:
        """Create the log group.

        Args:
            scope: The parent.
            id: The construct's id.
            name: The endpoint's name, for the metrics' namespace.
        """
        super().__init__(scope, id)
        self.namespace = f"EmbeddingKit/{name}/Front"
        self.log_group = make_log_group(self, "Group")
        logs.MetricFilter(
            self,
            "Throttled",
            log_group=self.log_group,
            filter_pattern=logs.FilterPattern.literal('{ $.status = "429" }'),
            metric_namespace=self.namespace,
            metric_name=THROTTLED_METRIC,
            metric_value="1",
        )
