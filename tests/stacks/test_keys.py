"""The command that adds and revokes keys: CloudFront gets hashes, and the key is printed once."""

import hashlib
import json
from datetime import UTC, date, datetime

import pytest
from botocore.stub import ANY, Stubber

from stacks import keys
from stacks.keys import KeyStore, find_store, new_key
from tests.stacks.conftest import SESSION

ARN = "arn:aws:cloudfront::123456789012:key-value-store/1234abcd"
TODAY = date(2026, 11, 22)
DIGEST = hashlib.sha256(b"secret").hexdigest()


class _Session:
    """AWS clients with prepared answers; an unexpected call is an error."""

    def __init__(self):
        self.clients = {
            name: SESSION.create_client(
                name,
                region_name="us-east-1",
                aws_access_key_id="none",
                aws_secret_access_key="none",
            )
            for name in ("cloudformation", "cloudfront-keyvaluestore")
        }
        self.stubs = {name: Stubber(client) for name, client in self.clients.items()}

    def create_client(self, name, *, region_name=None):
        assert region_name in {None, "eu-central-1"}
        self.stubs[name].activate()
        return self.clients[name]

    @property
    def store(self):
        return self.stubs["cloudfront-keyvaluestore"]

    def deployed(self, outputs):
        self.stubs["cloudformation"].add_response(
            "describe_stacks",
            {
                "Stacks": [
                    {
                        "StackName": "EmbeddingKit-dev-Front",
                        "CreationTime": datetime(2026, 11, 22, tzinfo=UTC),
                        "StackStatus": "CREATE_COMPLETE",
                        "Outputs": [
                            {"OutputKey": key, "OutputValue": value}
                            for key, value in outputs.items()
                        ],
                    }
                ]
            },
            {"StackName": "EmbeddingKit-dev-Front"},
        )

    def has(self, items):
        self.store.add_response(
            "list_keys",
            {"Items": [{"Key": key, "Value": value} for key, value in items.items()]},
            {"KvsARN": ARN, "MaxResults": 50},
        )

    def tagged(self, tag="E1"):
        described = {
            "ItemCount": 1,
            "TotalSizeInBytes": 1,
            "KvsARN": ARN,
            "Created": datetime(2026, 11, 22, tzinfo=UTC),
            "ETag": tag,
        }
        self.store.add_response("describe_key_value_store", described, {"KvsARN": ARN})


@pytest.fixture
def session():
    made = _Session()
    yield made
    for stub in made.stubs.values():
        stub.assert_no_pending_responses()


@pytest.fixture
def store(session):
    return KeyStore(session.create_client("cloudfront-keyvaluestore"), ARN)


@pytest.fixture
def run(session, environments, monkeypatch, capsys):
    """Run the command on an environment with CloudFront; return its status and output."""
    session.deployed({"KeyStoreArn": ARN})
    monkeypatch.setattr(keys, "get_session", lambda: session)
    monkeypatch.setattr(keys, "load_environment", lambda *_, **__: environments["cloudfront"])

    def command(*arguments):
        status = keys.main(["dev", *arguments])
        return status, *capsys.readouterr()

    return command


def value(caller, created="2026-11-01"):
    return json.dumps({"caller": caller, "created": created})


def test_a_new_key_is_printed_once_and_only_its_hash_is_stored(session, run, monkeypatch):
    """Standard output has the key alone, for a program that keeps it."""
    monkeypatch.setattr(keys, "new_key", lambda: "secret")
    session.tagged()
    session.store.add_response(
        "put_key",
        {"ItemCount": 1, "TotalSizeInBytes": 1, "ETag": "E2"},
        {"KvsARN": ARN, "IfMatch": "E1", "Key": DIGEST, "Value": ANY},
    )
    status, out, err = run("add", "search")
    assert (status, out) == (0, "secret\n")
    assert f"The new key {DIGEST[:12]} of search" in err
    assert "secret" not in err


