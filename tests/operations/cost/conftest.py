"""Environments for the command, in another folder."""

import os
import sys
from pathlib import Path

import pytest

# jsii runs the first `node` on the PATH; the environment's own prints no page of warnings.
os.environ.setdefault("JSII_NODE", str(Path(sys.prefix) / "bin" / "node"))

from operations.cost import command
from operations.cost.bill import Resource
from tools import cost as cost_tool

DEV = '[model]\nname = "sentence-transformers/all-MiniLM-L6-v2"\n'
PROVISIONED = """
[model]
name = "google/embeddinggemma-300m"
accept_license = "gemma"
[function]
memory_mb = 2048
[cold_start]
kind = "provisioned"
request_duration = "100ms"
minimum = 2
maximum = 10
[budget]
monthly_usd = 100.0
"""
EXAMPLES = {
    "dev": DEV,
    "provisioned": PROVISIONED,
    "batch": DEV + '[batch]\ninput = "s3://example-in/"\noutput = "s3://example-out/"\n',
    "index": DEV + "[index]\n",
    "documents": DEV + '[index]\n[ingest]\nsource = "s3://example-docs/handbook/"\n',
    "standby": DEV + '[standby]\nname = "BAAI/bge-small-en-v1.5"\n[index]\n'
    '[ingest]\nsource = "s3://example-docs/handbook/"\n',
    "server": DEV
    + """[server]
vpc = "vpc-0123456789abcdef0"
subnets = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
clients = ["10.0.0.0/16"]
no_keys = true
""",
    "network": DEV
    + """[index]
[ingest]
[network]
vpc = "vpc-0123456789abcdef0"
subnets = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1", "subnet-0123456789abcdef2"]
[callers]
principals = ["111122223333"]
invoke = true
""",
    "invoked": DEV + '[callers]\nprincipals = ["111122223333"]\ninvoke = true\n',
    "front": DEV
    + """[front]
callers = [{ name = "search", rate = 20, burst = 40 }]
firewall = {}
""",
    "frankfurt": 'region = "eu-central-1"\n' + DEV,
    "essential": DEV + '[observability]\nwatch = "essential"\n',
    "traced": DEV + "[observability]\ntracing = true\n",
    "told": DEV + '[alarms]\nemails = ["ops@example.com"]\n',
    "warned": DEV + "[alarms]\nanomalies = true\nwarning_percent = 50.0\n",
    "unaccepted": PROVISIONED.replace('accept_license = "gemma"\n', ""),
    "fp32": DEV + 'precision = "fp32"\n',
    "zip": DEV + '[function]\npackage = "zip"\n',
    "own-model": '[model]\nname = "acme/own-model"\n',
}


@pytest.fixture(scope="session")
def environments(tmp_path_factory) -> Path:
    """Return a folder of environments."""
    folder = tmp_path_factory.mktemp("environments")
    for name, content in EXAMPLES.items():
        (folder / f"{name}.toml").write_text(content)
    return folder


@pytest.fixture(scope="session")
def synthesize():
    """Synthesize each environment once."""
    resources_by_environment: dict[str, list[Resource]] = {}

    def resources_of(environment):
        key = repr(environment)
        resources_by_environment[key] = resources_by_environment.get(key) or cost_tool.resources_of(
            environment
        )
        return resources_by_environment[key]

    return resources_of


@pytest.fixture
def cost(environments, capsys, synthesize):
    """Run the command; return its status, output, and messages."""

    def run(*arguments):
        status = command.main([*arguments], environments=environments, synthesize=synthesize)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run
