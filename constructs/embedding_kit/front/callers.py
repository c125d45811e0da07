"""The callers of a REST API: each has a usage plan and up to two API keys."""

from aws_cdk import aws_apigateway as apigateway
from constructs import Construct

from embedding_kit.settings import FrontCaller

__all__ = ["ApiCaller"]


class ApiCaller(Construct):
    """A usage plan with one caller's limits, and the caller's keys.

    The secrets of the keys are made by API Gateway, and are in no template.

    Attributes:
        plan: The usage plan.
        keys: The keys by their label.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        caller: FrontCaller,
        stage: apigateway.Stage,
        name: str,
    ) -> None:
        """Create the usage plan and the keys.

        Args:
            scope: The parent.
            id: The construct's id.
            caller: The caller.
            stage: The stage of the API that it may call.
            name: The beginning of the keys' names, by which they are found.
        """
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
