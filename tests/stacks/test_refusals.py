"""Every mistake in a file's tables that a rule of its own refuses, with the message of each."""

from typing import Any

import pytest
import tomlkit

from stacks.environment_file import EnvironmentFileError, load_environment

MINILM = {"name": "sentence-transformers/all-MiniLM-L6-v2"}
GEMMA = {"name": "google/embeddinggemma-300m", "accept_license": "gemma"}
VPC, SUBNET_A, SUBNET_B = (
    "vpc-0123456789abcdef0",
    "subnet-0aaaaaaaaaaaaaaa1",
    "subnet-0aaaaaaaaaaaaaaa2",
)
SUBNETS = {"vpc": VPC, "subnets": [SUBNET_A, SUBNET_B]}
CERTIFICATE = "arn:aws:acm:eu-central-1:111122223333:certificate/1234abcd"
KEY = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab"
SECRET = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:team/keys-AbCdEf"
WEB_ACL = "arn:aws:wafv2:eu-central-1:111122223333:regional/webacl/company/1234abcd-12ab"
AUTHORIZER = "arn:aws:lambda:eu-central-1:111122223333:function:authorize"
HERE = {"account": "111122223333", "region": "eu-central-1"}
NAME = "embeddings.example.com"
PAGE = "https://example.com"
CALLER = {"name": "search", "rate": 20, "burst": 40}
ROLE, USER = (f"arn:aws:iam::111122223333:{who}/search" for who in ("role", "user"))
CLASSIFIER = {"name": "acme/topics", "task": "classify"}
SERVER = {**SUBNETS, "clients": ["10.0.0.0/16"]}
OPEN, KEYED = {"no_keys": True}, {"keys_secret": SECRET}
BATCH = {"input": "s3://documents", "output": "s3://vectors"}
ZIP, IN_S3 = {"package": "zip"}, {"package": "zip", "artifact": "s3"}
DOCUMENTS = {"index": {}, "ingest": {"source": "s3://docs/a"}}
WORKDAY: dict[str, Any] = {"at": "cron(0 8 ? * MON-FRI *)"}
EVENING: dict[str, Any] = {"at": "cron(0 19 * * ? *)", "maximum": 4}


