"""What the cost model takes for granted about a function that it sees only from outside."""

from dataclasses import dataclass
from pathlib import Path

from embedding_client.errors import ConfigurationError
from embedding_costs.duration import Speed
from embedding_costs.errors import CostError
from embedding_costs.measured import catalog_speed
from embedding_kit.environment import Environment
from embedding_kit.environment_file import EnvironmentFileError, load_environment
from embedding_kit.prices import Prices, load_prices
from embedding_kit.settings import FunctionSettings, Model, Provisioned, SnapStart
from embedding_load.bill import Bill, bill_of
from embedding_load.settings import Settings

__all__ = ["Assumptions", "assume", "environment_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """The function behind an endpoint.

    Attributes:
        bill: Its prices and times.
        speed: How long a text takes on one core.
        function: Its size.
        prices: The prices of its region.
        provisioned: Whether it keeps environments ready, so that few requests meet a cold start.
    """

    bill: Bill
    speed: Speed
    function: FunctionSettings
    prices: Prices
    provisioned: bool


def environment_of(settings: Settings) -> Environment | None:
    """Load the environment's file, from `environments/` in the working directory.

    Raises:
        ConfigurationError: There is no such file, or a setting is wrong.
    """
    if settings.environment is None:
        return None
    try:
        return load_environment(settings.environment, folder=Path("environments").resolve())
    except EnvironmentFileError as error:
        raise ConfigurationError(str(error)) from None


def assume(
    settings: Settings,
    environment: Environment | None,
    model: str,
    *,
    tokens: tuple[int, int],
    region: str,
    gateway: bool,
) -> Assumptions:
    """Return what the cost of a request depends on.

    Args:
        settings: The user's choices.
        environment: The environment; its memory, threads and timeout.
        model: The name of the endpoint's model.
        tokens: The fewest and the most tokens of a request.
        region: The region that requests are signed for; the environment's has priority.
        gateway: Whether API Gateway is in front of the function.

    Raises:
        ConfigurationError: There are no measured times of the model.
    """
    function = environment.function if environment else FunctionSettings()
    if settings.memory_mb is not None:
        function = function.model_copy(update={"memory_mb": settings.memory_mb})
    kind = environment.cold_start if environment else None
    prices = load_prices((environment.region if environment else None) or region)
    speed = _speed(settings, environment, model, tokens)
    return Assumptions(
        bill=bill_of(
            prices,
            speed=speed,
            memory_mb=function.memory_mb,
            threads=function.threads,
            timeout=function.timeout.total_seconds(),
            restores=isinstance(kind, SnapStart),
            gateway=gateway,
        ),
        speed=speed,
        function=function,
        prices=prices,
        provisioned=isinstance(kind, Provisioned),
    )


def _speed(
    settings: Settings, environment: Environment | None, name: str, tokens: tuple[int, int]
) -> Speed:
    if settings.milliseconds is not None:
        # One time for all lengths, as the user gives it.
        points = tuple((count, settings.milliseconds) for count in dict.fromkeys(tokens))
        return Speed(points=points, source="--milliseconds", slower=settings.slower)
    try:
        model = environment.model if environment else Model(name=name)
        return catalog_speed(model, slower=settings.slower)
    except (CostError, ValueError):  # pydantic's error is a ValueError: no name of the catalog
        raise ConfigurationError(
            f"There are no measured times of {name}, so its cost cannot be estimated. Give "
            "--milliseconds, the time of one request on one core."
        ) from None
