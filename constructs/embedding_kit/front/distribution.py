"""A CloudFront distribution in front of the function URL: keys, firewall, domain, access log."""

from pathlib import Path

from aws_cdk import Annotations, Aws, Duration
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_cloudfront_origins as origins
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from embedding_kit.findings import acknowledge
from embedding_kit.front.distribution_log import DistributionLog
from embedding_kit.front.firewall import WebAcl
from embedding_kit.settings import EDGE_REGION, CloudFrontFront

__all__ = ["DistributionAccess", "EmbeddingDistribution"]

_CLOUDFRONT = "cloudfront.amazonaws.com"
_CHECK_KEY = Path(__file__).with_name("check_key.js")
#: The security policies whose oldest version of TLS is this one.
#: https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/secure-connections-supported-viewer-protocols-ciphers.html
_SECURITY_POLICIES = {
    "1.2": cloudfront.SecurityPolicyProtocol.TLS_V1_2_2025,
    "1.3": cloudfront.SecurityPolicyProtocol.TLS_V1_3_2025,
}


class EmbeddingDistribution(Construct):
    """A distribution whose callers send an API key and the hash of each body.

    Its stack is in us-east-1, wherever the endpoint is. `DistributionAccess`, in the endpoint's own
    region, lets it call the function URL.

    Attributes:
        distribution: The distribution.
        key_store: The key value store with the hashes of the valid keys; `scripts/keys` writes it.
        log: The access log.
        web_acl: The web ACL; None without one.
        url: The base URL for callers, with a slash at its end.
        settings: The settings.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        host: str,
        name: str,
        settings: CloudFrontFront,
    ) -> None:
        """Create the distribution.

        Args:
            scope: The parent, in a stack in us-east-1.
            id: The construct's id.
            host: The host of the endpoint's function URL.
            name: The endpoint's name.
            settings: The domain, the firewall and the timeout.
        """
        super().__init__(scope, id)
        Annotations.of(self).add_info(
            f"The distribution's stack is in {EDGE_REGION}, which must be bootstrapped once: "
            f"npx cdk bootstrap aws://ACCOUNT/{EDGE_REGION}"
        )
        self.settings = settings
        self.key_store = cloudfront.KeyValueStore(
            self, "Keys", comment=f"Hashes of the API keys of {name}"
        )
        self.web_acl = (
            WebAcl(
                self,
                "Firewall",
                settings=settings.firewall,
                name=f"embedding-kit-{name}",
                web_acl_scope="CLOUDFRONT",
            )
            if settings.firewall
            else None
        )
        domain = settings.domain
        self.distribution = cloudfront.Distribution(
            self,
            "Distribution",
            comment=f"Embeddings of {name}",
            default_behavior=cloudfront.BehaviorOptions(
                origin=self._origin(host),
                # An answer to a POST is never cached, and one to a GET shows the present state.
                cache_policy=cloudfront.CachePolicy.CACHING_DISABLED,
                # The function URL refuses another host name than its own.
                origin_request_policy=cloudfront.OriginRequestPolicy.ALL_VIEWER_EXCEPT_HOST_HEADER,
                allowed_methods=cloudfront.AllowedMethods.ALLOW_ALL,
                # A redirect would come after the key has traveled in the clear.
                viewer_protocol_policy=cloudfront.ViewerProtocolPolicy.HTTPS_ONLY,
                compress=False,
                function_associations=[
                    cloudfront.FunctionAssociation(
                        event_type=cloudfront.FunctionEventType.VIEWER_REQUEST,
                        function=cloudfront.Function(
                            self,
                            "CheckKey",
                            code=cloudfront.FunctionCode.from_file(file_path=str(_CHECK_KEY)),
                            runtime=cloudfront.FunctionRuntime.JS_2_0,
                            key_value_store=self.key_store,
                            comment=f"Checks the API keys of {name}",
                        ),
                    )
                ],
            ),
            web_acl_id=self.web_acl.arn if self.web_acl else None,
            domain_names=[domain.name] if domain else None,
            certificate=acm.Certificate.from_certificate_arn(
                self, "Certificate", domain.certificate
            )
            if domain
            else None,
            minimum_protocol_version=_SECURITY_POLICIES[domain.minimum_tls] if domain else None,
            http_version=cloudfront.HttpVersion.HTTP2_AND_3,
            enable_logging=False,
        )
        self.log = DistributionLog(self, "AccessLog", distribution=self.distribution)
        name = domain.name if domain else self.distribution.distribution_domain_name
        self.url = f"https://{name}/"
        self._acknowledge()

    def _origin(self, host: str) -> cloudfront.IOrigin:
        """Return the function URL as an origin, to which CloudFront signs each request."""
        signer = cloudfront.FunctionUrlOriginAccessControl(
            self, "Signer", signing=cloudfront.Signing.SIGV4_ALWAYS
        )
        # `FunctionUrlOrigin` would add its permission to the endpoint's stack, which would then
        # need this one.
        return origins.HttpOrigin(
            host,
            origin_access_control_id=signer.origin_access_control_id,
            protocol_policy=cloudfront.OriginProtocolPolicy.HTTPS_ONLY,
            origin_ssl_protocols=[cloudfront.OriginSslPolicy.TLS_V1_2],
            read_timeout=Duration.seconds(int(self.settings.timeout.total_seconds())),
        )

    def _acknowledge(self) -> None:
        reasons = {
            "AwsSolutions-CFR1": "Lists of countries are an option of the settings.",
            "AwsSolutions-CFR3": "Standard logging (v2) writes the access log, which the rule does "
            "not know.",
        }
        if not self.settings.firewall:
            reasons["AwsSolutions-CFR2"] = "A firewall is an option of the settings."
        if not self.settings.domain:
            reasons["AwsSolutions-CFR4"] = "CloudFront's own name has CloudFront's own policy; a "
            "domain is an option of the settings."
        acknowledge(self.distribution, reasons)


class DistributionAccess(Construct):
    """The permission of one distribution to call the function URL; in the endpoint's region."""

    def __init__(self, scope: Construct, id: str, *, alias_arn: str, distribution_id: str) -> None:
        """Create the permission.

        Args:
            scope: The parent, in a stack of the endpoint's region.
            id: The construct's id.
            alias_arn: The ARN of the endpoint's alias.
            distribution_id: The distribution's id.
        """
        super().__init__(scope, id)
        # The same two that a granted principal gets:
        # https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html
        source = f"arn:{Aws.PARTITION}:cloudfront::{Aws.ACCOUNT_ID}:distribution/{distribution_id}"
        lambda_.CfnPermission(
            self,
            "InvokeUrl",
            action="lambda:InvokeFunctionUrl",
            function_url_auth_type="AWS_IAM",
            function_name=alias_arn,
            principal=_CLOUDFRONT,
            source_arn=source,
        )
        lambda_.CfnPermission(
            self,
            "Invoke",
            action="lambda:InvokeFunction",
            invoked_via_function_url=True,
            function_name=alias_arn,
            principal=_CLOUDFRONT,
            source_arn=source,
        )
