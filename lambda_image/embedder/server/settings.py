"""The server's settings: flags, or environment variables, parsed once into one value.

Each field of `ServerSettings` is a flag: `max_queue_tokens` is `--max-queue-tokens`, and the
variable EMBEDDING_SERVER_MAX_QUEUE_TOKENS. A flag wins over its variable.
"""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from embedder.core.errors import SettingsError

PREFIX: Final = "EMBEDDING_SERVER_"
#: The default of `max_queue_tokens`, for one worker.
QUEUE_TOKENS_PER_WORKER: Final = 64 * 256
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class _Flag(NamedTuple):
    group: str
    help: str
    #: str, int, float or bool.
    kind: type
    default: Any
    least: float = 0
    most: float = float("inf")
    #: Another variable's name than the flag's.
    variable: str | None = None
    #: Not a flag: the command line of a process is there for all to read.
    secret: bool = False


def _flag(group: str, text: str, default: Any, kind: type | None = None, **more: Any) -> Any:
    flag = _Flag(group, text, kind or type(default), default, **more)
    return dataclasses.field(default=default, metadata={"flag": flag}, repr=not flag.secret)


_NETWORK, _QUEUE, _CALLERS, _SHUTDOWN = "Network", "Queue and model", "Callers", "Shutdown"
_OBSERVATION = "Metrics and traces"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How to serve. The model's own settings are those of `embedder.core.settings`."""

    host: str = _flag(_NETWORK, "Address to listen at; 0.0.0.0 is every one.", "0.0.0.0")  # noqa: S104
    port: int = _flag(_NETWORK, "Port to listen at; 0 takes a free one.", 8080, most=65535)
    keep_alive: int = _flag(
        _NETWORK,
        "Seconds that an idle connection stays open. It must be longer than the load balancer's "
        "own time (60 s for an Application Load Balancer), or that sends requests into "
        "connections that are being closed, and answers 502.",
        75,
        least=1,
    )
    header_timeout: float = _flag(
        _NETWORK, "Seconds for a request's headers to arrive.", 10.0, least=0.001
    )
    body_timeout: float = _flag(
        _NETWORK, "Seconds for a request's body to arrive.", 30.0, least=0.001
    )

    workers: int | None = _flag(
        _QUEUE,
        "Threads that run the model. Default: the cores that the container may use.",
        None,
        int,
        least=1,
        most=1024,
    )
    max_batch_tokens: int = _flag(
        _QUEUE, "Most tokens that are run together, padding included.", 256, least=1
    )
    max_queue_tokens: int | None = _flag(
        _QUEUE,
        "Most tokens that may wait, padding included; a request beyond gets 429, unless its key "
        "has less than an equal part of them. Default: 16384 for each worker.",
        None,
        int,
        least=1,
    )
    max_queue_seconds: float = _flag(
        _QUEUE,
        "Most seconds of work that may wait, as measured; a request beyond gets 429.",
        10.0,
        least=0.001,
    )
    max_concurrent_requests: int = _flag(
        _QUEUE,
        "Most requests at the same time; one beyond gets 429, unless its key has less than an "
        "equal part of them.",
        512,
        least=1,
        most=65535,
    )
    timeout: float = _flag(
        _QUEUE, "Seconds after which a request that is not done gets 503.", 30.0, least=0.001
    )

    keys_file: str | None = _flag(
        _CALLERS,
        "File with a line name:sha256 for each API key, as `embedding-kit embedder.server.new_key` "
        f"prints it. A change is read without a restart. The variable {PREFIX}KEYS may have the "
        "lines themselves instead.",
        None,
        str,
    )
    keys: str | None = _flag(_CALLERS, "The lines of the API keys.", None, str, secret=True)
    no_keys: bool = _flag(
        _CALLERS, "Answer everyone who reaches the port. Without keys this is required.", False
    )

    no_metrics: bool = _flag(_OBSERVATION, "Serve no metrics at /metrics.", False)
    metrics_key: bool = _flag(_OBSERVATION, "Ask for an API key at /metrics, too.", False)
    otlp_endpoint: str | None = _flag(
        _OBSERVATION,
        "Send traces to this OpenTelemetry collector by OTLP over HTTP, such as "
        "http://127.0.0.1:4318. Default: no traces.",
        None,
        str,
        variable="OTEL_EXPORTER_OTLP_ENDPOINT",
    )

    drain_accept: float = _flag(
        _SHUTDOWN,
        "Seconds after SIGTERM in which new requests are still answered, while /ready says 503 and "
        "load balancers take the server out.",
        5.0,
    )
    drain: float = _flag(
        _SHUTDOWN,
        "Seconds from SIGTERM to the end at most; what is not done a second before it gets 503.",
        25.0,
    )


