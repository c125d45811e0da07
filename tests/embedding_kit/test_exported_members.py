"""Test the names that another app may import."""

import embedding_kit


def test_public_surface_is_this_and_no_more():
    """A public name is added or removed only on purpose."""
    assert embedding_kit.__all__ == [
        "AlarmSettings",
        "AlarmTopic",
        "AliasExperiment",
        "AllAtOnce",
        "Budget",
        "Callers",
        "Canary",
        "Cors",
        "CostBudget",
        "EmbeddingEndpoint",
        "EmbeddingRepository",
        "EndpointAlarms",
        "EndpointDashboard",
        "FunctionSettings",
        "Linear",
        "Model",
        "OnDemand",
        "Provisioned",
        "ReleaseNotices",
        "RepositorySettings",
        "ScheduledCapacity",
        "SnapStart",
        "WeightedExperiment",
    ]


def test_every_public_name_is_there():
    """Every declared name can be imported."""
    assert all(hasattr(embedding_kit, name) for name in embedding_kit.__all__)
