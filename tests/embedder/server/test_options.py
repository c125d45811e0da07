"""The server's flags and variables."""

import pytest

from embedder.core.errors import SettingsError
from embedder.server.__main__ import main
from embedder.server.options import ServerOptions, parse


def test_a_flag_wins_over_its_variable():
    """Each flag is also a variable; an empty one is none. The collector's is OpenTelemetry's."""
    environ = {
        "EMBEDDING_SERVER_PORT": "9001",
        "EMBEDDING_SERVER_MAX_QUEUE_SECONDS": "5",
        "EMBEDDING_SERVER_NO_KEYS": "true",
        "EMBEDDING_SERVER_HOST": "",
        "EMBEDDING_TRUNCATE": "right",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318",
    }
    options = parse(["--port", "9002"], environ)
    assert options == ServerOptions(
        port=9002, max_queue_seconds=5.0, no_keys=True, otlp_endpoint="http://c:4318"
    )


def number(flag: str, value: str, allowed: str) -> list[tuple[list[str], dict[str, str], str]]:
    """Return a bad number as a flag and as a variable, with the error that names both."""
    variable = "EMBEDDING_SERVER_" + flag[2:].upper()
    message = f"{flag} ({variable}) must be {allowed}; found {value!r}."
    return [([flag, value], {}, message), ([], {variable: value}, message)]


@pytest.mark.parametrize(
    ("arguments", "environ", "message"),
    [
        *number("--port", "http", "a whole number from 0 to 65535"),
        *number("--workers", "0", "a whole number from 1 to 1024"),
        *number("--timeout", "nan", "a number from 0.001 up"),
        ([], {"EMBEDDING_SERVER_NO_KEYS": "maybe"}, "must be true or false; found 'maybe'."),
        (["--prt", "1"], {}, "Unrecognized arguments: --prt 1. See --help for what is allowed."),
        ([], {"EMBEDDING_SERVER_PROT": "1"}, "Unknown environment variables EMBEDDING_SERVER_PROT"),
    ],
)
def test_a_mistake_is_one_clear_error(arguments, environ, message):
    """It names the flag and its variable; a misspelled variable is not ignored."""
    with pytest.raises(SettingsError) as caught:
        parse(arguments, environ)
    assert message in str(caught.value)


def test_the_command_prints_one_line_for_a_bad_flag(capsys):
    """The status is 2, as of other commands, and nothing was loaded."""
    assert main(["--port", "x"]) == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert error.startswith("error: --port (EMBEDDING_SERVER_PORT) must be")
    assert error.count("\n") == 1