def _of(name: str, base: dict[str, Any], *changes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a file for each change of a table that is accepted as it is."""
    return [{name: base | change} for change in changes]


WRONG: dict[str, list[dict[str, Any]]] = {
    "front": [
        *_of(
            "front",
            {"callers": [CALLER]},
            {"callers": []},
            {"callers": [CALLER, CALLER]},
            {"callers": [{**CALLER, "name": "Search"}]},
            {"callers": [{**CALLER, "name": "a--b"}]},
            {"callers": [{**CALLER, "keys": ["1", "2", "3"]}]},
            {"callers": [{**CALLER, "keys": ["1", "1"]}]},
            {"callers": [{**CALLER, "rate": 0}]},
            {"callers": [{**CALLER, "burst": 0}]},
            {"callers": [{**CALLER, "monthly_requests": 0}]},
            # A quota is added to a rate and a burst, and does not replace them.
            {"callers": [{"name": "search", "monthly_requests": 1000}]},
            {"vpc_endpoints": [VPC]},
            {
                "vpc_endpoints": ["vpce-0123456789abcdef0"],
                "domain": {"name": NAME, "certificate": CERTIFICATE},
            },
            {"domain": {"name": NAME}},
            {"domain": {"name": NAME, "hosted_zone": "example.com"}},
            {"timeout": "6m"},
            {"timeout": "1500ms"},
            {"firewall": {"web_acl": WEB_ACL, "requests_per_five_minutes": 100}},
            {"firewall": {"web_acl": WEB_ACL.replace("regional", "global")}},
            {"firewall": {"requests_per_five_minutes": 9}},
            {"authorizer": "authorize"},
            {"endpoint": "edge"},
        ),
        # Resources of another place.
        *(
            {"region": "us-east-1", "front": {"callers": [CALLER], **changes}}
            for changes in (
                {"domain": {"name": NAME, "certificate": CERTIFICATE}},
                {"firewall": {"web_acl": WEB_ACL}},
            )
        ),
        {
            **HERE,
            "account": "444455556666",
            "front": {"callers": [CALLER], "authorizer": AUTHORIZER},
        },
    ],
    "server": [
        *_of(
            "server",
            SERVER | OPEN,
            {"public": True},
            {"domain_name": NAME},
            {"otlp_endpoint": "collector:4318"},
            {"otlp_endpoint": "http://c:4318/v1/traces"},
            {"otlp_endpoint": "http://c:99999"},
            {"minimum": 3, "maximum": 2},
            {"clients": ["10.0.0.1/16"]},
            {"clients": ["all"]},
            {"clients": []},
            {"subnets": [SUBNET_A]},
            {"subnets": [SUBNET_A, SUBNET_A]},
            {"load_balancer_subnets": [SUBNET_A]},
            {"vpc": "default"},
            {"tasks": 2},
            *(
                {"cpu": cpu, "memory_mb": memory}
                for cpu, memory in (
                    (256, 1536),
                    (1024, 1024),
                    (2048, 2048),
                    (1024, 2500),
                    (8192, 17408),
                )
            ),
        ),
        *_of(
            "server",
            SERVER | KEYED | {"certificate": CERTIFICATE, "domain_name": NAME},
            {"no_keys": True},
            {"keys_secret": SECRET.removesuffix("-AbCdEf")},
            {"certificate": "star.example.com"},
            {"domain_name": f"https://{NAME}"},
        ),
        {"server": SERVER},
        {"server": SERVER | KEYED},
        {"server": SERVER | KEYED | {"certificate": CERTIFICATE}},
        {"server": {"clients": ["10.0.0.0/16"], **OPEN}},
        {
            "network": {"vpc": VPC, "subnets": [SUBNET_A]},
            "server": {"clients": ["10.0.0.0/16"], **OPEN},
        },
        {"server": SERVER | OPEN, "reranker": {"name": "acme/ranker"}},
        {"server": SERVER | OPEN, "sparse": {"name": "acme/splade"}},
    ],
    "network": [
        *_of(
            "network",
            SUBNETS,
            {"vpc": "main"},
            {"subnets": [SUBNET_A, SUBNET_A]},
            {"subnets": []},
            {"security_groups": ["default"]},
            {"security_groups": [f"sg-0123456{number}" for number in range(6)]},
        ),
        {"network": {"subnets": [SUBNET_A]}},
        {"callers": {"invoke": True}},
    ],
    "callers": [
        {"callers": {"principals": [USER], "prefixes": {ROLE: "acme/"}, "invoke": True}},
        {"callers": {"principals": [ROLE], "prefixes": {ROLE: "acme/"}}},
        {"callers": {"prefixes": {ROLE: "a/", ROLE.replace("role/", "role/path/"): "b/"}}},
        {"callers": {"prefixes": {f"{ROLE}{'h' * 300}/{n}": "a/" for n in range(9)}}},
        {"callers": {"prefixes": {ROLE: "acme/"}}, "index": {}},
        {
            "callers": {"prefixes": {ROLE: "acme/"}},
            **DOCUMENTS,
            "index": {"non_filterable": ["tenant"]},
        },
        {"callers": {"prefixes": {ROLE: "acme/"}}, **DOCUMENTS, "front": {"callers": [CALLER]}},
    ],
    "cors": [
        {"cors": {}},
        *_of(
            "cors",
            {},
            {"origins": []},
            {"origins": [f"{PAGE}/"]},
            {"origins": [f"{PAGE}/page"]},
            {"origins": ["example.com"]},
            {"origins": ["https://Example.com"]},
            {"origins": ["https://*.example.com"]},
            {"origins": ["https://" + "a" * 250]},
            {"origins": ["*", PAGE]},
            {"origins": [f"{PAGE}:{number}" for number in range(101)]},
            {"origins": [PAGE], "credentials": True},
        ),
    ],
    "batch": [
        {"batch": BATCH | {"max_concurrency": 501}},
        {"batch": BATCH | {"max_concurrency": 6, "reserved_concurrency": 5}},
        {"model": GEMMA, "batch": BATCH | {"memory_mb": 200}},
        # Lambda keeps 100 unreserved, which is all that a new account may have.
        {
            "function": {"account_concurrency": 100},
            "batch": BATCH | {"max_concurrency": 1, "reserved_concurrency": 1},
        },
        *(
            {"batch": {"input": source, "output": destination}}
            # A second job would embed the vectors of the first, since both are Parquet.
            for source, destination in (
                ("s3://abc", "s3://abc"),
                ("s3://abc/a", "s3://abc/a/"),
                ("s3://abc", "s3://abc/vectors"),
                ("s3://abc/a/b", "s3://abc/a"),
            )
        ),
        *(
            {"batch": BATCH | {"input": url}}
            # Names that S3 refuses, and characters that a policy would read as wildcards.
            for url in (
                "documents/texts",
                "https://documents.s3.amazonaws.com/",
                "s3://",
                "s3://ab",
                f"s3://{'a' * 64}",
                "s3://Documents",
                "s3://a_b",
                "s3://-abc",
                "s3://a..b",
                "s3://192.168.1.1",
                "s3://xn--abc",
                "s3://abc-s3alias",
                "s3://abc//a",
                "s3://abc/*",
                "s3://abc/a?",
                "s3://abc/${aws:username}/",
                "s3://abc/ä",
            )
        ),
    ],
    "index": [
        *_of(
            "index",
            {},
            {"non_filterable": list("abcdefghij")},
            {"filterable": [str(number) for number in range(50)]},
            {"non_filterable": ["text"]},
            {"filterable": ["a"], "non_filterable": ["a"]},
            {"filterable": ["id", "embedding"]},
            {"filterable": ["a", "a"]},
            {"filterable": [""]},
            {"filterable": ["x" * 64]},
            {"source": "vectors"},
        ),
        {"model": MINILM | {"index_dimension": 100}, "index": {}},
        {"model": MINILM | {"index_dimension": 384}},
        {"model": {"name": "my/model"}, "index": {}},
        {"model": GEMMA | {"index_dimension": 300}, "index": {}},
    ],
    "standby": [
        {"standby": {"name": "bge-small-en-v1.5"}},
        {"standby": {"name": "bge-small-en-v1.5"}, "index": {}, "function": ZIP},
        {"standby": GEMMA, "index": {}, "function": {"memory_mb": 128}},
        {
            "model": {"name": "acme/pair", "index_dimension": 384},
            "standby": {"name": "acme/pair", "index_dimension": 384, "route": "query"},
            "index": {},
        },
        *(
            {"standby": standby, "index": {}}
            for standby in (
                {"name": "sentence-transformers/All-MiniLM-L6-v2"},
                {"name": "acme/own"},
                {"name": "bge-small-en-v1.5", "index_dimension": 300},
                {"name": "google/embeddinggemma-300m"},
                {"name": "a/b", "revision": "main"},
                {"name": "a/b", "reranker": {"name": "a/b"}},
            )
        ),
    ],
    "ingest": [
        {"ingest": {"source": "s3://docs"}},
        {"index": {}, "ingest": {"source": "s3://docs/_ingest/a"}},
        {"index": {}, "ingest": {"chunk_tokens": 50, "overlap_tokens": 26}},
        {"index": {}, "ingest": {"tags": True}},
        {"index": {"filterable": ["title"]}, "ingest": {}},
        {"index": {}, "ingest": {"source": "s3://docs/a", "questions": "a/q.jsonl"}},
        {"index": {}, "ingest": {"source": "s3://docs/_docs", "questions": "_docs/q.jsonl"}},
        {"index": {}, "ingest": {"questions": "_questions/q.csv"}},
    ],
    "model": [
        {"reranker": {"name": "a/b", "index": "faq.json"}},
        {"reranker": {"precision": "int8"}},
        {"model": MINILM | {"reranker": {"name": "a/b"}}},
        {"model": MINILM | {"sparse": {"name": "a/b"}}},
        {"sparse": {"kind": "bm25", "revision": "a" * 40}},
        {"sparse": {"kind": "lexical"}},
        {"sparse": {"kind": "bm25"}},
        {"model": MINILM | {"index": "test.toml"}, "index": {}, "sparse": {"kind": "bm25"}},
        {
            "model": {"name": "acme/pair", "index": "test.toml", "route": "query"},
            "sparse": {"name": "acme/splade"},
        },
    ],
    "classifier": [
        *_of(
            "model",
            CLASSIFIER,
            {"task": "embed"},
            {"task": "rerank", "index": "test.toml"},
            {"name": "all-MiniLM-L6-v2"},
            {"dimensions": [64], "index_dimension": 64, "route": "query"},
            {"index": "test.toml"},
        ),
        {"model": CLASSIFIER, "reranker": {"name": "acme/ranker"}},
        {"model": CLASSIFIER, "sparse": {"kind": "bm25"}},
        {"model": CLASSIFIER, "sparse": {"name": "acme/splade"}},
        {"model": CLASSIFIER, "index": {}},
        {"model": CLASSIFIER, **DOCUMENTS},
        {"model": CLASSIFIER, "index": {}, "standby": MINILM},
        {"standby": CLASSIFIER, "index": {}},
    ],
    "ownership": [
        {"region": "us-east-1", "encryption": {"key": KEY}},
        {"region": "us-east-1", "existing": {"keys": [KEY]}},
        {"encryption": {"key": "alias/mine"}},
        {"encryption": {"key": KEY.replace("key/", "alias/")}},
        {"encryption": {}},
        {**HERE, "roles": {"permissions_boundary": "arn:aws:iam::999988887777:policy/boundary"}},
        *_of(
            "roles",
            {},
            {},
            {"path": "team"},
            {"path": "/team"},
            {"path": "//"},
            {"path": f"/{'a' * 511}/"},
        ),
        *_of(
            "existing",
            {},
            {},
            {"repository": "Team"},
            {"keys": ["alias/mine"]},
            {"role": "arn:aws:iam::111122223333:role/x"},
            {"log_group": "with space"},
            {"bucket": "team-artifacts"},
        ),
        {"existing": {"bucket": "abc/d"}, "function": IN_S3},
        {"existing": {"bucket": "A"}, "function": IN_S3},
        {"existing": {"repository": "images"}, "function": ZIP},
        {
            "existing": {"repository": "images"},
            "repository": {"pull_roles": ["arn:aws:iam::111122223333:role/x"]},
        },
        {"existing": {"log_group": "logs"}, "function": {"log_retention_days": 7}},
    ],
    "function": _of("function", {}, {"reserved_concurrency": 901}, {"reserved_concurrency": 0}),
    "cold_start": [
        *_of(
            "cold_start",
            {"kind": "provisioned"},
            {"minimum": 0},
            {"minimum": 5, "maximum": 4},
            {"schedule": [WORKDAY | {"minimum": 0}]},
            {"schedule": [WORKDAY]},
            {"schedule": [WORKDAY | {"minimum": 2}, WORKDAY | {"minimum": 3}]},
            {"schedule": [WORKDAY | {"minimum": 1, "at": "0 8 * * *"}]},
            {"schedule": [WORKDAY | {"minimum": 1, "time_zone": "Berlin"}]},
            # A minimum that would be above the maximum of another entry.
            {"maximum": 4, "schedule": [WORKDAY | {"minimum": 9}]},
            {"maximum": 10, "schedule": [WORKDAY | {"minimum": 5}, EVENING | {"minimum": 1}]},
            {"maximum": 10, "schedule": [EVENING, WORKDAY | {"minimum": 5, "maximum": 20}]},
            {"minimum": 5, "maximum": 10, "schedule": [EVENING]},
        ),
        {"cold_start": {"kind": "snapstart"}, "experiment": {"version": 3}},
        {"cold_start": {"kind": "provisioned"}, "experiment": {"version": 3, "percent": 10.0}},
        {
            "cold_start": {"kind": "provisioned", "maximum": 5},
            "function": {"reserved_concurrency": 5},
        },
        {
            "cold_start": {
                "kind": "provisioned",
                "maximum": 2,
                "schedule": [WORKDAY | {"minimum": 2, "maximum": 11}],
            },
            "function": {"account_concurrency": 110},
        },
    ],
    "release": [
        {"release": {"kind": "canary"}, "experiment": {"version": 3, "percent": 10.0}},
        {"release": {"percent": 10}},
        {"release": {"kind": "canary", "interval": "90s"}},
        *_of("release", {"kind": "linear", "percent": 1}, {"interval": "30m"}, {"interval": "2d"}),
        {"release": {"kind": "linear", "percent": 30, "interval": "961m"}},
        *_of(
            "release",
            {"kind": "linear", "percent": 50},
            *({"interval": each} for each in ("2881m", "3d", "59s", "61s")),
            {"percent": 0},
            {"percent": 100},
        ),
        {"experiment": {"version": 0}},
    ],
    "catalog": [
        *_of(
            "model",
            {},
            {"name": "all-minilm-l6"},
            {"name": "gte-smal"},
            {"name": "my-model"},
            {"name": "e5-small-v2", "dimensions": [128]},
            MINILM | {"dimensions": [385]},
            GEMMA | {"dimensions": [512, 64]},
            MINILM | {"route": "query"},
        ),
        {"standby": {"name": "bge-m4"}, "index": {}},
        {"reranker": {"name": "bge-m3"}},
        {"reranker": {"name": "ms-marco-MiniLM-L6-v2"}},
        {"sparse": {"name": "splade"}},
        {"reranker": {"name": "any/reranker"}, "function": {"truncate": "left"}},
        {"index": {}, "ingest": {"chunk_tokens": 255}},
        {"index": {}, "ingest": {"chunk_tokens": 512}, "standby": {"name": "e5-small-v2"}},
        {
            "model": {"name": "e5-small-v2"},
            "standby": MINILM,
            "index": {},
            "ingest": {"chunk_tokens": 510},
        },
        {"model": GEMMA, "index": {}, "ingest": {"chunk_tokens": 2047}},
        {"model": {"name": "all-MiniLM-L12-v2"}, "index": {}, "ingest": {"overlap_tokens": 64}},
    ],
    "unknown keys": [
        {"modle": MINILM},
        {"function": {"memory": 1769}},
        {"model": {"nmae": "all-MiniLM-L6-v2"}},
        {"observability": {"xyz": 1}},
        {"callers": {"prefixes": {"search": "acme/"}}},
    ],
    "zip": [
        {"function": ZIP, "batch": BATCH},
        {"function": ZIP, "index": {"source": "s3://vectors"}},
        {"function": ZIP, **DOCUMENTS},
        {"function": ZIP, "batch": BATCH, "server": SERVER | OPEN},
        {"function": {"package": "tar"}},
        {"function": {"artifact": "s3"}},
        {"function": IN_S3},
        {"model": {"name": "owner/unknown"}, "function": IN_S3},
        {"model": GEMMA, "function": ZIP},
        {"model": GEMMA, "function": ZIP | {"artifact": "package"}},
        {
            "model": GEMMA | {"precision": "fp32"},
            "function": ZIP,
            "cold_start": {"kind": "snapstart"},
        },
        {"model": {"name": "BAAI/bge-base-en-v1.5", "precision": "fp32"}, "function": ZIP},
    ],
}


@pytest.mark.parametrize("tables", sorted(WRONG))
def test_each_error_says_what_is_wrong_and_what_is_allowed(tmp_path, snapshot, tables):
    """AWS would refuse it after minutes, ignore it, or bill it without use."""
    messages = {}
    for wrong in WRONG[tables]:
        (tmp_path / "test.toml").write_text(tomlkit.dumps({"model": MINILM} | wrong), "utf-8")
        with pytest.raises(EnvironmentFileError) as refused:
            load_environment("test", folder=tmp_path)
        messages[str(wrong)] = str(refused.value).replace(tmp_path.name, "environments")
    assert messages == snapshot


#: Next to each refusal: the forms, sizes and numbers that AWS takes.
RIGHT: list[dict[str, Any]] = [
    {**HERE, "front": {"callers": [CALLER], "authorizer": AUTHORIZER}},
    {**HERE, "front": {"callers": [CALLER], "firewall": {"web_acl": WEB_ACL}}},
    {**HERE, "encryption": {"key": KEY}, "existing": {"keys": [KEY]}},
    {"encryption": {"key": KEY.replace("key/", "key/mrk-")}},
    {"roles": {"permissions_boundary": "arn:aws:iam::111122223333:policy/team/boundary"}},
    {**HERE, "roles": {"permissions_boundary": "arn:aws:iam::aws:policy/PowerUserAccess"}},
    {"roles": {"path": "/team/search/"}},
    {"existing": {"repository": "team/embeddings", "role": "embedder"}},
    {"existing": {"role": "team/embedder", "log_group": "/team/embedder"}},
    {
        "existing": {"bucket": "team-artifacts"},
        "function": IN_S3,
        "cold_start": {"kind": "snapstart"},
    },
    {"region": "eu-central-1"},
    {"release": {}},
    {"release": {"allow_vector_space_change": True}},
    {"release": {"kind": "canary", "percent": 1, "interval": "2d"}},
    # 30, 60, 90 and 100 percent are three intervals.
    *(
        {"release": {"kind": "linear", "percent": percent, "interval": interval}}
        for percent, interval in ((1, "29m"), (30, "16h"), (50, "1m"), (99, "2d"))
    ),
    {"function": {"reserved_concurrency": 900}},
    {"function": {"reserved_concurrency": 1}},
    {
        "index": {
            "filterable": [str(n) for n in range(40)],
            "non_filterable": [*"abcdefgh", "x" * 63],
        }
    },
    # Names that begin alike are not one folder in another.
    {"batch": {"input": "s3://abc/text", "output": "s3://abc/texts"}},
    {"batch": BATCH | {"max_concurrency": 5, "reserved_concurrency": 5}},
    {
        "standby": {"name": "BAAI/bge-m3", "index_dimension": 1024, "dimensions": [1024]},
        "index": {},
        "ingest": {"chunk_tokens": 254, "overlap_tokens": 127},
    },
    {"model": GEMMA | {"dimensions": [128, 700]}, "index": {}, "ingest": {"chunk_tokens": 2046}},
    # Between those that it was trained for, and as long as its texts may be.
    {
        "model": {"name": "Qwen3-Embedding-0.6B", "dimensions": [384], "index_dimension": 384},
        "index": {},
        "ingest": {"chunk_tokens": 8192},
    },
    {"model": {"name": "potion-base-8M"}, "index": {}, "ingest": {"chunk_tokens": 8192}},
    {"reranker": {"name": "any/reranker"}, "function": {"truncate": "right"}},
    # Names that begin with _ are none of documents.
    *(
        {"index": {}, "ingest": {"source": "s3://docs/a", "questions": key}}
        for key in ("_watch/q.jsonl", "a/_watch/q.jsonl", "q.jsonl")
    ),
    *(
        {"cors": {"origins": [origin]}}
        for origin in (
            PAGE,
            "http://localhost:3000",
            "*",
            "https://a.b-c.example",
            "http://127.0.0.1:8080",
        )
    ),
    *_of(
        "server",
        SERVER | OPEN,
        *(
            {"cpu": cpu, "memory_mb": memory}
            for cpu, memory in (
                (256, 512),
                (256, 2048),
                (512, 3072),
                (1024, 8192),
                (4096, 30720),
                (16384, 40960),
            )
        ),
    ),
]


def test_what_aws_takes_is_accepted(tmp_path):
    """A rule that refuses too much would leave no way around it."""
    for right in RIGHT:
        (tmp_path / "test.toml").write_text(tomlkit.dumps({"model": MINILM} | right), "utf-8")
        assert load_environment("test", folder=tmp_path), right
