"""Environments for the command, in a folder of their own."""

from pathlib import Path

import pytest

from embedding_costs.__main__ import main

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
    "snapstart": DEV + '[cold_start]\nkind = "snapstart"\n',
    "batch": DEV + '[batch]\ninput = "s3://example-in/"\noutput = "s3://example-out/"\n',
    "index": DEV + "[index]\n",
    "server": DEV
    + """[server]
vpc = "vpc-0123456789abcdef0"
subnets = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
clients = ["10.0.0.0/16"]
no_keys = true
""",
    "network": DEV
    + """[index]
[network]
vpc = "vpc-0123456789abcdef0"
subnets = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1", "subnet-0123456789abcdef2"]
[callers]
accounts = ["111122223333"]
invoke = true
""",
    "invoked": DEV + '[callers]\naccounts = ["111122223333"]\ninvoke = true\n',
    "front": DEV
    + """[front]
kind = "api-gateway"
callers = [{ name = "search", rate = 20, burst = 40 }]
firewall = {}
""",
    "frankfurt": 'region = "eu-central-1"\n' + DEV,
    "fp32": DEV + 'precision = "fp32"\n',
    "zip": DEV + '[function]\npackage = "zip"\n',
    "zip-s3": PROVISIONED.replace("memory_mb", 'package = "zip"\nmemory_mb'),
    "own-model": '[model]\nname = "acme/own-model"\n',
}


@pytest.fixture(scope="session")
def environments(tmp_path_factory) -> Path:
    """Return a folder of environments."""
    folder = tmp_path_factory.mktemp("environments")
    for name, content in EXAMPLES.items():
        (folder / f"{name}.toml").write_text(content)
    return folder


@pytest.fixture
def cost(environments, tmp_path, capsys):
    """Run the command; return its status, output, and messages, and the picture."""

    def run(*arguments):
        picture = tmp_path / "cost.svg"
        status = main([*arguments, "--svg", str(picture)], environments=environments)
        captured = capsys.readouterr()
        return (
            status,
            captured.out,
            captured.err,
            picture.read_text("utf-8") if picture.exists() else "",
        )

    return run
