"""Provide the environments and the variants of each switch, synthesized once."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

# jsii runs the first `node` on the PATH; the environment's own prints no page of warnings.
os.environ.setdefault("JSII_NODE", str(Path(sys.prefix) / "bin" / "node"))

from aws_cdk import App

from embedding_kit.settings import (
    AlarmTable,
    ApiGatewayFront,
    BatchSettings,
    Budget,
    Callers,
    Encryption,
    Existing,
    Experiment,
    FunctionSettings,
    IngestSettings,
    ModelSettings,
    NetworkSettings,
    Observability,
    Provisioned,
    Release,
    RepositorySettings,
    RoleRules,
    ScheduledCapacity,
    ServerSettings,
    SnapStart,
    VectorIndexSettings,
)
from stacks.environment import EnvironmentSettings
from stacks.environment_file import load_environment
from stacks.environment_stacks import EnvironmentStacks

ROOT = Path(__file__).resolve().parents[2]
#: The files of environments/ as the kit ships them. Those are the user's to edit.
SHIPPED = ROOT / "tests" / "fixtures" / "environments"
CONTEXT = json.loads((ROOT / "cdk.json").read_text())["context"]

NETWORK = NetworkSettings(
    vpc="vpc-0123456789abcdef0", subnets=("subnet-0aaaaaaaaaaaaaaa1", "subnet-0aaaaaaaaaaaaaaa2")
)
#: Of the buckets and the secret of some variants.
KEYS = tuple(f"arn:aws:kms:us-east-1:123456789012:key/{key}" for key in ("1111aaaa", "3333cccc"))
INGEST: dict[str, Any] = {
    "observability": Observability(),
    "index": VectorIndexSettings(filterable=("lang",)),
    "ingest": IngestSettings(source="s3://example-documents/texts/"),
    "existing": Existing(keys=KEYS),
}
#: The variants of dev: each changes one switch of an environment file.
VARIANTS: dict[str, dict[str, Any]] = {
    "snapstart": {"cold_start": SnapStart()},
    "provisioned": {
        "cold_start": Provisioned(
            minimum=2,
            maximum=10,
            schedule=(
                ScheduledCapacity(
                    at="cron(0 8 ? * MON-FRI *)", time_zone="Europe/Berlin", minimum=5, maximum=20
                ),
            ),
        )
    },
    "canary": {"release": Release(kind="canary")},
    "linear": {"release": Release(kind="linear")},
    "vector-space-change": {"release": Release(kind="canary", allow_vector_space_change=True)},
    "weights": {"experiment": Experiment(version=12, percent=10.0)},
    "alias": {"experiment": Experiment(version=12)},
    "zip": {"function": FunctionSettings(package="zip", memory_mb=1769, log_retention_days=7)},
    "zip-s3": {
        "cold_start": SnapStart(),
        "encryption": Encryption(
            key="arn:aws:kms:us-east-1:123456789012:key/1111aaaa-22bb-33cc-44dd-555566667777"
        ),
        "function": FunctionSettings(
            package="zip", artifact="s3", memory_mb=1769, log_retention_days=7
        ),
    },
    "reserved": {"function": FunctionSettings(reserved_concurrency=20)},
    "callers": {
        "callers": Callers(
            principals=(
                "arn:aws:iam::111122223333:role/search",
                "444455556666",
                "o-a1b2c3d4e5",
                "o-a1b2c3d4e5/r-ab12/ou-ab12-11111111",
            )
        )
    },
    "batch": {
        "observability": Observability(),
        "batch": BatchSettings(
            input="s3://example-documents/texts/",
            output="s3://example-vectors/",
            reserved_concurrency=20,
        ),
        "existing": Existing(keys=KEYS),
    },
    "index": {
        "index": VectorIndexSettings(
            filterable=("lang",), non_filterable=("url",), source="s3://example-vectors/"
        ),
        "existing": Existing(keys=KEYS),
    },
    "ingest": INGEST,
    "standby": INGEST | {"standby": ModelSettings(name="BAAI/bge-small-en-v1.5")},
    "questions": {
        "observability": Observability(),
        "index": VectorIndexSettings(filterable=("lang",)),
        # In a bucket of the kit's.
        "ingest": IngestSettings(tags=True, questions="_questions/golden.jsonl"),
    },
    "server": {
        "observability": Observability(),
        "server": ServerSettings(
            vpc=NETWORK.vpc,
            subnets=NETWORK.subnets,
            clients=("10.0.0.0/16",),
            certificate="arn:aws:acm:us-east-1:123456789012:certificate/1234abcd-12ab",
            domain_name="embeddings.example.com",
            keys_secret="arn:aws:secretsmanager:us-east-1:123456789012:secret:keys-AbCdEf",
        ),
        "existing": Existing(keys=KEYS),
    },
    "front": {
        "observability": Observability(tracing=True),
        "front": ApiGatewayFront.model_validate(
            {
                "callers": [
                    {"name": "search", "keys": ["1", "2"], "rate": 20, "burst": 40},
                    {"name": "import", "rate": 5, "burst": 10, "monthly_requests": 100_000},
                ],
                "domain": {
                    "name": "embeddings.example.com",
                    "certificate": "arn:aws:acm:us-east-1:123456789012:certificate/1234abcd-12ab",
                },
                "firewall": {"requests_per_five_minutes": 2000},
                "authorizer": "arn:aws:lambda:us-east-1:123456789012:function:authorize:live",
                "manage_log_role": True,
            }
        ),
    },
    "network": {
        "network": NETWORK,
        "callers": Callers(principals=("arn:aws:iam::111122223333:role/search",), invoke=True),
        "alarms": AlarmTable(expected_traffic_interval=timedelta(hours=1)),
    },
    "private-front": {
        "front": ApiGatewayFront.model_validate(
            {
                "callers": [{"name": "search", "keys": [], "rate": 20, "burst": 40}],
                "vpc_endpoints": ["vpce-0123456789abcdef0"],
                "timeout": "20s",
            }
        )
    },
    "told": {
        "alarms": AlarmTable(
            emails=("ops@example.com",),
            page_topic="arn:aws:sns:us-east-1:123456789012:on-call",
            warning_percent=50.0,
            anomalies=True,
            expected_traffic_interval=timedelta(hours=1),
        ),
        "budget": Budget(monthly_usd=50.0),
    },
    "watched": {"observability": Observability(tracing=True)},
    "all-together": {
        "cold_start": Provisioned(
            request_duration=timedelta(milliseconds=100),
            schedule=(ScheduledCapacity(at="rate(1 day)", maximum=1),),
        ),
        "release": Release(kind="canary", allow_vector_space_change=True),
        "experiment": Experiment(version=12),
        "function": FunctionSettings(reserved_concurrency=20, cache_entries=10),
        "callers": Callers(
            principals=("arn:aws:iam::111122223333:role/search", "444455556666", "o-a1b2c3d4e5"),
            invoke=True,
        ),
        "network": NETWORK,
        "batch": BatchSettings(
            input="s3://example-documents/texts/", output="s3://example-vectors/", max_concurrency=1
        ),
        "index": VectorIndexSettings(),
        "ingest": IngestSettings(),
        "standby": ModelSettings(name="BAAI/bge-small-en-v1.5"),
        "observability": Observability(tracing=True),
        "alarms": AlarmTable(
            emails=("ops@example.com",),
            page_topic="arn:aws:sns:eu-central-1:123456789012:on-call",
            warning_percent=50.0,
            anomalies=True,
            expected_traffic_interval=timedelta(hours=1),
        ),
        "budget": Budget(monthly_usd=50.0),
        "account": "123456789012",
        "region": "eu-central-1",
    },
    "own-key": {
        "alarms": AlarmTable(emails=("ops@example.com",)),
        "budget": Budget(monthly_usd=50.0),
        "encryption": Encryption(
            key="arn:aws:kms:us-east-1:123456789012:key/1111aaaa-22bb-33cc-44dd-555566667777"
        ),
        "roles": RoleRules(
            permissions_boundary="arn:aws:iam::123456789012:policy/team-boundary", path="/team/"
        ),
    },
    "existing": {
        "existing": Existing(
            repository="team/embeddings", role="team/embedder", log_group="/team/embedder"
        ),
        "function": FunctionSettings(memory_mb=1769),
        "repository": RepositorySettings(),
    },
    "existing-bucket": {
        "cold_start": SnapStart(),
        "existing": Existing(bucket="team-artifacts"),
        "function": FunctionSettings(package="zip", artifact="s3", memory_mb=1769),
    },
    "placed": {
        "account": "123456789012",
        "region": "eu-central-1",
        "tags": {"team": "search"},
        "alarms": AlarmTable(emails=("ops@example.com",)),
    },
}


@dataclass(frozen=True)
class Synthesized:
    """An environment's app before synth, and its templates by the suffix of the stack's name."""

    app: App
    templates: dict[str, dict[str, Any]]
    folder: Path

    def artifacts(self) -> dict[str, Any]:
        """Return what the manifest of the assembly says of each stack."""
        manifest: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text())
        return manifest["artifacts"]

    def of_kind(self, *kinds: str) -> list[dict[str, Any]]:
        """Return the properties of the resources of some kinds in all stacks."""
        return [
            resource
            for template in self.templates.values()
            for resource in of_kind(template, *kinds)
        ]


def of_kind(template: dict[str, Any], *kinds: str) -> list[dict[str, Any]]:
    """Return the properties of a template's resources of some kinds."""
    return [
        resource["Properties"]
        for resource in template["Resources"].values()
        if resource["Type"] in kinds
    ]


