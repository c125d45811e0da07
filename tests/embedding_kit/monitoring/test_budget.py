"""Test the monthly budget."""

import pytest

from embedding_kit import AlarmTopic, Budget, CostBudget


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
