"""A REST API of API Gateway in front of the alias: API keys, usage plans, domain, firewall."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from aws_cdk import Aws, Duration, RemovalPolicy
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_route53 as route53
from aws_cdk import aws_route53_targets as route53_targets
from aws_cdk import aws_wafv2 as wafv2
from constructs import Construct

from embedding_kit.endpoint_interface import IEmbeddingEndpoint
from embedding_kit.findings import acknowledge, acknowledge_untraced
from embedding_kit.firewall import WebAcl
from embedding_kit.hosting import make_log_group
from embedding_kit.settings import ApiGatewayFront, Domain, FrontCaller

_TYPE = apigateway.ResponseType
#: The codes of faults that are not the caller's.
_SERVER_CODES = {"internal_error", "out_of_time"}


class _GatewayAnswer(NamedTuple):
    """An answer that API Gateway gives without the function, in the form of OpenAI's errors.

    A REST API has one template for each type of response, whatever path was called. Types:
    https://docs.aws.amazon.com/apigateway/latest/developerguide/supported-gateway-response-types.html

    Attributes:
        type: Its type.
        code: OpenAI's `code`, a short name for programs.
        message: The message; it shows nothing of the request.
        status: The status; None leaves API Gateway's own.
        headers: Further headers with their values.
    """

    type: apigateway.ResponseType
    code: str
    message: str
    status: int | None = None
    headers: Mapping[str, str] = {}

    @property
    def body(self) -> str:
        """The template of the body. It has no variable, so it is JSON itself."""
        kind = "server_error" if self.code in _SERVER_CODES else "invalid_request_error"
        error = {"message": self.message, "type": kind, "param": None, "code": self.code}
        return json.dumps({"error": error})


_INTERNAL = ("internal_error", "The request could not be served.")
#: Responses by the id of the construct.
GATEWAY_RESPONSES = {
    "InvalidApiKey": _GatewayAnswer(
        _TYPE.INVALID_API_KEY,
        "invalid_api_key",
        "The header x-api-key is missing or has no valid API key.",
        # API Gateway's own is 403; a client of OpenAI expects 401, as our server answers.
        status=401,
    ),
    "Throttled": _GatewayAnswer(
        _TYPE.THROTTLED,
        "rate_limit_exceeded",
        "Too many requests. Send the request again later.",
        headers={"retry-after": "1"},
    ),
    "QuotaExceeded": _GatewayAnswer(
        _TYPE.QUOTA_EXCEEDED,
        "insufficient_quota",
        "The API key has used up its requests of this month.",
        # OpenAI's clients read it, and else repeat each 429.
        headers={"x-should-retry": "false"},
    ),
    "Unauthorized": _GatewayAnswer(
        _TYPE.UNAUTHORIZED, "unauthorized", "The request has no credentials."
    ),
    "AccessDenied": _GatewayAnswer(
        _TYPE.ACCESS_DENIED, "access_denied", "The caller may not send this request."
    ),
    "WafFiltered": _GatewayAnswer(
        _TYPE.WAF_FILTERED, "access_denied", "The firewall refused the request."
    ),
    "RequestTooLarge": _GatewayAnswer(
        _TYPE.REQUEST_TOO_LARGE,
        "body_too_large",
        "The body is too large. Send fewer texts in one request.",
    ),
    "UnsupportedMediaType": _GatewayAnswer(
        _TYPE.UNSUPPORTED_MEDIA_TYPE,
        "malformed_body",
        "The header content-encoding may be absent, or gzip, deflate or identity, and the body "
        "must be as it says.",
    ),
    "IntegrationTimeout": _GatewayAnswer(
        _TYPE.INTEGRATION_TIMEOUT,
        "out_of_time",
        "The request took too long. Send fewer texts in one request.",
    ),
    "IntegrationFailure": _GatewayAnswer(_TYPE.INTEGRATION_FAILURE, *_INTERNAL),
    "Default4xx": _GatewayAnswer(
        _TYPE.DEFAULT_4_XX, "invalid_request", "The request is not valid."
    ),
    "Default5xx": _GatewayAnswer(_TYPE.DEFAULT_5_XX, *_INTERNAL),
}

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


class _ApiCaller(Construct):
    """A usage plan with one caller's limits, and the caller's keys.

    The secrets of the keys are made by API Gateway, and are in no template.

    Attributes:
        plan: The usage plan.
        keys: The keys by their label.
    """

    def __init__(
        self, scope: Construct, id: str, *, caller: FrontCaller, stage: apigateway.Stage, name: str
    ) -> None:
        super().__init__(scope, id)
        self.plan = apigateway.UsagePlan(
            self,
            "Plan",
            name=f"{name}-{caller.name}",
            throttle=apigateway.ThrottleSettings(rate_limit=caller.rate, burst_limit=caller.burst),
            quota=apigateway.QuotaSettings(
                limit=caller.monthly_requests, period=apigateway.Period.MONTH
            )
            if caller.monthly_requests
            else None,
            api_stages=[apigateway.UsagePlanPerApiStage(api=stage.rest_api, stage=stage)],
        )
        self.keys: dict[str, apigateway.ApiKey] = {}
        for label in caller.keys:
            key = apigateway.ApiKey(
                self, f"Key{label}", api_key_name=f"{name}-{caller.name}-{label}"
            )
            self.plan.add_api_key(key)
            self.keys[label] = key


#: API Gateway accepts a role for logs only with the actions of its own managed policy.
#: https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-logging.html
_POLICY = "service-role/AmazonAPIGatewayPushToCloudWatchLogs"


def _set_log_role(scope: Construct) -> apigateway.CfnAccount:
    """Set the account's role for logs. It outlives the stack, for other APIs use it."""
    role = iam.Role(
        scope,
        "Role",
        assumed_by=iam.ServicePrincipal("apigateway.amazonaws.com"),
        managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(_POLICY)],
    )
    account = apigateway.CfnAccount(scope, "Account", cloud_watch_role_arn=role.role_arn)
    for retained in (role, account):
        retained.apply_removal_policy(RemovalPolicy.RETAIN)
    rule = f"AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{_POLICY}]"
    reason = "API Gateway accepts a role for logs with this policy's actions only."
    acknowledge(role, rule, reason=reason)
    return account


