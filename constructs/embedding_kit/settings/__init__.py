"""The typed settings of an environment: plain values, without the CDK and without files.

The same classes configure the constructs in any app and validate `environments/*.toml`. They are
frozen, and reject unknown keys and values that AWS would reject later or bill without use.
"""

from embedding_kit.settings.api_gateway import ApiGatewayFront, Domain, Firewall, FrontCaller
from embedding_kit.settings.base import Duration, Settings
from embedding_kit.settings.batch import BatchSettings
from embedding_kit.settings.callers import Callers, Cors
from embedding_kit.settings.cold_start import ColdStart, Provisioned, ScheduledCapacity, SnapStart
from embedding_kit.settings.function import FunctionSettings, NetworkSettings
from embedding_kit.settings.index import VectorIndexSettings, index_dimension, load_source
from embedding_kit.settings.ingest import IngestSettings
from embedding_kit.settings.model import ModelSettings, ModelSource, SparseSource
from embedding_kit.settings.observability import (
    AlarmSettings,
    AlarmTable,
    Budget,
    Observability,
    Watch,
)
from embedding_kit.settings.ownership import Encryption, Existing, RepositorySettings, RoleRules
from embedding_kit.settings.package import artifact_in_s3
from embedding_kit.settings.release import Experiment, Release
from embedding_kit.settings.server import ServerSettings
