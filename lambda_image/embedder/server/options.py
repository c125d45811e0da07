"""The server's options: flags, or environment variables, parsed once into one value.

A field of `ServerOptions` with a help text is a flag: `max_queue_seconds` is `--max-queue-seconds`,
and the variable EMBEDDING_SERVER_MAX_QUEUE_SECONDS.
"""

import argparse
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn

from embedder.core.errors import SettingsError

PREFIX: Final = "EMBEDDING_SERVER_"
_KEYS: Final = f"{PREFIX}KEYS"


def _boolean(text: str, name: str) -> bool:
    if text in {"true", "false"}:
        return text == "true"
    raise SettingsError(f"{name} must be true or false; found {text!r}.")


def _number(number_type: type, minimum: float, maximum: float = 1e9) -> Callable[[str, str], Any]:
    """Return the parser of a number, an int or a float with these bounds."""
    numbers = "a whole number" if number_type is int else "a number"
    bounds = f"from {minimum:g} " + ("up" if maximum == 1e9 else f"to {maximum:g}")

    def parsed(text: str, name: str) -> Any:
        try:
            number = number_type(text)
        except ValueError:
            number = None
        if number is None or not minimum <= number <= maximum:
            raise SettingsError(f"{name} must be {numbers} {bounds}; found {text!r}.")
        return number

    return parsed


def _flag(default: Any, text: str, parser: Callable[[str, str], Any] | None = None) -> Any:
    """Return a field of a flag; its parser gets a text, and the flag's name for an error."""
    return dataclasses.field(default=default, metadata={"help": text, "parser": parser})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Options of serving. The model's own settings are those of `embedder.core.settings`."""

    host: str = _flag("0.0.0.0", "address to listen at")  # noqa: S104
    port: int = _flag(8080, "port to listen at; 0 takes a free one", _number(int, 0, 65535))
    keep_alive: int = _flag(
        75,
        "seconds that an idle connection stays open: longer than the load balancer's own time",
        _number(int, 1),
    )
    workers: int | None = _flag(
        None,
        "threads that run the model; by default, the cores that the container may use",
        _number(int, 1, 1024),
    )
    max_batch_tokens: int = _flag(256, "most tokens that are run together", _number(int, 1))
    max_queue_seconds: float = _flag(
        10.0,
        "seconds of a key's waiting work, as measured, from which on its requests are refused",
        _number(float, 0.001),
    )
    max_concurrent_requests: int = _flag(
        512, "most requests of a key at the same time", _number(int, 1, 65535)
    )
    timeout: float = _flag(
        30.0, "seconds after which a request that is not done is ended", _number(float, 0.001)
    )
    no_keys: bool = _flag(False, "answer everyone; without keys this is required", _boolean)
    drain: int = _flag(25, "seconds from SIGTERM to the end at most", _number(int, 1))
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
    parser = _Parser(
        prog="embedding-kit embedder.server",
        description="Serve the embedding model over HTTP, for many requests at the same time.",
        epilog=f"Each flag is also an environment variable: --max-queue-seconds is {PREFIX}"
        "MAX_QUEUE_SECONDS. A flag wins over its variable. OTEL_EXPORTER_OTLP_ENDPOINT turns on "
        "traces. The model's own settings are the variables of the Lambda function: "
        "EMBEDDING_ARTIFACT, EMBEDDING_TRUNCATE and so on.",
        allow_abbrev=False,
    )
    variables = [_KEYS]
    for field in dataclasses.fields(ServerOptions):
        if not field.metadata:
            continue
        flag, variable = "--" + field.name.replace("_", "-"), PREFIX + field.name.upper()
        variables.append(variable)
        value_parser, default = field.metadata["parser"], field.default
        parsing: dict[str, Any] = {"nargs": "?", "const": True} if value_parser is _boolean else {}
        if value_parser is not None:
            parsing["type"] = partial(value_parser, name=f"{flag} ({variable})")
        parser.add_argument(
            flag,
            # argparse parses a default that is a text as it does the flag's.
            default=environ.get(variable) or default,
            help=field.metadata["help"] + ("" if default is None else f" (default: {default})"),
            **parsing,
        )
    unknown = {name for name in environ if name.startswith(PREFIX)} - {*variables}
    if unknown:
        raise SettingsError(
            f"Unknown environment variables {', '.join(sorted(unknown))}. Allowed: "
            f"{', '.join(variables)}."
        )
    return ServerOptions(
        **vars(parser.parse_args(list(arguments))),
        keys=environ.get(_KEYS) or None,
        otlp_endpoint=environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None,
    )
