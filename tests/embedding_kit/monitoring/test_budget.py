"""Test the monthly budget."""

import pytest

from embedding_kit import AlarmTopic, Budget, CostBudget
from tests.embedding_kit.roles import only


def test_a_budget_without_a_topic_notifies_nobody(synthesize):
    """The console still shows it."""

    def build(stack):
        CostBudget(stack, "Budget", settings=Budget(monthly_usd=50.0), tag=("EmbeddingKit", "dev"))

    assert only(synthesize(build), "AWS::Budgets::Budget").keys() == {"Budget"}


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

    budget = only(synthesize(build), "AWS::Budgets::Budget")["Budget"]
    assert budget["BudgetLimit"] == {"Amount": 20, "Unit": "USD"}


def test_a_budget_needs_an_amount(synthesize):
    """It cannot be derived without the environment."""

    def build(stack):
        topic = AlarmTopic(stack, "Notices").topic
        CostBudget(stack, "Budget", settings=Budget(), tag=("EmbeddingKit", "dev"), topic=topic)

    with pytest.raises(ValueError, match="found: neither monthly_usd nor default_usd; allowed: US"):
        synthesize(build)
