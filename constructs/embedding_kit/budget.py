"""A monthly budget for what carries the cost-allocation tag."""

from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_sns as sns
from constructs import Construct

from embedding_kit.settings import Budget

__all__ = ["CostBudget"]

_ACTUAL_PERCENT = (50, 80, 100)
_FORECAST_PERCENT = 100


class CostBudget(Construct):
    """Tells at 50, 80 and 100 percent of the month's money, and when all of it is forecast.

    The tag must be activated for cost allocation once, in the account that pays; until then the
    budget sees nothing.

    Attributes:
        budget: The budget.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Budget,
        tag: tuple[str, str],
        topic: sns.ITopic,
    ) -> None:
        """Make the budget.

        Args:
            scope: The parent.
            id: The construct's id.
            settings: How much a month.
            tag: Key and value of the tag that costs are found by.
            topic: Where it is told. Its key must let AWS Budgets encrypt.
        """
        super().__init__(scope, id)
        key, value = tag
        actual = [self._notice("ACTUAL", percent, topic) for percent in _ACTUAL_PERCENT]
        self.budget = budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(
                    amount=settings.monthly_usd, unit="USD"
                ),
                cost_filters={"TagKeyValue": [f"user:{key}${value}"]},
            ),
            notifications_with_subscribers=[
                *actual,
                self._notice("FORECASTED", _FORECAST_PERCENT, topic),
            ],
        )
        # Budgets tries the topic when it is told of it.
        self.budget.node.add_dependency(topic)

    @staticmethod
    def _notice(
        kind: str, percent: int, topic: sns.ITopic
    ) -> budgets.CfnBudget.NotificationWithSubscribersProperty:
        return budgets.CfnBudget.NotificationWithSubscribersProperty(
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
