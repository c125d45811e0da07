"""The settings of one environment, as one frozen, validated value."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from embedding_kit.settings import (
    AlarmTable,
    ApiGatewayFront,
    BatchSettings,
    Budget,
    Callers,
    ColdStart,
    Cors,
    Encryption,
    Existing,
    Experiment,
    FunctionSettings,
    IngestSettings,
    ModelSettings,
    ModelSource,
    NetworkSettings,
    Observability,
    Provisioned,
    Release,
    RepositorySettings,
    RoleRules,
    ServerSettings,
    SnapStart,
    SparseSource,
    VectorIndexSettings,
    load_source,
)
from embedding_kit.settings.api_gateway import check_front
from embedding_kit.settings.base import Settings, allowed, optional, rule_error
from embedding_kit.settings.compatibility import (
    check_batch,
    check_endpoint,
    check_memory,
    check_server,
    check_standby,
)
from embedding_kit.settings.index import check_dimension
from embedding_kit.settings.ingest import check_chunks, check_ingest, check_prefixes
from embedding_kit.settings.model import COMPANIONS, check_index, check_kind, check_task
from embedding_kit.settings.ownership import (
    check_boundary,
    check_existing,
    check_keys,
    check_page_topic,
)
from embedding_kit.settings.package import check_without_images
from embedding_kit.settings.regions import BUDGETS, SNAPSTART, URLS, VECTORS, Feature, check_region

#: The tag that costs are allocated by; its value is the environment's name. It must be activated
#: once in the account's billing console.
COST_TAG = "EmbeddingKit"
#: https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html
_TAG_TEXT = re.compile(r"[\w\s.:/=+@-]*")
#: AWS allows 50 tags per resource; the kit adds two.
_TAGS = 48
_Region = Annotated[
    str, allowed("a region such as eu-central-1", pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")
]


class EnvironmentSettings(Settings):
    """The settings of one environment."""

    name: str = Field(exclude=True, description="The file's name; FILE-BRANCH for a branch.")
    branch_of: str | None = optional("The file of which this is a branch.", exclude=True)
    account: (
        Annotated[str, allowed("an account number of 12 digits, as text", pattern=r"^[0-9]{12}$")]
        | None
    ) = optional(
        "The AWS account, with `region`; the deploying shell's if unset. The scripts refuse "
        "credentials of another account."
    )
    region: _Region | None = optional("The AWS region; the deploying shell's if unset.")
    tags: dict[str, str] = Field(
        default={}, description="Tags of all resources, in addition to the cost allocation tags."
    )
    removal_policy: Literal["retain", "destroy"] = Field(
        default="retain",
        description="Whether images, logs and vectors stay when the stacks are destroyed. With "
        "`destroy`, `scripts/prune` also deletes replaced indexes that no version uses.",
    )
    termination_protection: bool = Field(
        default=False,
        description="Whether the stacks have termination protection: `scripts/destroy` refuses "
        "until this is `false` and deployed.",
    )
    # Before the model, which gets it.
    reranker: ModelSource | None = optional(
        "A reranker that the same function serves, next to an embedding model; none by default."
    )
    sparse: SparseSource | None = optional(
        "A sparse encoder that the same function serves, next to an embedding model, or BM25; none "
        "by default."
    )
    model: ModelSettings = Field(description="The model that is served.")
    standby: ModelSettings | None = optional(
        "A second model, with its index kept up to date: the next one before a switch, and the "
        "earlier one after it; none by default."
    )
    function: FunctionSettings = Field(
        default=FunctionSettings(), description="The function's size and limits."
    )
    cold_start: ColdStart | None = optional(
        "The strategy against cold starts. If unset, environments are initialized when a request "
        "needs one."
    )
    release: Release = Field(default=Release(), description="How traffic shifts to a new version.")
    experiment: Experiment | None = optional("A comparison with another published version.")
    callers: Callers = Field(
        default=Callers(), description="The principals that may call; none by default."
    )
    cors: Cors | None = optional("The web pages that may call from a browser; none by default.")
    front: ApiGatewayFront | None = optional(
        "What callers reach besides the function's URL; nothing by default."
    )
    network: NetworkSettings | None = optional(
        "The VPC of functions and services; none by default."
    )
    observability: Observability = Field(
        default=Observability(), description="What is watched and traced."
    )
    alarms: AlarmTable = Field(
        default=AlarmTable(), description="Thresholds and recipients of alarms."
    )
    budget: Budget | None = optional("The monthly budget.")
    repository: RepositorySettings = Field(
        default=RepositorySettings(), description="The images' repository."
    )
    batch: BatchSettings | None = optional("Batch jobs over files in S3; none by default.")

    index: VectorIndexSettings | None = optional(
        "An index in S3 Vectors to search in; none by default."
    )
    ingest: IngestSettings | None = optional(
        "Documents in S3 that the index is kept equal to; none by default."
    )
    server: ServerSettings | None = optional(
        "A long-lived server of the same model on Fargate; none by default."
    )

    encryption: Encryption | None = optional(
        "Your KMS key; the keys of AWS and of the kit by default."
    )
    roles: RoleRules | None = optional("Rules for all IAM roles; none by default.")
    existing: Existing | None = optional(
        "Existing resources that are used by name; by default the kit creates all."
    )

    @property
    def file(self) -> str:
        """The path of the file in the repository."""
        return f"environments/{self.branch_of or self.name}.toml"

    @property
    def argument(self) -> str:
        """The environment as scripts take it: `FILE` or `FILE/BRANCH`."""
        if self.branch_of is None:
            return self.name
        return f"{self.branch_of}/{self.name.removeprefix(f'{self.branch_of}-')}"

    @property
    def models(self) -> dict[str, ModelSettings]:
        """The models of its images, by the names of their tables."""
        tables = {"model": self.model, "standby": self.standby}
        return {name: model for name, model in tables.items() if model}

    @property
    def regional_features(self) -> list[Feature]:
        """The features that it needs and AWS does not have in every region."""
        needs = {
            URLS: True,
            VECTORS: self.index,
            # A branch has none.
            BUDGETS: self.budget and not self.branch_of,
            SNAPSTART: isinstance(self.cold_start, SnapStart),
        }
        return [feature for feature, needed in needs.items() if needed]

    @model_validator(mode="before")
    @classmethod
    def _network_of_the_server(cls, value: Any) -> Any:
        """Give `[server]` the parts of `[network]` that it lacks, unless it has its own VPC."""
        if not isinstance(value, dict):
            return value
        network, server = value.get("network"), value.get("server")
        if isinstance(network, NetworkSettings):
            network = network.model_dump()
        if not isinstance(network, dict) or not isinstance(server, dict) or "vpc" in server:
            return value
        network_fields = {
            name: network[name] for name in NetworkSettings.model_fields if name in network
        }
        return value | {"server": network_fields | server}

    @field_validator(*COMPANIONS)
    @classmethod
    def _of_another_kind(cls, companion: ModelSource | None) -> ModelSource | None:
        check_kind(companion)
        return companion

    @field_validator("model", "standby")
    @classmethod
    def _with_companions(
        cls, model: ModelSettings | None, info: ValidationInfo
    ) -> ModelSettings | None:
        if model is None:
            return None
        combined = model.model_copy(update={name: info.data.get(name) for name in COMPANIONS})
        # A copy is not validated.
        check_task(combined)
        check_index(combined)
        return combined

    @field_validator("tags")
    @classmethod
    def _tags_acceptable(cls, tags: dict[str, str]) -> dict[str, str]:
        for key, value in tags.items():
            text = _TAG_TEXT.fullmatch(key + value) is not None
            length = 1 <= len(key) <= 128 and len(value) <= 256
            if key.lower().startswith("aws:") or not text or not length:
                raise rule_error(
                    "AWS takes no such tag",
                    found=f"{key} = {value}",
                    allowed="keys of 1 to 128 characters that do not start with aws:, values of up "
                    "to 256; letters, digits, spaces and _ . : / = + - @",
                )
        if len(tags) > _TAGS:
            raise rule_error(
                "AWS takes 50 tags for a resource, and two are the kit's own",
                found=f"{len(tags)} tags",
                allowed=f"up to {_TAGS}",
            )
        # IAM compares keys case-insensitively, so two spellings of one key fail on a role.
        spellings = [key.lower() for key in tags]
        if COST_TAG.lower() in spellings:
            raise rule_error(
                f"the tag {COST_TAG} holds the environment's name, by which the budget finds costs",
                found=next(key for key in tags if key.lower() == COST_TAG.lower()),
                allowed="any other key",
            )
        twice = [key for key in tags if spellings.count(key.lower()) > 1]
        if twice:
            raise rule_error(
                "IAM takes a tag's key once, in whatever case",
                found=", ".join(twice),
                allowed="one of them",
            )
        return tags

    @model_validator(mode="after")
    def _branch_is_free(self) -> Self:
        """Refuse what a branch would be billed for without a request, or may exist once."""
        tables = {
            "termination_protection": self.termination_protection,
            "[cold_start] with provisioned concurrency": isinstance(self.cold_start, Provisioned),
            "[existing] with more than keys": self.existing
            and self.existing.model_fields_set != {"keys"},
            "[experiment]": self.experiment,
            "[front]": self.front,
            "[server]": self.server,
        }
        refused = [name for name, is_there in tables.items() if is_there]
        if self.branch_of and refused:
            raise rule_error(
                "a branch costs nothing between requests, and shares nothing with another one",
                found=f"{', '.join(refused)} in {self.file}",
                allowed="a file without them, such as dev",
            )
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.account is not None and self.region is None:
            raise rule_error(
                "an account is given together with its region",
                found=f"account = {self.account}, no region",
                allowed="both of them, region alone, or neither",
            )
        if self.region is not None:
            check_region(self.region, self.regional_features)
        check_endpoint(
            model=self.model,
            function=self.function,
            cold_start=self.cold_start,
            release=self.release,
            experiment=self.experiment,
            alarms=self.alarms,
        )
        check_without_images(
            self.function,
            {
                "[batch]": self.batch,
                "[index] with a source": self.index and load_source(self.index, self.batch),
                "[ingest]": self.ingest,
                "[server]": self.server,
            },
        )
        if self.batch is not None:
            check_batch(self.batch, self.function, self.cold_start)
            check_memory(self.model, self.batch, table="batch")
        if self.server is not None:
            check_server(self.model)
        check_dimension(self.model, self.index)
        if self.model.bm25 and self.index:
            raise rule_error(
                "an index in S3 Vectors is searched in place of the image's, which has BM25",
                found='[index] and kind = "bm25" under [sparse]',
                allowed="one of them",
            )
        if self.standby is not None:
            check_standby(self.standby, self.model, self.index, self.function)
        if self.ingest is not None:
            check_ingest(self.ingest, self.index)
            for model in self.models.values():
                check_chunks(self.ingest, model)
        if self.callers.prefixes:
            ways = {"front": self.front, "server": self.server, "experiment": self.experiment}
            check_prefixes(ingest=self.ingest, index=self.index, ways=ways)
        check_keys(self.encryption, self.existing, self.region)
        check_page_topic(self.alarms.page_topic, self.region)
        check_boundary(self.roles, self.account)
        if self.existing:
            check_existing(self.existing, self.model, self.function, self.repository)
        if self.front is not None:
            check_front(self.front, account=self.account, region=self.region)
        return self
