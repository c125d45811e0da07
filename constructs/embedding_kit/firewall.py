"""The web ACL of AWS WAF in front of the endpoint: your own, or AWS's managed rules."""

from aws_cdk import aws_wafv2 as wafv2
from constructs import Construct

from embedding_kit.settings import Firewall

#: AWS's managed rule groups, with their rules that inspect bodies. A body is text to embed: it may
#: be longer than the 8 KB of `SizeRestrictions_BODY`, and may look like HTML, paths or code.
#: https://docs.aws.amazon.com/waf/latest/developerguide/aws-managed-rule-groups-baseline.html
#: https://docs.aws.amazon.com/waf/latest/developerguide/aws-managed-rule-groups-ip-rep.html
MANAGED_RULES: dict[str, tuple[str, ...]] = {
    "AWSManagedRulesAmazonIpReputationList": (),
    "AWSManagedRulesCommonRuleSet": (
        "CrossSiteScripting_BODY",
        "EC2MetaDataSSRF_BODY",
        "GenericLFI_BODY",
        "GenericRFI_BODY",
        "SizeRestrictions_BODY",
    ),
    "AWSManagedRulesKnownBadInputsRuleSet": (
        "JavaDeserializationRCE_BODY",
        "Log4JRCE_BODY",
        "ReactJSRCE_BODY",
    ),
}
_Rule = wafv2.CfnWebACL.RuleProperty
_COUNT = wafv2.CfnWebACL.RuleActionProperty(count={})
#: WAF counts an address's requests over five minutes.
_WINDOW_SECONDS = 300


class WebAcl(Construct):
    """A web ACL by the settings; none is created if the settings name one.

    Attributes:
        arn: The ARN of the web ACL.
    """

    def __init__(self, scope: Construct, id: str, *, settings: Firewall, name: str) -> None:
        super().__init__(scope, id)
        if settings.web_acl is not None:
            self.arn = settings.web_acl
            return
        rate = wafv2.CfnWebACL.RateBasedStatementProperty(
            aggregate_key_type="IP",
            limit=settings.requests_per_five_minutes,
            evaluation_window_sec=_WINDOW_SECONDS,
        )
        rules = [
            _Rule(
                name="RequestsOfAnAddress",
                priority=0,
                action=wafv2.CfnWebACL.RuleActionProperty(block={}),
                statement=wafv2.CfnWebACL.StatementProperty(rate_based_statement=rate),
                visibility_config=_visible(f"{name}-RequestsOfAnAddress"),
            )
        ]
        rules += [
            _managed(group, of_bodies, priority, name)
            for priority, (group, of_bodies) in enumerate(MANAGED_RULES.items(), start=1)
        ]
        acl = wafv2.CfnWebACL(
            self,
            "Acl",
            scope="REGIONAL",
            description="Rules of AWS that inspect no body, and a limit for each address",
            default_action=wafv2.CfnWebACL.DefaultActionProperty(allow={}),
            rules=rules,
            visibility_config=_visible(name),
        )
        self.arn = acl.attr_arn


def _managed(group: str, of_bodies: tuple[str, ...], priority: int, name: str) -> _Rule:
    return _Rule(
        name=group,
        priority=priority,
        override_action=wafv2.CfnWebACL.OverrideActionProperty(none={}),
        statement=wafv2.CfnWebACL.StatementProperty(
            managed_rule_group_statement=wafv2.CfnWebACL.ManagedRuleGroupStatementProperty(
                vendor_name="AWS",
                name=group,
                rule_action_overrides=[
                    wafv2.CfnWebACL.RuleActionOverrideProperty(name=rule, action_to_use=_COUNT)
                    for rule in of_bodies
                ],
            )
        ),
        visibility_config=_visible(f"{name}-{group}"),
    )


def _visible(metric: str) -> wafv2.CfnWebACL.VisibilityConfigProperty:
    # A sample has headers and paths of requests, and with them keys.
    return wafv2.CfnWebACL.VisibilityConfigProperty(
        cloud_watch_metrics_enabled=True, metric_name=metric, sampled_requests_enabled=False
    )
