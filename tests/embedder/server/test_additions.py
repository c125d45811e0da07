"""Keys and metrics around a server's requests, and what turns them on."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from embedder.core.errors import SettingsError
from embedder.server.app import Additions
from embedder.server.options import ServerOptions, parse
from embedder.server.serve import load_additions
from tests.embedder.server.running import Running, running

QUEUE: Any = SimpleNamespace(waiting_runs=0, waiting_tokens=0, seconds=0.0)
VARIABLE = "EMBEDDING_SERVER_KEYS"
BODY = {"model": "small", "input": "one two"}


def line(secret: str) -> str:
    return f"search:{hashlib.sha256(secret.encode()).hexdigest()}\n"


def bearer(secret: str) -> dict[str, dict[str, str]]:
    return {"headers": {"authorization": f"Bearer {secret}"}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text(line("s1"))
    return path


@contextmanager
def serving(**options: Any) -> Iterator[Running]:
    server_options = ServerOptions(**options)
    additions = load_additions(server_options, QUEUE)
    try:
        with running(additions=additions, metrics_key=server_options.metrics_key) as server:
            yield server
    finally:
        if additions.tracer is not None:
            additions.tracer.close()


def test_without_keys_the_server_does_not_start():
    """The error says how to make a key, and how to do without."""
    with pytest.raises(SettingsError, match=r"no keys.* --keys-file .*new_key NAME.* --no-keys"):
        load_additions(ServerOptions(), QUEUE)
    assert load_additions(ServerOptions(no_keys=True, no_metrics=True), QUEUE) == Additions()


@pytest.mark.parametrize(
    ("arguments", "environ", "message"),
    [
        (["--no-keys", "--keys-file", "keys"], {}, f"Only one of --keys-file, {VARIABLE}"),
        (["--keys-file", "keys"], {VARIABLE: line("s1")}, "Only one of"),
        (["--keys-file", "missing"], {}, "missing cannot be read: No such file or directory"),
        ([], {VARIABLE: "search:s1"}, "EMBEDDING_SERVER_KEYS, line 1: the SHA-256 of a secret"),
        (["--no-keys", "--metrics-key"], {}, "--metrics-key needs keys"),
        (["--no-keys", "--otlp-endpoint", "localhost:4317"], {}, "found 'localhost:4317'"),
    ],
)
def test_bad_settings_are_named(arguments, environ, message, monkeypatch, file):
    """One clear error, and the server does not start."""
    monkeypatch.chdir(file.parent)
    with pytest.raises(SettingsError, match=message):
        load_additions(parse(arguments, environ), QUEUE)


def test_the_keys_are_no_flag():
    """All users of a machine can read the command lines of its processes."""
    with pytest.raises(SettingsError, match="--keys"):
        parse(["--keys", line("s1")], {})
    options = parse([], {VARIABLE: line("s1")})
    assert options.keys == line("s1")
    assert "search" not in repr(options)


def test_what_is_off_is_not_imported():
    """Neither library costs a start of a server that does without."""
    code = (
        "import sys\n"
        "from embedder.server.serve import load_additions\n"
        "from embedder.server.options import ServerOptions\n"
        "load_additions(ServerOptions(no_keys=True, no_metrics=True), None)\n"
        "print([name for name in sys.modules if name.startswith(('prometheus', 'opentelemetry'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("source", ["file", "variable"])
def test_only_a_key_opens_the_server(source, file):
    """The error is OpenAI's at OpenAI's path; the paths for load balancers stay open."""
    option = {"keys_file": str(file)} if source == "file" else {"keys": line("s1")}
    with serving(**option) as server:
        for path in ("/live", "/ready", "/ping", "/health", "/metrics"):
            assert server.get(path).status_code == 200
        refused = server.post("/v1/embeddings", BODY)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert refused.json()["error"]["code"] == "invalid_api_key"
        wrong = server.post("/v1/embeddings", BODY, **bearer("s2"))
        assert wrong.headers["www-authenticate"] == 'Bearer error="invalid_token"'
        assert server.post("/v1/embeddings", BODY, **bearer("s1")).status_code == 200


def counted(server: Running, name: str, **labels: str) -> float:
    """Return the value of a metric's samples with these labels, added up."""
    families = text_string_to_metric_families(server.get("/metrics").text)
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def test_requests_are_counted(file):
    """By key, API and status; a client's or a server's error too."""
    with serving(keys_file=str(file)) as server:
        server.post("/v1/embeddings", {**BODY, "input": ["one two", "three"]}, **bearer("s1"))
        server.post("/embed", {"inputs": 5}, **bearer("s1"))
        server.post("/embed", {"inputs": "one"})
        total = "embedding_requests_total"
        assert counted(server, total, key="search", api="openai", status="200") == 1
        assert counted(server, total, key="search", api="tei", status="422") == 1
        assert counted(server, total, key="", api="tei", status="401") == 1
        assert counted(server, "te_request_duration_count") == 1
        assert counted(server, "te_embed_success_total") == 2
        assert counted(server, "te_request_failure_total", err="validation") == 1


def test_the_metrics_may_need_a_key(file):
    """The error is that of every other path."""
    with serving(keys_file=str(file), metrics_key=True) as server:
        refused = server.get("/metrics")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        answer = server.get("/metrics", **bearer("s1"))
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_metrics_can_be_off():
    """The path is then as unknown as any other."""
    with serving(no_keys=True, no_metrics=True) as server:
        assert server.get("/metrics").status_code == 404


def test_the_collectors_variable_is_opentelemetrys_own():
    """So a container that is set up for OpenTelemetry sends traces without a flag."""
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_SERVICE_NAME": "x"}
    assert parse([], environ).otlp_endpoint == "http://collector:4318"
    assert parse([], {}).otlp_endpoint is None
