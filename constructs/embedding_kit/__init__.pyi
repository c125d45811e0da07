# The public names, each with its module. `as` makes it a name of this package for type checkers.

from embedding_kit.account_rules import apply_role_rules as apply_role_rules
from embedding_kit.account_rules import encrypt_logs as encrypt_logs
from embedding_kit.endpoint import EmbeddingEndpoint as EmbeddingEndpoint
from embedding_kit.endpoint_interface import IEmbeddingEndpoint as IEmbeddingEndpoint
from embedding_kit.fargate_service import EmbeddingService as EmbeddingService
from embedding_kit.hosting import Hosting as Hosting
from embedding_kit.ingestion import Ingestion as Ingestion
from embedding_kit.jobs import EmbeddingBatch as EmbeddingBatch
from embedding_kit.jobs import IndexLoading as IndexLoading
from embedding_kit.monitoring.alarms import EndpointAlarms as EndpointAlarms
from embedding_kit.monitoring.dashboard import EndpointDashboard as EndpointDashboard
from embedding_kit.monitoring.notices import AlarmTopic as AlarmTopic
from embedding_kit.monitoring.notices import CostBudget as CostBudget
from embedding_kit.monitoring.notices import ReleaseNotices as ReleaseNotices
from embedding_kit.monitoring.parts import PartAlarms as PartAlarms
from embedding_kit.rest_api import EmbeddingRestApi as EmbeddingRestApi
from embedding_kit.settings import AlarmSettings as AlarmSettings
from embedding_kit.settings import ApiGatewayFront as ApiGatewayFront
from embedding_kit.settings import BatchSettings as BatchSettings
from embedding_kit.settings import Budget as Budget
from embedding_kit.settings import Callers as Callers
from embedding_kit.settings import Cors as Cors
from embedding_kit.settings import Domain as Domain
from embedding_kit.settings import Experiment as Experiment
from embedding_kit.settings import Firewall as Firewall
from embedding_kit.settings import FrontCaller as FrontCaller
from embedding_kit.settings import FunctionSettings as FunctionSettings
from embedding_kit.settings import IngestSettings as IngestSettings
from embedding_kit.settings import ModelSettings as ModelSettings
from embedding_kit.settings import ModelSource as ModelSource
from embedding_kit.settings import NetworkSettings as NetworkSettings
from embedding_kit.settings import Provisioned as Provisioned
from embedding_kit.settings import Release as Release
from embedding_kit.settings import RepositorySettings as RepositorySettings
from embedding_kit.settings import RoleRules as RoleRules
from embedding_kit.settings import ScheduledCapacity as ScheduledCapacity
from embedding_kit.settings import ServerSettings as ServerSettings
from embedding_kit.settings import SnapStart as SnapStart
from embedding_kit.settings import SparseSource as SparseSource
from embedding_kit.settings import VectorIndexSettings as VectorIndexSettings
from embedding_kit.storage import ArtifactBucket as ArtifactBucket
from embedding_kit.storage import EmbeddingRepository as EmbeddingRepository
from embedding_kit.vector_index import IVectorIndex as IVectorIndex
from embedding_kit.vector_index import VectorIndex as VectorIndex

__all__: list[str]  # noqa: PYI035 - the names above: a second list is what this file spares
