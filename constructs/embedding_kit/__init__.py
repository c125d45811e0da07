"""Constructs for a text-embedding model on AWS Lambda, with the resources for production.

```python
from aws_cdk import App, Stack
from embedding_kit import EmbeddingEndpoint, Model

app = App()
EmbeddingEndpoint(Stack(app, "Search"), "Embeddings", model=Model(name="BAAI/bge-small-en-v1.5"))
app.synth()
```

Each name is imported from its module on first use: importing the CDK takes seconds, and the
commands that read an environment's settings do not need it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embedding_kit.account_rules import apply_role_rules, encrypt_logs
    from embedding_kit.artifact_bucket import ArtifactBucket
    from embedding_kit.batch import EmbeddingBatch
    from embedding_kit.endpoint import EmbeddingEndpoint
    from embedding_kit.endpoint_interface import IEmbeddingEndpoint
    from embedding_kit.fargate_service import EmbeddingService
    from embedding_kit.front.rest_api import EmbeddingRestApi
    from embedding_kit.hosting import Hosting
    from embedding_kit.index_loading import IndexLoading
    from embedding_kit.ingestion import Ingestion
    from embedding_kit.monitoring.alarms import EndpointAlarms
    from embedding_kit.monitoring.budget import CostBudget
    from embedding_kit.monitoring.dashboard import EndpointDashboard
    from embedding_kit.monitoring.parts import PartAlarms
    from embedding_kit.monitoring.topic import AlarmTopic
    from embedding_kit.release_notices import ReleaseNotices
    from embedding_kit.repository import EmbeddingRepository
    from embedding_kit.search_watch import SearchWatch
    from embedding_kit.settings import (
        AlarmSettings,
        ApiGatewayFront,
        BatchSettings,
        Budget,
        Callers,
        Cors,
        Domain,
        Experiment,
        Firewall,
        FrontCaller,
        FunctionSettings,
        IngestSettings,
        Model,
        ModelSource,
        NetworkSettings,
        Provisioned,
        Release,
        RepositorySettings,
        RoleRules,
        ScheduledCapacity,
        ServerSettings,
        SnapStart,
        VectorIndexSettings,
        WatchSettings,
    )
    from embedding_kit.vector_index import IVectorIndex, VectorIndex

__all__ = [
    "AlarmSettings",
    "AlarmTopic",
    "ApiGatewayFront",
    "ArtifactBucket",
    "BatchSettings",
    "Budget",
    "Callers",
    "Cors",
    "CostBudget",
    "Domain",
    "EmbeddingBatch",
    "EmbeddingEndpoint",
    "EmbeddingRepository",
    "EmbeddingRestApi",
    "EmbeddingService",
    "EndpointAlarms",
    "EndpointDashboard",
    "Experiment",
    "Firewall",
    "FrontCaller",
    "FunctionSettings",
    "Hosting",
    "IEmbeddingEndpoint",
    "IVectorIndex",
    "IndexLoading",
    "IngestSettings",
    "Ingestion",
    "Model",
    "ModelSource",
    "NetworkSettings",
    "PartAlarms",
    "Provisioned",
    "Release",
    "ReleaseNotices",
    "RepositorySettings",
    "RoleRules",
    "ScheduledCapacity",
    "SearchWatch",
    "ServerSettings",
    "SnapStart",
    "VectorIndex",
    "VectorIndexSettings",
    "WatchSettings",
    "apply_role_rules",
    "encrypt_logs",
]

# The module of each name that is not one of the settings.
_MODULES = {
    "AlarmTopic": "monitoring.topic",
    "ArtifactBucket": "artifact_bucket",
    "CostBudget": "monitoring.budget",
    "EmbeddingBatch": "batch",
    "EmbeddingEndpoint": "endpoint",
    "EmbeddingRepository": "repository",
    "EmbeddingRestApi": "front.rest_api",
    "EmbeddingService": "fargate_service",
    "EndpointAlarms": "monitoring.alarms",
    "EndpointDashboard": "monitoring.dashboard",
    "Hosting": "hosting",
    "IEmbeddingEndpoint": "endpoint_interface",
    "IVectorIndex": "vector_index",
    "IndexLoading": "index_loading",
    "Ingestion": "ingestion",
    "PartAlarms": "monitoring.parts",
    "ReleaseNotices": "release_notices",
    "SearchWatch": "search_watch",
    "VectorIndex": "vector_index",
    "apply_role_rules": "account_rules",
    "encrypt_logs": "account_rules",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES.get(name, 'settings')}"), name)
    globals()[name] = value
    return value
