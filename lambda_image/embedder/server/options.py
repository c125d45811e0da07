"""The server's options: flags, or environment variables, parsed once into one value.

A field of `ServerOptions` with a help text is a flag: `max_queue_seconds` is `--max-queue-seconds`,
and the variable EMBEDDING_SERVER_MAX_QUEUE_SECONDS. A flag wins over its variable.
"""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn

from embedder.core.errors import SettingsError

PREFIX: Final = "EMBEDDING_SERVER_"
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


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
        f"File with a line name:sha256 for each API key. The variable {PREFIX}KEYS may have the "
        "lines themselves instead.",
        None,
        str,
    )
    no_keys: bool = _flag(
        "Answer everyone who reaches the port. Without keys this is required.", False
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
    #: No flag, as the command line of a process is there for all to read.
    keys: str | None = dataclasses.field(default=None, repr=False)
    #: OpenTelemetry's own variable: its SDK reads it, too.
    otlp_endpoint: str | None = None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message[:1].upper()}{message[1:]}. See --help for what is allowed.")


def parse(arguments: Sequence[str], environ: Mapping[str, str]) -> ServerOptions:
    """Parse the command line, and the environment for what it leaves out.

    A `SettingsError` names both the flag and the variable that are unknown or have a bad value.
    """
    flags = {
        PREFIX + field.name.upper(): field
        for field in dataclasses.fields(ServerOptions)
        if field.metadata
    }
    keys = f"{PREFIX}KEYS"
    unknown = {name for name in environ if name.startswith(PREFIX)} - {*flags, keys}
    if unknown:
        raise SettingsError(
            f"Unknown environment variables {', '.join(sorted(unknown))}. Allowed: "
            f"{', '.join([*flags, keys])}."
        )
    parser = _Parser(
        prog="embedding-kit embedder.server",
        description="Serve the embedding model over HTTP, for many requests at the same time.",
        epilog=f"Each flag is also an environment variable: --max-queue-seconds is {PREFIX}"
        "MAX_QUEUE_SECONDS. A flag wins over its variable. OTEL_EXPORTER_OTLP_ENDPOINT turns on "
        "traces. The model's own settings are the variables of the Lambda function: "
        "EMBEDDING_ARTIFACT, EMBEDDING_TRUNCATE and so on.",
        allow_abbrev=False,
    )
    parser.set_defaults(
        keys=environ.get(keys) or None,
        otlp_endpoint=environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None,
    )
    for variable, field in flags.items():
        _add(parser, field, variable, environ.get(variable, ""))
    options = ServerOptions(**vars(parser.parse_args(list(arguments))))
    if options.drain_accept > options.drain:
        raise SettingsError(
            "--drain-accept is a part of --drain, so it must not be longer; found "
            f"{options.drain_accept:g} and {options.drain:g} s."
        )
    return options


def _add(
    parser: argparse.ArgumentParser, field: "dataclasses.Field[Any]", variable: str, text: str
) -> None:
    """Add a field's flag, whose default is the text of its variable, or the field's."""
    option, value_type = "--" + field.name.replace("_", "-"), field.metadata["type"]
    parsed = partial(_value, field=field, name=f"{option} ({variable})")
    if value_type is bool:
        parser.add_argument(
            option, action="store_true", default=parsed(text), help=field.metadata["help"]
        )
        return
    shown = "" if field.default is None else f" (default: {field.default})"
    parser.add_argument(
        option,
        type=parsed,
        # argparse parses a default that is a text as it does the flag's.
        default=text or field.default,
        metavar={int: "N", float: "SECONDS", str: "TEXT"}[value_type],
        help=field.metadata["help"] + shown,
    )


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