#: The stage's name, which is in the API's own address.
STAGE = "live"
#: TLS 1.2 and newer:
#: https://docs.aws.amazon.com/apigateway/latest/developerguide/apigateway-security-policies-list.html
_SECURITY_POLICY = apigateway.SecurityPolicy.TLS13_1_2_PQ_2025_09


class EmbeddingRestApi(Construct):
    """A REST API in front of an endpoint, with callers that send an API key.

    Every path and method goes to the endpoint's alias, which answers as behind its URL.

    Args:
        endpoint: The endpoint.
        settings: The callers, the network, the domain and the firewall.
        tracing: Whether X-Ray traces requests, and bills for it; not by default.

    Attributes:
        name: The API's name, by which its metrics and keys are found.
        api: The API.
        stage: Its one stage.
        access_log: The access log.
        callers: Each caller's plan and keys, by its name.
        domain: The custom domain name; None without one.
        web_acl: The web ACL; None without one.
        url: The base URL for callers, with a slash at its end.
        settings: The settings.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        endpoint: IEmbeddingEndpoint,
        settings: ApiGatewayFront,
        tracing: lambda_.Tracing = lambda_.Tracing.DISABLED,
    ) -> None:
        super().__init__(scope, id)
        self.settings = settings
        self.name = f"embedding-kit-{endpoint.name}"
        self.access_log = AccessLog(self, "AccessLog", name=endpoint.name)
        self.api = self._make_api(endpoint, tracing)
        self.stage = self.api.deployment_stage
        # The stage may invoke the alias, and nothing else.
        lambda_.CfnPermission(
            self,
            "Invoke",
            action="lambda:InvokeFunction",
            function_name=endpoint.alias_arn,
            principal="apigateway.amazonaws.com",
            source_arn=self.api.arn_for_execute_api("*", "/*", STAGE),
        )
        for name, answer in GATEWAY_RESPONSES.items():
            self.api.add_gateway_response(
                name,
                type=answer.type,
                status_code=str(answer.status) if answer.status else None,
                response_headers={key: f"'{value}'" for key, value in answer.headers.items()},
                templates={"application/json": answer.body},
            )
        if settings.manage_log_role:
            self.stage.node.add_dependency(_set_log_role(Construct(self, "LogRole")))
        plans = Construct(self, "Callers")
        self.callers = {
            caller.name: _ApiCaller(
                plans, caller.name, caller=caller, stage=self.stage, name=self.name
            )
            for caller in settings.callers
        }
        self.web_acl: WebAcl | None = None
        if settings.firewall:
            self.web_acl = WebAcl(self, "Firewall", settings=settings.firewall, name=self.name)
            wafv2.CfnWebACLAssociation(
                self, "Protection", resource_arn=self.stage.stage_arn, web_acl_arn=self.web_acl.arn
            )
        self.domain = self._make_domain(settings.domain) if settings.domain else None
        self.url = f"https://{settings.domain.name}/" if settings.domain else self.api.url

    def _make_api(
        self, endpoint: IEmbeddingEndpoint, tracing: lambda_.Tracing
    ) -> apigateway.RestApi:
        settings = self.settings
        api = apigateway.RestApi(
            self,
            "Api",
            rest_api_name=self.name,
            description=f"Embeddings of {endpoint.name}",
            endpoint_configuration=self._endpoint(),
            policy=self._policy(),
            # Bytes, for bodies in gzip.
            binary_media_types=["*/*"],
            disable_execute_api_endpoint=True if settings.domain else None,
            cloud_watch_role=False,
            deploy_options=apigateway.StageOptions(
                stage_name=STAGE,
                access_log_destination=apigateway.LogGroupLogDestination(self.access_log.log_group),
                access_log_format=apigateway.AccessLogFormat.custom(FORMAT),
                tracing_enabled=tracing is not lambda_.Tracing.DISABLED,
            ),
            default_integration=_integration(endpoint, settings),
            default_method_options=apigateway.MethodOptions(
                api_key_required=True, authorizer=self._authorizer()
            ),
        )
        resource = api.node.default_child
        if isinstance(resource, apigateway.CfnRestApi):
            resource.security_policy = f"SecurityPolicy_{_SECURITY_POLICY.value}"
            resource.endpoint_access_mode = "STRICT"
        acknowledge_untraced(api.deployment_stage, tracing, "Serverless-APIGWXrayEnabled")
        # The CDK's own output of the address; the stack has one by its name.
        api.node.try_remove_child("Endpoint")
        methods = [api.root.add_method("ANY"), api.root.add_resource("{proxy+}").add_method("ANY")]
        reason = "The embedder validates requests, with an error for each mistake."
        acknowledge(api, "AwsSolutions-APIG2", reason=reason)
        stage = api.deployment_stage
        reason = "Execution logs may have bodies; the access log has a line for each request."
        acknowledge(stage, "AwsSolutions-APIG6", reason=reason)
        acknowledge(
            stage,
            "Serverless-APIGWDefaultThrottling",
            reason="Each key has the limits of its usage plan, and no request without a key "
            "reaches the function.",
        )
        if not settings.firewall:
            reason = "A firewall is an option of the settings."
            acknowledge(stage, "AwsSolutions-APIG3", reason=reason)
        for method in methods:
            reason = "Callers send an API key; an authorizer is an option of the settings."
            acknowledge(method, "AwsSolutions-APIG4", reason=reason)
            reason = "Callers are programs, which have no user pool."
            acknowledge(method, "AwsSolutions-COG4", reason=reason)
        return api

    def _endpoint(self) -> apigateway.EndpointConfiguration:
        settings = self.settings
        if not settings.private:
            return apigateway.EndpointConfiguration(types=[apigateway.EndpointType.REGIONAL])
        return apigateway.EndpointConfiguration(
            types=[apigateway.EndpointType.PRIVATE],
            vpc_endpoints=[
                ec2.InterfaceVpcEndpoint.from_interface_vpc_endpoint_attributes(
                    self, f"VpcEndpoint{number}", vpc_endpoint_id=endpoint, port=443
                )
                for number, endpoint in enumerate(settings.vpc_endpoints, start=1)
            ],
        )

    def _policy(self) -> iam.PolicyDocument | None:
        """Return the policy of a private API, which AWS requires: only these VPC endpoints."""
        if not self.settings.private:
            return None
        elsewhere = {"StringNotEquals": {"aws:SourceVpce": list(self.settings.vpc_endpoints)}}
        return iam.PolicyDocument(
            statements=[
                iam.PolicyStatement(
                    effect=effect,
                    principals=[iam.AnyPrincipal()],
                    actions=["execute-api:Invoke"],
                    resources=["execute-api:/*"],
                    conditions=conditions,
                )
                for effect, conditions in ((iam.Effect.ALLOW, None), (iam.Effect.DENY, elsewhere))
            ]
        )

    def _authorizer(self) -> apigateway.IAuthorizer | None:
        function = self.settings.authorizer
        if function is None:
            return None
        authorizer = apigateway.RequestAuthorizer(
            self,
            "Authorizer",
            handler=lambda_.Function.from_function_attributes(
                self, "AuthorizerFunction", function_arn=function, same_environment=True
            ),
            # A cached answer would let a caller in that is refused by now.
            results_cache_ttl=Duration.seconds(0),
            identity_sources=[],
        )
        resource = authorizer.node.default_child
        if isinstance(resource, apigateway.CfnAuthorizer):
            # They are the keys of the cache. The CDK writes none as an empty text.
            resource.add_property_deletion_override("IdentitySource")
        return authorizer

    def _make_domain(self, domain: Domain) -> apigateway.DomainName:
        zone: route53.IHostedZone | None = None
        if domain.hosted_zone:
            # Named like the record: the zone's own name is not needed.
            zone = route53.HostedZone.from_hosted_zone_attributes(
                self, "Zone", hosted_zone_id=domain.hosted_zone, zone_name=domain.name
            )
        certificate: acm.ICertificate
        if domain.certificate:
            certificate = acm.Certificate.from_certificate_arn(
                self, "Certificate", domain.certificate
            )
        else:
            certificate = acm.Certificate(
                self,
                "Certificate",
                domain_name=domain.name,
                validation=acm.CertificateValidation.from_dns(zone),
            )
        domain_name = apigateway.DomainName(
            self,
            "Domain",
            domain_name=domain.name,
            certificate=certificate,
            endpoint_type=apigateway.EndpointType.REGIONAL,
            security_policy=_SECURITY_POLICY,
            endpoint_access_mode=apigateway.EndpointAccessMode.STRICT,
            mapping=self.api,
        )
        if zone:
            target = route53_targets.ApiGatewayDomain(domain_name)
            route53.ARecord(
                self, "Record", zone=zone, target=route53.RecordTarget.from_alias(target)
            )
        return domain_name


def _integration(endpoint: IEmbeddingEndpoint, settings: ApiGatewayFront) -> apigateway.Integration:
    # `LambdaIntegration` would add its permission to the endpoint's stack, which would then need
    # this one.
    invoke = f"2015-03-31/functions/{endpoint.alias_arn}/invocations"
    return apigateway.Integration(
        type=apigateway.IntegrationType.AWS_PROXY,
        integration_http_method="POST",
        uri=f"arn:{Aws.PARTITION}:apigateway:{Aws.REGION}:lambda:path/{invoke}",
        options=apigateway.IntegrationOptions(
            timeout=Duration.seconds(int(settings.timeout.total_seconds()))
        ),
    )
