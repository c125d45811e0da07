"""The page of the server: its table of flags, and its files for Docker and Kubernetes."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from embedder.server.app import STATUS_PATHS
from embedder.server.options import ServerOptions, parse

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "server.md").read_text(encoding="utf-8")
#: Defaults that the page describes in words.
IN_WORDS = {None: "", (): "none", False: "off"}


def test_every_flag_is_there_with_its_default_and_its_help():
    """The table has the flags in the order of `--help`, which may say more."""
    rows = re.findall(r"^\| `(--[a-z-]+)` \| ([^|]*) \| (.*) \|$", PAGE, re.MULTILINE)
    flags = [field for field in fields(ServerOptions) if "help" in field.metadata]
    assert [flag for flag, *_ in rows] == ["--" + field.name.replace("_", "-") for field in flags]
    for (flag, shown, text), field in zip(rows, flags, strict=True):
        expected = IN_WORDS.get(field.default, str(field.default))
        assert shown == expected if expected else shown, flag
        assert field.metadata["help"].startswith(re.sub(r"\[(.*?)\]\(.*?\)", r"\1", text)), flag


@pytest.fixture(scope="module")
def documents() -> dict[str, dict[str, Any]]:
    """Return the page's YAML documents: the first is of Docker, the others have a kind."""
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    parsed = [document for block in blocks for document in yaml.safe_load_all(block)]
    return {document.get("kind", "compose"): document for document in parsed}


def test_compose_starts_the_servers_target_with_flags_that_exist(documents):
    """It stops a container no earlier than the server's drain ends."""
    service = documents["compose"]["services"]["embeddings"]
    assert service["build"]["target"] == "server"
    assert service["entrypoint"] == ["python", "-m", "embedder.server"]
    options = parse([], dict.fromkeys(service["environment"], "a:b"))
    assert options.keys == "a:b"
    assert int(service["stop_grace_period"].removesuffix("s")) > options.drain
    (path,) = re.findall(
        r"http://127\.0\.0\.1:8080(/\w+)", " ".join(service["healthcheck"]["test"])
    )
    assert path in STATUS_PATHS


def test_kubernetes_asks_paths_that_exist_and_waits_for_the_drain(documents):
    """The pods' labels are those that the service selects."""
    pod = documents["Deployment"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["python", "-m", "embedder.server"]
    (variable,) = container["env"]
    options = parse([], {variable["name"]: "a:b"})
    assert options.keys == "a:b"
    waiting = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert waiting > 2 * container["readinessProbe"]["periodSeconds"]
    assert pod["spec"]["terminationGracePeriodSeconds"] >= waiting + options.drain
    assert container["ports"][0]["containerPort"] == options.port
    probes = [container[name]["httpGet"]["path"] for name in ("readinessProbe", "livenessProbe")]
    assert probes == ["/ready", "/live"]
    assert set(probes) <= set(STATUS_PATHS)
    assert documents["Service"]["spec"]["selector"] == pod["metadata"]["labels"]
