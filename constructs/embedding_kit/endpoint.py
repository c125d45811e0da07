"""The endpoint: function, version, alias `live`, and the alias's function URL with IAM auth."""

import re
from typing import cast

import jsii
from aws_cdk import Annotations, Names, Stack, TimeZone
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from embedding_kit.endpoint_interface import IEmbeddingEndpoint, ImportedEndpoint
from embedding_kit.endpoint_metrics import EndpointMetrics, add_metric_filters
from embedding_kit.function import AliasResources, EmbeddingFunction
from embedding_kit.hosting import Hosting
from embedding_kit.programs import contract
from embedding_kit.release import GuardedRelease, ReleaseCheck
from embedding_kit.settings import (
    AlarmSettings,
    Callers,
    ColdStart,
    Cors,
    Experiment,
    FunctionSettings,
    ModelSettings,
    Provisioned,
    Release,
    SnapStart,
)
from embedding_kit.settings.base import rule_error
from embedding_kit.settings.callers import PREFIX, PREFIX_FORM, SIGNING_HEADERS
from embedding_kit.settings.compatibility import check_endpoint, quota_notes
from embedding_kit.vector_index import IVectorIndex


def _principal(name: str) -> iam.IPrincipal:
    """Return the principal of a permission: a role or a user, the organization, or an account."""
    if name.startswith("arn:"):
        return iam.ArnPrincipal(name)
    return iam.OrganizationPrincipal(name) if name.startswith("o-") else iam.AccountPrincipal(name)


def _role_of_units(scope: Construct, callers: Callers) -> iam.Role | None:
    """Create the role that principals of the organizational units assume to call.

    A permission of Lambda has a condition for an organization, and none for a part of one; the
    trust policy of a role can have it.
    """
    if not callers.units:
        return None
    below = {"aws:PrincipalOrgPaths": [f"{path}/*" for path in callers.units]}
    return iam.Role(
        scope,
        "CallerRole",
        assumed_by=iam.AnyPrincipal().with_conditions({"ForAnyValue:StringLike": below}),
        description="Calls the endpoint for accounts of organizational units",
    )


_ALLOWED_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


def _claim_name(scope: Construct, name: str) -> None:
    """Refuse a name that another endpoint of the app uses in the same account and region."""
    if _ALLOWED_NAME.fullmatch(name) is None:
        raise rule_error(
            "an endpoint's name is part of a dashboard's",
            found=name,
            allowed="1 to 100 letters, digits, hyphens and underscores",
        )
    # An empty construct at the app's root records each name, as long as the app exists.
    claimed = f"EmbeddingEndpoint {name} in {Stack.of(scope).environment}"
    root = cast("Construct", scope.node.root)
    if root.node.try_find_child(claimed):
        raise rule_error(
            "an endpoint's name is its metrics' namespace, so two would count as one",
            found=f"two endpoints named {name}",
            allowed="a name for each",
        )
    Construct(root, claimed)


def _scale(endpoint: Construct, alias: lambda_.Alias, settings: Provisioned) -> None:
    """Put the provisioned concurrency of an alias under target tracking and scheduled bounds.

    It sets no static count, which would conflict with autoscaling. The minimum applies as soon as
    the alias is registered. AWS would not scale an alias with weights.

    While a canary or linear release shifts traffic, AWS serves both versions from the allocated
    environments and refuses to change their number, so autoscaling pauses
    (https://docs.aws.amazon.com/lambda/latest/dg/configuring-alias-routing.html).
    """
    target = alias.add_auto_scaling(min_capacity=settings.minimum, max_capacity=settings.maximum)
    if settings.warning is not None:
        Annotations.of(endpoint).add_warning_v2(
            "@embedding-kit/provisioned:targetUtilization", settings.warning
        )
    target.scale_on_utilization(utilization_target=settings.target_utilization)
    for number, entry in enumerate(settings.schedule, start=1):
        target.scale_on_schedule(
            f"Schedule{number}",
            schedule=scaling.Schedule.expression(entry.at),
            time_zone=TimeZone.of(entry.time_zone),
            min_capacity=entry.minimum,
            max_capacity=entry.maximum,
        )