def templates_of(app: App) -> dict[str, dict[str, Any]]:
    """Return the templates of an app by the suffix of the stack's name."""
    return {
        stack.stack_name.rpartition("-")[2].lower(): stack.template for stack in app.synth().stacks
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an empty folder of environment files."""
    (tmp_path / "environments").mkdir()
    return tmp_path / "environments"


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> dict[str, EnvironmentSettings]:
    """Return the environments as shipped, with the models' terms accepted, and the variants."""
    folder = tmp_path_factory.mktemp("accepted") / "environments"
    folder.mkdir()
    for file in SHIPPED.glob("*.toml"):
        accepted = file.read_text().replace("# accept_license", "accept_license")
        (folder / file.name).write_text(accepted)
    shipped = {file.stem: load_environment(file.stem, folder=folder) for file in folder.iterdir()}
    # Validated like a file: AWS must accept each variant.
    variants = {
        name: EnvironmentSettings(**{**dict(shipped["dev"]), **changes})
        for name, changes in VARIANTS.items()
    }
    return shipped | variants


@pytest.fixture(scope="session")
def synthesized(environments, tmp_path_factory) -> Callable[[str], Synthesized]:
    """Synthesize an environment or a variant, once."""
    stacks_by_name: dict[str, Synthesized] = {}

    def make(name: str) -> Synthesized:
        if name not in stacks_by_name:
            folder = tmp_path_factory.mktemp(f"cdk-{name}")
            app = App(context=CONTEXT, analytics_reporting=False, outdir=str(folder))
            EnvironmentStacks(app, environments[name])
            stacks_by_name[name] = Synthesized(app=app, templates=templates_of(app), folder=folder)
        return stacks_by_name[name]

    return make
