"""The long-lived server on Fargate: its size, its network, and who may call.

Sources: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-tasks-services.html
(CPU and memory), https://docs.aws.amazon.com/elasticloadbalancing/latest/application/
"""

import ipaddress
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, field_validator, model_validator

from embedding_kit.settings.base import Distinct, Settings, allowed, optional, rule_error
from embedding_kit.settings.function import SecurityGroups, Subnets, VpcId
from embedding_kit.settings.locations import Certificate, DomainName, arn_form

#: Memory in MB that Fargate has for a task of so much CPU: the least, the most, the step.
_MEMORY = {
    256: (512, 2048, 512),
    512: (1024, 4096, 1024),
    1024: (2048, 8192, 1024),
    2048: (4096, 16384, 1024),
    4096: (8192, 30720, 1024),
    8192: (16384, 61440, 4096),
    16384: (32768, 122880, 8192),
}
#: 256 CPU units with 1,536 MB are the one exception from the steps.
_NOT_OFFERED = (256, 1536)

_Network = Annotated[str, allowed("a network in CIDR notation such as 10.0.0.0/16")]


def _optional_in_a_file(schema: dict[str, Any]) -> None:
    # In a file, `[network]` gives what is unset.
    for name in ("vpc", "subnets"):
        schema["required"].remove(name)
        schema["properties"][name]["default"] = None


_KeysSecret = Annotated[
    str,
    arn_form(
        "a secret's whole ARN, with the six characters at its end,",
        "secretsmanager",
        "secret:keys-AbCdEf",
        r"secret:[\w/+=.@-]+-\w{6}",
    ),
]
_OtlpEndpoint = Annotated[
    str,
    allowed(
        "an address without a path, such as http://collector.internal:4318",
        pattern=r"^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?$",
    ),
]


