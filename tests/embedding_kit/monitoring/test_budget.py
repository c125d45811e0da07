"""Test the monthly budget."""

import pytest
from aws_cdk.assertions import Template

from embedding_kit import AlarmTopic, Budget, CostBudget


@pytest.fixture(scope="session")
def budget(synthesize) -> dict:
    def build(stack):
        topic = AlarmTopic(stack, "Notices").topic
        CostBudget(
            stack,
            "Budget",
            settings=Budget(monthly_usd=50.0),
            tag=("EmbeddingKit", "dev"),
            topic=topic,
        )

    template: Template = synthesize(build)
    (found,) = template.find_resources("AWS::Budgets::Budget").values()
    return found["Properties"]


def test_the_months_money_is_that_of_the_tag(budget):
    """Only resources with the environment's cost-allocation tag count."""
    assert budget["Budget"] == {
        "BudgetType": "COST",
        "TimeUnit": "MONTHLY",
        "BudgetLimit": {"Amount": 50, "Unit": "USD"},
        "CostFilters": {"TagKeyValue": ["user:EmbeddingKit$dev"]},
    }


def test_it_tells_at_50_80_and_100_percent_and_when_all_is_forecast(budget):
    """The budget sends three notices of actual cost and one of forecast cost."""
    told = [
        (notice["Notification"]["NotificationType"], notice["Notification"]["Threshold"])
        for notice in budget["NotificationsWithSubscribers"]
    ]
    assert told == [("ACTUAL", 50), ("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100)]


def test_every_notice_goes_to_the_topic(budget):
    """Every notice goes to the topic, which is the one place to subscribe to."""
    kinds = {
        subscriber["SubscriptionType"]
        for notice in budget["NotificationsWithSubscribers"]
        for subscriber in notice["Subscribers"]
    }
    assert kinds == {"SNS"}


def test_a_budget_without_a_topic_notifies_nobody(synthesize):
    """The console still shows it."""

    def build(stack):
        CostBudget(stack, "Budget", settings=Budget(monthly_usd=50.0), tag=("EmbeddingKit", "dev"))

    (found,) = synthesize(build).find_resources("AWS::Budgets::Budget").values()
    assert found["Properties"].keys() == {"Budget"}


def test_a_budget_without_an_amount_takes_the_default(synthesize):
    """The settings' amount comes first."""

    def build(stack):
        topic = AlarmTopic(stack, "Notices").topic
        CostBudget(
            stack,
            "Budget",
            settings=Budget(),
            tag=("EmbeddingKit", "dev"),
            topic=topic,
            default_usd=20.0,
        )

    (found,) = synthesize(build).find_resources("AWS::Budgets::Budget").values()
    assert found["Properties"]["Budget"]["BudgetLimit"] == {"Amount": 20, "Unit": "USD"}


def test_a_budget_needs_an_amount(synthesize):
    """It cannot be derived without the environment."""

    def build(stack):
        topic = AlarmTopic(stack, "Notices").topic
        CostBudget(stack, "Budget", settings=Budget(), tag=("EmbeddingKit", "dev"), topic=topic)

    with pytest.raises(ValueError, match="found: neither monthly_usd nor default_usd; allowed: US"):
        synthesize(build)
