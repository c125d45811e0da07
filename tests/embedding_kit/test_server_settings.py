"""Test the settings of a server: its size, its network and its callers."""

import pytest

from embedding_kit.environment_file import EnvironmentFileError, load_environment
from embedding_kit.settings import ServerSettings

VPC = "vpc-0123456789abcdef0"
ONE, TWO = "subnet-0aaaaaaaaaaaaaaa1", "subnet-0aaaaaaaaaaaaaaa2"
CERTIFICATE = "arn:aws:acm:eu-central-1:111122223333:certificate/1234abcd-12ab"
SECRET = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:team/keys-AbCdEf"
NAME = "embeddings.example.com"


def settings(**changes) -> ServerSettings:
    """Return a private server without keys, with these changes."""
    private = {"vpc": VPC, "subnets": (ONE, TWO), "clients": ("10.0.0.0/16",), "no_keys": True}
    return ServerSettings(**{**private, **changes})


def with_keys(**changes) -> ServerSettings:
    """Return a server with keys, with these changes."""
    keys = {"no_keys": False, "keys_secret": SECRET}
    return settings(**{**keys, "certificate": CERTIFICATE, "domain_name": NAME, **changes})


def test_the_defaults_are_two_small_private_tasks():
    """One vCPU each, on whatever the load is."""
    found = settings()
    assert (found.public, found.load_balancer_subnets) == (False, ())
    assert (found.cpu, found.memory_mb, found.minimum, found.maximum) == (1024, 2048, 2, 10)


def test_keys_and_a_certificate_belong_together():
    """A public server has both."""
    assert with_keys(public=True).keys_secret == SECRET


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (settings, {"no_keys": False}, "found: neither; allowed: keys_secret, or no_keys = true"),
        (with_keys, {"no_keys": True}, "found: both keys_secret and no_keys"),
        (
            with_keys,
            {"certificate": None, "domain_name": None},
            "keys would travel in the clear; found: keys_secret without certificate",
        ),
        (settings, {"public": True}, "a public server without keys answers everyone"),
        (with_keys, {"domain_name": None}, "found: certificate without domain_name"),
        (settings, {"domain_name": NAME}, "found: domain_name without certificate"),
        (settings, {"otlp_endpoint": "collector:4318"}, "String should match pattern"),
        (settings, {"otlp_endpoint": "http://c:4318/v1/traces"}, "String should match pattern"),
        (settings, {"otlp_endpoint": "http://c:99999"}, "a port has a number up to 65535"),
        (settings, {"minimum": 3, "maximum": 2}, "found: minimum = 3, maximum = 2"),
        (settings, {"clients": ("10.0.0.1/16",)}, "found: 10.0.0.1/16; allowed: a network in CIDR"),
        (settings, {"clients": ("all",)}, "an IPv4 network is expected"),
        (settings, {"clients": ()}, "at least 1 item"),
        (settings, {"subnets": (ONE,)}, "at least 2 items"),
        (settings, {"subnets": (ONE, ONE)}, "a value is given twice"),
        (settings, {"load_balancer_subnets": (ONE,)}, "needs subnets in two Availability Zones"),
        (settings, {"vpc": "default"}, "String should match pattern"),
        (with_keys, {"keys_secret": SECRET.removesuffix("-AbCdEf")}, "String should match pattern"),
        (with_keys, {"certificate": "star.example.com"}, "String should match pattern"),
        (with_keys, {"domain_name": f"https://{NAME}"}, "String should match pattern"),
    ],
)
def test_what_aws_or_security_does_not_allow_is_refused(make, changes, message):
    """The error has the rule and the values found."""
    with pytest.raises(ValueError, match=message):
        make(**changes)


@pytest.mark.parametrize(
    ("cpu", "memory"),
    [(256, 512), (256, 2048), (512, 3072), (1024, 8192), (4096, 30720), (16384, 40960)],
)
def test_fargates_sizes_are_allowed(cpu, memory):
    """The memory is in the range of the CPU, in its steps."""
    assert settings(cpu=cpu, memory_mb=memory).memory_mb == memory


@pytest.mark.parametrize(
    ("cpu", "memory", "allowed"),
    [
        (256, 1536, "memory_mb of 512, 1024 or 2048, or another cpu"),
        (1024, 1024, "memory_mb of 2048 to 8192 in steps of 1024, or another cpu"),
        (2048, 2048, "memory_mb of 4096 to 16384 in steps of 1024"),
        (1024, 2500, "memory_mb of 2048 to 8192 in steps of 1024"),
        (8192, 17408, "memory_mb of 16384 to 61440 in steps of 4096"),
    ],
)
def test_other_sizes_are_refused(cpu, memory, allowed):
    """The error has what Fargate offers with that CPU."""
    with pytest.raises(ValueError, match=rf"found: memory_mb = {memory} with cpu = {cpu}") as error:
        settings(cpu=cpu, memory_mb=memory)
    assert allowed in str(error.value)


def test_the_table_is_read_from_a_file(tmp_path):
    """The table is `[server]`; an unknown setting is an error with the file's name."""
    table = (
        '[model]\nname = "sentence-transformers/all-MiniLM-L6-v2"\n'
        f'[server]\nvpc = "{VPC}"\nsubnets = ["{ONE}", "{TWO}"]\n'
        'clients = ["10.0.0.0/16"]\nno_keys = true\n'
    )
    (tmp_path / "test.toml").write_text(table)
    assert load_environment("test", folder=tmp_path).server == settings()
    (tmp_path / "test.toml").write_text(table + "tasks = 2\n")
    with pytest.raises(EnvironmentFileError, match=r"test\.toml: server\.tasks: unknown key"):
        load_environment("test", folder=tmp_path)