class ServerSettings(Settings):
    """A server on Fargate behind a load balancer, next to the function; off without this table."""

    model_config = ConfigDict(json_schema_extra=_optional_in_a_file)

    vpc: VpcId = Field(description="The VPC; that of `[network]` if unset.")
    subnets: Subnets = Field(
        min_length=2,
        description="Private subnets of the tasks, in two or more Availability Zones; those of "
        "`[network]` if unset, and `vpc` too. Tasks have no public address: the subnets need a NAT "
        "gateway, or VPC endpoints for ECR (`ecr.api`, `ecr.dkr`), S3, CloudWatch Logs, Secrets "
        "Manager, and S3 Vectors with `[index]`.",
    )
    security_groups: SecurityGroups = Field(
        default=(),
        description="Existing security groups for the tasks; those of `[network]` if unset, and "
        "`vpc` too. Otherwise a new one that lets out TCP 443. The load balancer's is added to "
        "what may connect.",
    )
    load_balancer_subnets: Subnets = Field(
        default=(),
        description="Subnets of the load balancer, in two or more Availability Zones; `subnets` if "
        "unset. Those of a public one need a route to an internet gateway.",
    )
    clients: Distinct[_Network] = Field(
        min_length=1,
        description="Networks that may connect, such as the VPC's own. All others are refused.",
    )
    public: bool = Field(
        default=False,
        description="Whether the load balancer has public addresses. Then it needs `certificate` "
        "and `keys_secret`.",
    )
    certificate: Certificate | None = optional(
        "The certificate for HTTPS, in the same region. Without one, texts and vectors travel in "
        "the clear between callers and the load balancer, and keys are not allowed. Between the "
        "load balancer and the tasks all of it does, keys included, within the VPC."
    )
    domain_name: DomainName | None = optional(
        "A name of the certificate, by which callers reach the server. Make it an alias of the "
        "load balancer in your DNS."
    )
    keys_secret: _KeysSecret | None = optional(
        "The secret with the lines of the API keys. A task reads it when it starts."
    )
    no_keys: bool = Field(
        default=False,
        description="Whether everyone in `clients` may call; otherwise `keys_secret` is required.",
    )
    cpu: Annotated[
        Literal[256, 512, 1024, 2048, 4096, 8192, 16384],
        allowed("one of 256, 512, 1024, 2048, 4096, 8192, 16384"),
    ] = Field(default=1024, description="CPU units of a task; 1,024 are one vCPU.")
    memory_mb: Annotated[int, Field(ge=512, le=122880)] = Field(
        default=2048, description="Memory of a task in MB. What Fargate offers depends on `cpu`."
    )
    minimum: Annotated[int, Field(ge=1)] = Field(
        default=2,
        description="The lowest number of tasks. With 1, the failure of an Availability Zone stops "
        "the server until a new task has started.",
    )
    maximum: Annotated[int, Field(ge=1, le=5000)] = Field(
        default=10, description="The highest number of tasks."
    )
    requests_per_target: Annotated[int, Field(ge=1)] = Field(
        default=1000,
        description="Requests per minute and task above which tasks are added. Measure what one "
        "task of yours can do.",
    )

    otlp_endpoint: _OtlpEndpoint | None = optional(
        "The OpenTelemetry collector that gets traces by OTLP over HTTP. It must let the tasks "
        "connect, and may sample. No traces if unset."
    )

    @property
    def otlp_port(self) -> int | None:
        """The port of the collector."""
        if self.otlp_endpoint is None:
            return None
        url = urlsplit(self.otlp_endpoint)
        return url.port or (443 if url.scheme == "https" else 80)

    @field_validator("otlp_endpoint")
    @classmethod
    def _port_valid(cls, address: str | None) -> str | None:
        try:
            urlsplit(address or "").port  # noqa: B018 - it raises
        except ValueError:
            raise rule_error(
                "a port has a number up to 65535",
                found=address,
                allowed="an address without a path, such as http://collector.internal:4318",
            ) from None
        return address

    @field_validator("clients")
    @classmethod
    def _networks_valid(cls, networks: tuple[str, ...]) -> tuple[str, ...]:
        for network in networks:
            try:
                ipaddress.IPv4Network(network)
            except ValueError:
                raise rule_error(
                    "an IPv4 network is expected, with no bit set after its prefix",
                    found=network,
                    allowed="a network in CIDR notation such as 10.0.0.0/16",
                ) from None
        return networks

    @field_validator("load_balancer_subnets")
    @classmethod
    def _two_zones(cls, subnets: tuple[str, ...]) -> tuple[str, ...]:
        if len(subnets) == 1:
            raise rule_error(
                "a load balancer needs subnets in two Availability Zones",
                found=subnets[0],
                allowed="two or more",
            )
        return subnets

    @model_validator(mode="after")
    def _callers_known(self) -> Self:
        if (self.keys_secret is None) is not self.no_keys:
            raise rule_error(
                "either callers have keys, or everyone in the clients' networks may call",
                found="both keys_secret and no_keys" if self.keys_secret else "neither",
                allowed="keys_secret, or no_keys = true",
            )
        if self.keys_secret and not self.certificate:
            raise rule_error(
                "keys would travel in the clear",
                found="keys_secret without certificate",
                allowed="both, or no_keys = true in a private network",
            )
        if self.public and self.no_keys:
            raise rule_error(
                "a public server without keys answers everyone",
                found="public = true with no_keys = true",
                allowed="keys_secret and certificate, or public = false",
            )
        if (self.certificate is None) is not (self.domain_name is None):
            raise rule_error(
                "callers check the certificate against the name by which they call",
                found="certificate without domain_name"
                if self.certificate
                else "domain_name without certificate",
                allowed="both, or neither",
            )
        return self

    @model_validator(mode="after")
    def _tasks_possible(self) -> Self:
        lowest, highest, step = _MEMORY[self.cpu]
        fits = lowest <= self.memory_mb <= highest and (self.memory_mb - lowest) % step == 0
        if not fits or (self.cpu, self.memory_mb) == _NOT_OFFERED:
            steps = (
                "512, 1024 or 2048"
                if self.cpu == 256
                else f"{lowest} to {highest} in steps of {step}"
            )
            raise rule_error(
                "Fargate offers no such task",
                found=f"memory_mb = {self.memory_mb} with cpu = {self.cpu}",
                allowed=f"memory_mb of {steps}, or another cpu",
            )
        if self.minimum > self.maximum:
            raise rule_error(
                "the lowest number of tasks exceeds the highest",
                found=f"minimum = {self.minimum}, maximum = {self.maximum}",
                allowed="minimum up to maximum",
            )
        return self
