"""Metrics, dimensions, labels and fields of the log have the code's names in the documentation."""

import json
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

import embedding_kit
from embedder.core.embedding_request import Embeddings
from embedder.core.engine import Engine
from embedder.core.settings import EmbedderSettings
from embedder.http.telemetry import UNITS, VERSION_UNITS, RequestRecord, Telemetry
from embedder.server.metrics import Metrics
from embedder.server.server_request import ServerRequest
from embedding_kit.endpoint_metrics import PLATFORM_METRICS
from embedding_kit.fargate_service import REJECTED_METRIC
from embedding_kit.monitoring import dashboard
from embedding_kit.rest_api import THROTTLED_METRIC
from tests.docs.pages import PAGES
from tests.embedder.calls import post
from tests.embedder.small_model import HashSession, WordTokenizer, manifest_of, router_of

#: AWS's own namespaces, metrics and dimensions that the pages name.
OF_AWS = {*("AWS/Lambda", "Duration"), *("AWS/States", "ExecutionsFailed")}
_WORD = re.compile(r"\b(metrics?|dimensions)\b", re.IGNORECASE)
_NAME = re.compile(r"`([A-Z][a-z]\w*|embedding_\w+)`|((?:AWS|EmbeddingKit)/\w+|`EmbeddingKit`)")


def passages() -> Iterator[tuple[str, str]]:
    """Yield the sentences and the rows of tables that are about metrics, with their page."""
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for block in re.split(r"\n\s*\n", text):
            rows = block.strip().splitlines()
            if not block.strip().startswith("|"):
                rows = re.split(r"(?<=[.:;]) ", " ".join(block.split()))
            elif _WORD.search(rows[0]):
                yield from ((page.name, row) for row in rows[2:])
                continue
            yield from ((page.name, passage) for passage in rows if _WORD.search(passage))


@pytest.fixture
def telemetry(capsys: pytest.CaptureFixture[str]) -> tuple[set[str], set[str]]:
    """Return the names in the embedder's metrics record, and the fields of its log line."""
    engine = Engine(manifest_of(), WordTokenizer(), HashSession())
    router = router_of(engine, telemetry=Telemetry(EmbedderSettings(artifact="")))
    post(router, "/embed", {"inputs": ["x", "y z"]})
    line, record = map(json.loads, capsys.readouterr().out.splitlines())
    names = {*UNITS, *VERSION_UNITS}
    for directive in record["_aws"]["CloudWatchMetrics"]:
        names.update(*directive["Dimensions"])
    return names, set(line)


def prometheus() -> dict[str, set[str]]:
    """Return the labels of each metric of the server, without the bounds of histograms."""
    queue: Any = SimpleNamespace(waiting_runs=0, seconds=0.0)
    metrics = Metrics(queue)
    record = RequestRecord("1")
    record.embeddings = Embeddings(np.zeros((1, 1), dtype=np.float32), (1,))
    metrics.observe(ServerRequest("POST", "/", {}, record))
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(metrics.render()[0].decode()):
        for sample in family.samples:
            found.setdefault(family.name, set()).update(sample.labels.keys() - {"le"})
            found[sample.name] = found[family.name]
    return found


def test_every_metric_and_dimension_of_the_pages_exists(telemetry, monkeypatch, minilm_artifact):
    """Each is written by the kit, or is one of AWS's; an alarm on another name would never fire."""
    monkeypatch.setenv("EMBEDDING_ARTIFACT", str(minilm_artifact.folder))
    from jobs.embed.run import EmbedSteps
    from jobs.ingest.run import DocumentSteps, ReconcileSteps
    from jobs.load.handler import LoadSteps

    emitted = {
        *telemetry[0],
        *PLATFORM_METRICS,
        *(REJECTED_METRIC, THROTTLED_METRIC, "EmbeddingKit/NAME"),
        *EmbedSteps.metrics,
        *LoadSteps.metrics,
        *DocumentSteps.metrics,
        *ReconcileSteps.metrics,
        *ReconcileSteps.final_metrics,
        *prometheus(),
    }
    named = {
        (page, name or space)
        for page, passage in passages()
        for name, space in _NAME.findall(passage)
        if name not in embedding_kit.__all__
    }
    assert {(page, name) for page, name in named if name not in emitted | OF_AWS} == set()
    assert {name for _, name in named} >= telemetry[0]


def test_the_servers_metrics_have_the_labels_of_its_page():
    """Each row of the table has the labels of all its metrics."""
    emitted = prometheus()
    rows = [
        [set(re.findall(r"`(\w+)`", cell)) for cell in passage.split("|")[1:3]]
        for page, passage in passages()
        if page == "server.md" and re.match(r"\| `embedding_", passage)
    ]
    assert rows
    for names, labels in rows:
        assert [emitted[name] for name in names] == [labels] * len(names), names


def test_the_fields_of_the_log_that_are_queried_exist(telemetry):
    """The page of the API and the dashboard's query name fields of a request's line."""
    (page,) = (page for page in PAGES if page.name == "api.md")
    named = re.findall(r"\(field `(\w+)`\)", page.read_text("utf-8"))
    queried = dashboard._SLOWEST[0].removeprefix("fields @timestamp, ").split(", ")
    assert "api" in named
    assert {*named, *queried} <= telemetry[1]