def _unlimited(found: str) -> Exception:
    return rule_error(
        "callers that invoke choose the role in an event, and the other version of an experiment "
        "may have been published without the limits of searches",
        found=f"{found} with such limits",
        allowed="one of them",
    )


#: The alias that callers reach. Its name is part of its ARN, which their policies may name.
LIVE = "live"
#: The alias of an experiment with another URL.
_CANDIDATE = "candidate"
#: The response headers that a web page may read.
_EXPOSED_HEADERS = ["x-request-id", "x-vector-space"]
#: How long a browser may keep the answer to a preflight.
_PREFLIGHT_SECONDS = 3600


@jsii.implements(iam.IGrantable, ec2.IConnectable)
class EmbeddingEndpoint(IEmbeddingEndpoint):
    """A text-embedding endpoint: signed HTTP requests in, vectors out.

    The URL belongs to the alias. A URL of the function itself would bypass provisioned concurrency
    and gradual releases.

    Args:
        model: The model that is served.
        function: Package, memory, time, disk, logs and concurrency. Default: an image with 2,048 MB
            and a timeout of 30 s.
        cold_start: The strategy against cold starts. Default: none, so that execution environments
            are initialized when a request needs one.
        release: How traffic shifts to a new version. Default: all at once after its check.
        experiment: Another published version to compare with. Default: none.
        alarms: The thresholds for `EndpointAlarms` and for the rollback of a release. Default:
            derived from the function's limits.
        name: The name in logs and in the metrics' namespace, unique in account and region. Default:
            derived from the construct's path.
        hosting: VPC, key and tracing. Default: no VPC, no key, no traces.
        role: An execution role. It is granted the function's permissions, except with
            `role.without_policy_updates()`. An existing role's name, after its path, leaves the
            role unchanged, and synth writes the permissions that it needs into
            `iam-policy-report.txt` in the cloud assembly. Default: a new role.
        log_group: A log group that only this function writes to. Default: a new one with the
            retention in `function`.

    Attributes:
        function: The function behind the alias.
        alias: The alias `live`.
        alias_arn: The ARN of the alias `live`.
        url: The URL of the alias. It accepts only requests that a granted principal has signed.
        function_url: The construct of that URL.
        log_group: The function's log group.
        check: The check of each version before the alias moves to it.
        deployment_group: CodeDeploy's deployment group; None with a weighted experiment.
        candidate: An experiment's own alias; None without one.
        candidate_url: The URL of that alias; None without one.
        name: The name in logs and in the metrics' namespace.
        metrics: All metrics of the endpoint.
        settings: The function's settings.
        cold_start: The strategy against cold starts; None for none.
        alarm_settings: The alarms' thresholds, for releases and for `EndpointAlarms`.
        release: How a new version gets the traffic.
        caller_role: The role that principals of organizational units assume to call; None without
            such units.
        is_invoked: Whether callers may use Lambda's Invoke besides the URL.

    Raises:
        ValueError: The settings or these properties are incompatible, or another endpoint of the
            app has the same name in the same account and region.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        model: ModelSettings,
        function: FunctionSettings | None = None,
        cold_start: ColdStart | None = None,
        release: Release | None = None,
        experiment: Experiment | None = None,
        alarms: AlarmSettings | None = None,
        name: str | None = None,
        hosting: Hosting | None = None,
        role: iam.IRole | str | None = None,
        log_group: logs.ILogGroup | None = None,
    ) -> None:
        super().__init__(scope, id)
        self.settings = function or FunctionSettings()
        self.alarm_settings = alarms or AlarmSettings()
        self.cold_start = cold_start
        self.release = release or Release()
        check_endpoint(
            model=model,
            function=self.settings,
            cold_start=self.cold_start,
            release=self.release,
            experiment=experiment,
            alarms=self.alarm_settings,
        )
        for note in quota_notes(self.settings, self.cold_start):
            Annotations.of(self).add_info(note)
        # Metrics of metric filters have no dimension for the endpoint, so each endpoint has its own
        # namespace.
        self.name = name = name or Names.unique_resource_name(self, separator="-", max_length=100)
        _claim_name(self, name)
        namespace = f"EmbeddingKit/{name}"
        hosting = hosting or Hosting()
        self._embedder = EmbeddingFunction(
            self,
            "Embedder",
            model=model,
            settings=self.settings,
            name=name,
            snap_start=isinstance(self.cold_start, SnapStart),
            hosting=hosting,
            role=role,
            log_group=log_group,
        )
        self.function = self._embedder.function
        self.log_group = self._embedder.log_group
        percent = experiment and experiment.percent
        tried = self._experiments_version(experiment)
        self.alias = lambda_.Alias(
            self,
            "Live",
            alias_name=LIVE,
            version=self.function.current_version,
            additional_versions=[lambda_.VersionWeight(version=tried, weight=percent / 100)]
            if tried and percent
            else None,
        )
        self.alias_arn = self.alias.function_arn
        self.function_url = _url(self.alias)
        self.url = self.function_url.url
        self.metrics = EndpointMetrics(self.function, alias_name=LIVE, namespace=namespace)
        add_metric_filters(Construct(self, "Metrics"), self.log_group, namespace)
        if isinstance(self.cold_start, Provisioned):
            _scale(self, self.alias, self.cold_start)
        self.check = ReleaseCheck(
            self,
            "Check",
            alias=self.alias,
            model=model,
            settings=self.settings,
            release=self.release,
            cold_start=self.cold_start,
            experiment=experiment,
            hosting=hosting,
        )
        # CodeDeploy cannot move an alias that has fixed weights.
        self.deployment_group = None if percent else self._make_deployment_group()
        self._urls = [self.function_url]
        self.candidate: lambda_.Alias | None = None
        self.candidate_url: str | None = None
        if tried and not percent:
            self.candidate = lambda_.Alias(self, "Candidate", alias_name=_CANDIDATE, version=tried)
            self._urls.append(_url(self.candidate))
            self.candidate_url = self._urls[1].url
        self._has_experiment = experiment is not None
        self._searchers: dict[str, list[str]] = {}
        self.is_invoked = False
        self.caller_role: iam.Role | None = None
        self.node.add_validation(AliasResources(self.function, self.alias))

    def _experiments_version(self, experiment: Experiment | None) -> lambda_.IVersion | None:
        if experiment is None:
            return None
        return lambda_.Version.from_version_attributes(
            self, "Other", lambda_=self.function, version=str(experiment.version)
        )

    def _make_deployment_group(self) -> codedeploy.LambdaDeploymentGroup:
        return GuardedRelease(
            self,
            "Release",
            alias=self.alias,
            release=self.release,
            metrics=self.metrics,
            alarms=self.alarm_settings,
            timeout=self.settings.timeout,
        ).deployment_group

    def add_callers(self, callers: Callers) -> None:
        """Let principals call, besides those of `grant_invoke_url` and `grant_invoke`.

        Call it once, and before the alarms are created: they count what callers may use.

        Args:
            callers: The principals. Default without this method: none.
        """
        if callers.invoke and self._searchers:
            raise _unlimited("invoke = true")
        self.is_invoked = callers.invoke
        self.caller_role = _role_of_units(self, callers)
        grantees: list[iam.IGrantable] = [_principal(name) for name in callers.named]
        for grantee in [*grantees, self.caller_role] if self.caller_role else grantees:
            self.grant_invoke_url(grantee)
            if callers.invoke:
                self.grant_invoke(grantee)
        for arn, prefix in callers.searchers.items():
            self._let_search(arn, prefix)

    def add_cors(self, cors: Cors) -> None:
        """Let web pages call each URL from a browser; the requests must still be signed.

        Args:
            cors: The origins of the pages. Default without this method: none.
        """
        if "*" in cors.origins:
            Annotations.of(self).add_warning_v2(
                "embedding-kit:anyOrigin",
                'origins = ["*"] lets every web page call from the browsers of your callers; the '
                "requests are still signed. List the origins of your pages.",
            )
        # Lambda answers preflight requests and adds the CORS headers to all responses, so the
        # embedder must not. OPTIONS is not a method here: the API accepts names of up to six
        # letters.
        allowed = lambda_.CfnUrl.CorsProperty(
            allow_origins=list(cors.origins),
            allow_methods=["GET", "POST"],
            allow_headers=list(SIGNING_HEADERS),
            expose_headers=_EXPOSED_HEADERS,
            max_age=_PREFLIGHT_SECONDS,
        )
        for url in self._urls:
            if isinstance(url.node.default_child, lambda_.CfnUrl):
                url.node.default_child.cors = allowed

    def add_vector_index(self, index: IVectorIndex) -> None:
        """Let `POST /similar` search an index in S3 Vectors.

        Args:
            index: The index, which the function may then query. Default without this method: only
                an index in the image.
        """
        self._embedder.add_vector_index(index)

    @staticmethod
    def from_embedding_endpoint_attributes(
        scope: Construct, id: str, *, alias_arn: str, url: str, name: str
    ) -> IEmbeddingEndpoint:
        """Import an endpoint of another stack or app, to call it and to read its metrics.

        The metrics are those of the stack's own account and region, unless you pass `account` or
        `region` with their options.

        Args:
            scope: The parent.
            id: The construct's id.
            alias_arn: Its `alias_arn`, such as the output `AliasArn` of the endpoint's stack.
            url: Its `url`, such as the output `Url`.
            name: Its `name`, which is the environment's name.

        Raises:
            ValueError: `alias_arn` is not the ARN of an alias.
        """
        return ImportedEndpoint(scope, id, alias_arn=alias_arn, url=url, name=name)

    @property
    def grant_principal(self) -> iam.IPrincipal:
        """The function's role, which other constructs grant to, as in `key.grant(endpoint)`."""
        return self.function.grant_principal

    @property
    def connections(self) -> ec2.Connections:
        """The function's security groups, as in `database.connections.allow_from(endpoint, …)`.

        Raises:
            PydanticCustomError: A `ValueError`; the function is in no VPC.
        """
        if not self.function.is_bound_to_vpc:
            raise rule_error(
                "only a function in a VPC has security groups",
                found="an endpoint without a VPC",
                allowed="hosting=Hosting(vpc=…) of the endpoint",
            )
        return self.function.connections

    def grant_invoke_url(self, grantee: iam.IGrantable) -> iam.Grant:
        """Grant a principal permission to call the URL of each alias, and nothing else."""
        granted = [url.grant_invoke_url(grantee) for url in self._urls]
        return granted[0].combine(granted[1]) if len(granted) > 1 else granted[0]

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Grant a principal permission to call each alias by Lambda's Invoke, and nothing else."""
        granted = self.alias.grant_invoke(grantee)
        return granted.combine(self.candidate.grant_invoke(grantee)) if self.candidate else granted

    def grant_search(self, role: iam.IRole, *, prefix: str = "") -> iam.Grant:
        """Grant a role permission to call, and to search the documents below a prefix.

        From the first of these grants on, callers without one may search nothing. The function
        reads the caller's role from the event of its URL, so whoever may invoke the function
        directly can search everything.

        Args:
            role: The role.
            prefix: The first folder of the documents and a slash, such as `acme/`. Default:
                everything.

        Raises:
            PydanticCustomError: A `ValueError`; the prefix is another one, the role has one
                already, or the endpoint has an experiment or callers that invoke.
        """
        if prefix and not re.fullmatch(PREFIX, prefix):
            raise rule_error("a search is limited to a folder", found=prefix, allowed=PREFIX_FORM)
        self._let_search(role.role_arn, prefix)
        return self.grant_invoke_url(role)

    def _let_search(self, arn: str, prefix: str) -> None:
        if self.is_invoked or self._has_experiment:
            raise _unlimited("invoke = true" if self.is_invoked else "an experiment")
        if any(arn in arns for arns in self._searchers.values()):
            raise rule_error("a caller has one limit", found=f"{arn} twice", allowed="once")
        self._searchers.setdefault(prefix, []).append(arn)
        limits = Stack.of(self).to_json_string(self._searchers)
        self.function.add_environment(contract().variables["search_prefixes"], limits)


def _url(alias: lambda_.Alias) -> lambda_.FunctionUrl:
    return alias.add_function_url(
        auth_type=lambda_.FunctionUrlAuthType.AWS_IAM, invoke_mode=lambda_.InvokeMode.BUFFERED
    )
