"""The server's options: flags, or environment variables, parsed once into one value.

Each field of `ServerOptions` is a flag: `max_queue_tokens` is `--max-queue-tokens`, and the
variable EMBEDDING_SERVER_MAX_QUEUE_TOKENS. A flag wins over its variable.
"""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn

from embedder.core.errors import SettingsError

PREFIX: Final = "EMBEDDING_SERVER_"
#: The default of `max_queue_tokens`, for one worker.
QUEUE_TOKENS_PER_WORKER: Final = 64 * 256
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
#: These have another variable than the flag's.
_VARIABLES = {"otlp_endpoint": "OTEL_EXPORTER_OTLP_ENDPOINT"}
#: Not a flag: the command line of a process is there for all to read.
_SECRET = "keys"  # noqa: S105 - a field's name


def _flag(
    text: str, default: Any, parser: type | None = None, *, minimum: float = 0, maximum: float = 1e9
) -> Any:
    """Return a field with what its flag needs: help, type (str, int, float or bool) and bounds."""
    flag = {"help": text, "type": parser or type(default), "minimum": minimum, "maximum": maximum}
    return dataclasses.field(default=default, metadata=flag)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Options of serving. The model's own settings are those of `embedder.core.settings`."""

    host: str = _flag("Address to listen at; 0.0.0.0 is every one.", "0.0.0.0")  # noqa: S104
    port: int = _flag("Port to listen at; 0 takes a free one.", 8080, maximum=65535)
    keep_alive: int = _flag(
        "Seconds that an idle connection stays open; the load balancer's own time must be shorter, "
        "or it sends requests into connections that are being closed, and answers 502.",
        75,
        minimum=1,
    )
    header_timeout: float = _flag("Seconds for a request's headers to arrive.", 10.0, minimum=0.001)
    body_timeout: float = _flag("Seconds for a request's body to arrive.", 30.0, minimum=0.001)
    workers: int | None = _flag(
        "Threads that run the model. Default: the cores that the container may use.",
        None,
        int,
        minimum=1,
        maximum=1024,
    )
    max_batch_tokens: int = _flag(
        "Most tokens that are run together, padding included.", 256, minimum=1
    )
    max_queue_tokens: int | None = _flag(
        "Tokens of a key that may wait, padding included; while as many wait, its requests get "
        "429. Default: 16384 for each worker.",
        None,
        int,
        minimum=1,
    )
    max_queue_seconds: float = _flag(
        "Seconds of a key's work that may wait, as measured; while as much waits, its requests get "
        "429.",
        10.0,
        minimum=0.001,
    )
    max_concurrent_requests: int = _flag(
        "Most requests of a key at the same time; one beyond gets 429.",
        512,
        minimum=1,
        maximum=65535,
    )
    timeout: float = _flag(
        "Seconds after which a request that is not done gets 503.", 30.0, minimum=0.001
    )
    keys_file: str | None = _flag(
        "File with a line name:sha256 for each API key, as `embedding-kit embedder.server.new_key` "
        f"prints it. A change is read without a restart. The variable {PREFIX}KEYS may have the "
        "lines themselves instead.",
        None,
        str,
    )
    keys: str | None = dataclasses.field(default=None, repr=False, metadata={"type": str})
    no_keys: bool = _flag(
        "Answer everyone who reaches the port. Without keys this is required.", False
    )
    no_metrics: bool = _flag("Serve no metrics at /metrics.", False)
    metrics_key: bool = _flag("Ask for an API key at /metrics, too.", False)
    otlp_endpoint: str | None = _flag(
        "Send traces to this OpenTelemetry collector by OTLP over HTTP, such as "
        "http://127.0.0.1:4318. Default: no traces.",
        None,
        str,
    )
    drain_accept: float = _flag(
        "Seconds after SIGTERM in which new requests are still answered, while /ready says 503 and "
        "load balancers take the server out.",
        5.0,
    )
    drain: float = _flag(
        "Seconds from SIGTERM to the end at most; what is not done a second before it gets 503.",
        25.0,
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message[:1].upper()}{message[1:]}. See --help for what is allowed.")


def parse(arguments: Sequence[str], environ: Mapping[str, str]) -> ServerOptions:
    """Parse the command line, and the environment for what it leaves out.

    A `SettingsError` names both the flag and the variable that are unknown or have a bad value.
    """
    fields = dataclasses.fields(ServerOptions)
    variables = {
        field.name: _VARIABLES.get(field.name, PREFIX + field.name.upper()) for field in fields
    }
    unknown = {name for name in environ if name.startswith(PREFIX)} - {*variables.values()}
    if unknown:
        raise SettingsError(
            f"Unknown environment variables {', '.join(sorted(unknown))}. Allowed: "
            f"{', '.join(variables.values())}."
        )
    parser = _Parser(
        prog="embedding-kit embedder.server",
        description="Serve the embedding model over HTTP, for many requests at the same time.",
        epilog=f"Each flag is also an environment variable: --max-queue-tokens is {PREFIX}"
        "MAX_QUEUE_TOKENS, and --otlp-endpoint is OTEL_EXPORTER_OTLP_ENDPOINT. A flag wins over "
        "its variable. The model's own settings are the variables of the Lambda function: "
        "EMBEDDING_ARTIFACT, EMBEDDING_TRUNCATE and so on.",
        allow_abbrev=False,
    )
    parser.set_defaults(**{_SECRET: environ.get(variables[_SECRET]) or None})
    for field in fields:
        if field.name != _SECRET:
            _add(parser, field, variables[field.name], environ)
    options = ServerOptions(**vars(parser.parse_args(list(arguments))))
    if options.drain_accept > options.drain:
        raise SettingsError(
            "--drain-accept is a part of --drain, so it must not be longer; found "
            f"{options.drain_accept:g} and {options.drain:g} s."
        )
    return options


def _add(
    parser: argparse.ArgumentParser,
    field: "dataclasses.Field[Any]",
    variable: str,
    environ: Mapping[str, str],
) -> None:
    """Add a field's flag. argparse parses the variable's text as it does the flag's."""
    option, value_type = "--" + field.name.replace("_", "-"), field.metadata["type"]
    parsed = partial(_value, field=field, name=f"{option} ({variable})")
    default = environ.get(variable) or field.default
    text = field.metadata["help"].replace("%", "%%")
    if value_type is bool:
        default = parsed(default) if isinstance(default, str) else default
        parser.add_argument(option, action="store_true", default=default, help=text)
        return
    shown = "" if field.default is None else f" (default: {field.default})"
    metavar = {int: "N", float: "SECONDS", str: "TEXT"}[value_type]
    parser.add_argument(option, type=parsed, default=default, metavar=metavar, help=text + shown)


def _value(text: str, *, field: "dataclasses.Field[Any]", name: str) -> Any:
    """Return the value of a flag or a variable; an empty one is the default."""
    value_type, minimum, maximum = (field.metadata[key] for key in ("type", "minimum", "maximum"))
    if not text:
        return field.default
    if value_type is str:
        return text
    if value_type is bool:
        if text.lower() in (*_YES, *_NO):
            return text.lower() in _YES
        raise SettingsError(f"{name} must be true or false; found {text!r}.")
    try:
        number = value_type(text)
    except ValueError:
        number = None
    if number is None or not minimum <= number <= maximum:
        bounds = f"from {minimum:g} " + ("up" if maximum == 1e9 else f"to {maximum:g}")
        numbers = "a whole number" if value_type is int else "a number"
        raise SettingsError(f"{name} must be {numbers} {bounds}; found {text!r}.")
    return number
