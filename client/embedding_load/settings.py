"""What a user asks of a test: the options of `embed load`, parsed."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options; see `arguments` for what each means."""

    url: str
    rate: float
    shape: str
    minutes: float
    #: None for the default, which depends on the model.
    tokens: tuple[int, int] | None
    seed: int
    requests: int
    budget_usd: float
    yes: bool
    connections: int
    timeout: float
    sign: bool
    api_key_env: str | None
    allow_plain_http: bool
    profile: str | None
    region: str | None
    environment: str | None
    memory_mb: int | None
    milliseconds: float | None
    slower: float
    json: bool
    report: Path