def test_keys_are_listed_by_their_ids(session, run):
    """With the caller and the day; an entry of another program is listed, too."""
    other = hashlib.sha256(b"other").hexdigest()
    session.has({other: "true", DIGEST: value("search")})
    status, out, _ = run("list")
    assert status == 0
    assert out.splitlines() == [
        f"{DIGEST[:12]}  2026-11-01  search",
        f"{other[:12]}  0001-01-01  unknown",
    ]


def test_a_key_is_revoked_by_its_id(session, run):
    """Its hash is removed."""
    session.has({DIGEST: value("search")})
    session.tagged()
    session.store.add_response(
        "delete_key",
        {"ItemCount": 0, "TotalSizeInBytes": 0, "ETag": "E2"},
        {"KvsARN": ARN, "IfMatch": "E1", "Key": DIGEST},
    )
    status, out, _ = run("revoke", DIGEST[:12])
    assert status == 0
    assert out == f"The key {DIGEST[:12]} of search is refused from now on.\n"


def test_an_unknown_id_revokes_nothing(session, run):
    """The error names the ids that there are."""
    session.has({DIGEST: value("search")})
    status, out, err = run("revoke", DIGEST[:4])
    assert (status, out) == (1, "")
    assert f"no key has this id; found: {DIGEST[:4]}; allowed: {DIGEST[:12]}" in err


def test_a_change_at_the_same_time_is_refused_and_can_be_repeated(session, run):
    """CloudFront refuses the older tag; nothing was changed."""
    session.tagged()
    session.store.add_client_error("put_key", "ConflictException")
    status, out, err = run("add", "search")
    assert (status, out) == (1, "")
    assert "could not be read or changed, run it again" in err


@pytest.mark.parametrize("name", ["Search", "a--b", "", "a" * 41])
def test_a_caller_has_a_short_name(name, capsys):
    """Before anything is looked up."""
    assert keys.main(["dev", "add", name]) == 1
    assert "a caller has a short name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("front", "found: front.kind = api-gateway; allowed: front.kind"),
        ("dev", "found: front.kind = none"),
    ],
)
def test_another_front_has_no_such_keys(session, environments, name, message):
    """API Gateway makes its keys by the environment's file."""
    with pytest.raises(ValueError, match=message):
        find_store(session, environments[name])


def test_a_front_that_is_not_deployed_has_no_store(session, environments):
    """Whether its stack is missing, or is that of API Gateway."""
    session.stubs["cloudformation"].add_client_error("describe_stacks", "ValidationError")
    session.deployed({"Url": "https://example.com/"})
    for _ in range(2):
        with pytest.raises(ValueError, match="allowed: after scripts/deploy dev"):
            find_store(session, environments["cloudfront"])


def test_requests_are_signed_for_every_region():
    """The store takes signatures of version 4A alone, at a name of the account's own."""
    sent = []

    def answer(request, **_):
        sent.append(request)
        raise RuntimeError("not sent")

    client = SESSION.create_client(
        "cloudfront-keyvaluestore",
        region_name="eu-central-1",
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="none",
    )
    client.meta.events.register("before-send", answer)
    with pytest.raises(RuntimeError, match="not sent"):
        KeyStore(client, ARN).add("secret", "search", TODAY)
    (request,) = sent
    assert request.url.startswith("https://123456789012.cloudfront-kvs.global.api.aws/")
    assert request.headers["Authorization"].startswith(b"AWS4-ECDSA-P256-SHA256 ")
    assert request.headers["X-Amz-Region-Set"] == b"*"


def test_keys_are_random():
    """256 bits, which no list of hashes has."""
    made = {new_key() for _ in range(100)}
    assert len(made) == 100
    assert all(len(key) == len("embk_") + 43 and key.isascii() for key in made)


def test_the_store_returns_what_it_added(session, store):
    """The id, the caller and the day."""
    session.tagged()
    session.store.add_response(
        "put_key",
        {"ItemCount": 1, "TotalSizeInBytes": 1, "ETag": "E2"},
        {"KvsARN": ARN, "IfMatch": "E1", "Key": DIGEST, "Value": value("search", "2026-11-22")},
    )
    key = store.add("secret", "search", TODAY)
    assert (key.id, key.caller, key.created) == (DIGEST[:12], "search", TODAY)
