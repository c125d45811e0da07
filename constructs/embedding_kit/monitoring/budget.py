"""A monthly budget for all resources that have the cost-allocation tag."""

from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_sns as sns
from constructs import Construct

from embedding_kit.settings import Budget

#: The kinds of cost of which notices are sent, and the percent of the budget.
_LIMITS = (("ACTUAL", 50), ("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))


class CostBudget(Construct):
    """A budget that notifies at 50, 80 and 100% of actual cost and at 100% of forecast cost.

    Activate the tag for cost allocation once, in the account that pays. Until then the budget finds
    no costs.

    Args:
        settings: The monthly amount.
        tag: Key and value of the cost-allocation tag.
        topic: The topic to notify; without one, only the console shows the budget. Its key must let
            AWS Budgets encrypt.
        default_usd: The amount if the settings have none, such as
            `embedding_kit.standing_cost.default_budget` of an environment.

    Attributes:
        budget: The budget.

    Raises:
        ValueError: There is no amount.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Budget,
        tag: tuple[str, str],
        topic: sns.ITopic | None = None,
        default_usd: float | None = None,
    ) -> None:
        super().__init__(scope, id)
        amount = settings.monthly_usd or default_usd
        if amount is None:
            raise ValueError(
                "a budget needs an amount; found: neither monthly_usd nor default_usd; "
                "allowed: US dollars per month in one of them"
            )
        key, value = tag
        self.budget = budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=amount, unit="USD"),
                cost_filters={"TagKeyValue": [f"user:{key}${value}"]},
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type=kind,
                        comparison_operator="GREATER_THAN",
                        threshold=percent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[
                        budgets.CfnBudget.SubscriberProperty(
                            subscription_type="SNS", address=topic.topic_arn
                        )
                    ],
                )
                for kind, percent in _LIMITS
            ]
            if topic
            else None,
        )
        if topic:
            # AWS Budgets publishes to the topic when the budget is created: the policy must exist.
            self.budget.node.add_dependency(topic)
