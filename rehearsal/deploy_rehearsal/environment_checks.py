"""Compare the deployed settings with the environment's file."""

import json
from typing import Any

from deploy_rehearsal.deployed import DeployedStacks
from deploy_rehearsal.emulator import Emulator
from embedding_kit.environment import Environment
from embedding_kit.prices import DEFAULT_REGION, load_prices
from embedding_kit.settings import Provisioned, SnapStart
from embedding_kit.standing_cost import default_budget
from image_rehearsal.report import Report

__all__ = ["check_environment"]


def check_environment(
    report: Report, aws: Emulator, deployed: DeployedStacks, environment: Environment
) -> None:
    """Check each setting that an API returns."""
    name = deployed.outputs["AliasArn"].split(":")[-2]
    client = aws.client("lambda")
    found = client.get_function(FunctionName=name, Qualifier="live")
    configuration = found["Configuration"]
    settings = environment.function
    _expect(report, "memory_mb", settings.memory_mb, configuration["MemorySize"])
    _expect(report, "timeout", settings.timeout.total_seconds(), configuration["Timeout"])
    storage = configuration.get("EphemeralStorage", {}).get("Size", 512)
    _expect(report, "ephemeral_storage_mb", settings.ephemeral_storage_mb, storage)
    whole = client.get_function(FunctionName=name)
    reserved = whole.get("Concurrency", {}).get("ReservedConcurrentExecutions")
    _expect(report, "reserved_concurrency", settings.reserved_concurrency, reserved)
    _expect(report, "architecture", ["arm64"], configuration["Architectures"])
    logging = configuration.get("LoggingConfig", {})
    found_logging = (logging.get("LogFormat"), logging.get("SystemLogLevel"))
    _expect(report, "logs", ("JSON", "INFO"), found_logging)
    group = aws.client("logs").describe_log_groups(logGroupNamePrefix=logging["LogGroup"])
    _expect(
        report,
        "log_retention_days",
        settings.log_retention_days,
        group["logGroups"][0]["retentionInDays"],
    )
    tags = whole.get("Tags", {})
    wanted = {"EmbeddingKit": environment.name, **environment.tags}
    _expect(report, "tags for cost allocation", wanted, {key: tags.get(key) for key in wanted})
    _expect(
        report,
        "cold_start snapstart",
        isinstance(environment.cold_start, SnapStart),
        configuration.get("SnapStart", {}).get("ApplyOn") == "PublishedVersions",
    )
    _check_capacity(report, aws, environment, name)
    _check_callers(report, client, environment, name)
    _check_budget(report, aws, environment)


def _check_capacity(report: Report, aws: Emulator, environment: Environment, name: str) -> None:
    targets = aws.client("application-autoscaling").describe_scalable_targets(
        ServiceNamespace="lambda", ResourceIds=[f"function:{name}:live"]
    )["ScalableTargets"]
    found = [(t["MinCapacity"], t["MaxCapacity"]) for t in targets]
    start = environment.cold_start
    wanted = [(start.minimum, start.maximum)] if isinstance(start, Provisioned) else []
    _expect(report, "cold_start provisioned, minimum and maximum", wanted, found)


def _check_callers(report: Report, client: Any, environment: Environment, name: str) -> None:
    count = len(environment.callers.named)
    try:
        policy = json.loads(client.get_policy(FunctionName=name, Qualifier="live")["Policy"])
    except client.exceptions.ResourceNotFoundException:
        policy = {"Statement": []}
    actions = sorted(statement["Action"] for statement in policy["Statement"])
    wanted = sorted(["lambda:InvokeFunction", "lambda:InvokeFunctionUrl"] * count)
    _expect(report, "callers: two permissions each, on the alias", wanted, actions)
    try:
        unqualified = json.loads(client.get_policy(FunctionName=name)["Policy"])["Statement"]
    except client.exceptions.ResourceNotFoundException:
        unqualified = []
    bare = [s["Action"] for s in unqualified if s["Resource"].endswith(f":function:{name}")]
    _expect(report, "callers: nothing on the function itself", [], bare)


def _check_budget(report: Report, aws: Emulator, environment: Environment) -> None:
    found = aws.client("budgets").describe_budgets(AccountId=aws.account).get("Budgets", [])
    amounts = [float(budget["BudgetLimit"]["Amount"]) for budget in found]
    wanted = []
    if environment.budget:
        prices = load_prices(environment.region or DEFAULT_REGION)
        wanted = [environment.budget.monthly_usd or default_budget(environment, prices)]
    _expect(report, "budget, US dollars a month", wanted, amounts)


def _expect(report: Report, setting: str, wanted: object, found: object) -> None:
    report.check(
        f"setting {setting}",
        f"is {wanted}",
        wanted == found,
        by="the environment's file; the service's API",
        found=found,
    )