_FLAGS: Final[Mapping[str, _Flag]] = {
    field.name: field.metadata["flag"] for field in dataclasses.fields(ServerSettings)
}


def parse(arguments: Sequence[str], environ: Mapping[str, str]) -> ServerSettings:
    """Parse the command line, and the environment for what it leaves out.

    A `SettingsError` names both the flag and the variable that are unknown or have a bad value.
    """
    found = vars(_parser().parse_args(list(arguments)))
    names = {name: flag.variable or PREFIX + name.upper() for name, flag in _FLAGS.items()}
    unknown = sorted(
        name for name in environ if name.startswith(PREFIX) and name not in names.values()
    )
    if unknown:
        raise SettingsError(
            f"Unknown environment variables {', '.join(unknown)}. Allowed: "
            f"{', '.join(names.values())}."
        )
    values = {}
    for name, flag in _FLAGS.items():
        # An empty flag, too, wins over its variable.
        text = environ.get(names[name]) if found.get(name) is None else found[name]
        if text:
            values[name] = _value(text, f"{_option(name)} ({names[name]})", flag)
    settings = ServerSettings(**values)
    if settings.drain_accept > settings.drain:
        raise SettingsError(
            "--drain-accept is a part of --drain, so it must not be longer; found "
            f"{settings.drain_accept:g} and {settings.drain:g} s."
        )
    return settings


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message[:1].upper()}{message[1:]}. See --help for what is allowed.")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="embedding-kit embedder.server",
        description="Serve the embedding model over HTTP, for many requests at the same time.",
        epilog=f"Each flag is also an environment variable: --max-queue-tokens is {PREFIX}"
        "MAX_QUEUE_TOKENS, and --otlp-endpoint is OTEL_EXPORTER_OTLP_ENDPOINT. A flag wins over "
        "its variable. The model's own settings are the variables of the Lambda function: "
        "EMBEDDING_ARTIFACT, EMBEDDING_TRUNCATE and so on.",
        allow_abbrev=False,
    )
    groups = {
        name: parser.add_argument_group(name)
        for name in dict.fromkeys(flag.group for flag in _FLAGS.values())
    }
    for name, flag in _FLAGS.items():
        text = flag.help.replace("%", "%%")
        if flag.secret:
            continue
        if flag.kind is bool:
            groups[flag.group].add_argument(
                _option(name), action="store_const", const="true", help=text
            )
            continue
        shown = "" if flag.default is None else f" (default: {flag.default})"
        metavar = {int: "N", float: "SECONDS", str: "TEXT"}[flag.kind]
        groups[flag.group].add_argument(_option(name), metavar=metavar, help=text + shown)
    return parser


def _value(text: str, name: str, flag: _Flag) -> Any:
    if flag.kind is bool:
        if text.lower() in (*_YES, *_NO):
            return text.lower() in _YES
        raise SettingsError(f"{name} must be true or false; found {text!r}.")
    if flag.kind is str:
        return text
    kind = "a whole number" if flag.kind is int else "a number"
    bounds = f"from {flag.least:g} " + ("up" if flag.most == float("inf") else f"to {flag.most:g}")
    try:
        number = flag.kind(text)
    except ValueError:
        number = None
    if number is None or not flag.least <= number <= min(flag.most, 1e9):
        raise SettingsError(f"{name} must be {kind} {bounds}; found {text!r}.")
    return number


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
