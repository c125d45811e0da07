"""Reading `environments/NAME.toml`."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from embedding_kit.environment import Environment, EnvironmentFileError, load_environment

MINILM = '[model]\nname = "sentence-transformers/all-MiniLM-L6-v2"\n'


@pytest.fixture
def load(tmp_path: Path):
    """Load what an environment's file would say, with a model in front of it unless it has one."""
    folder = tmp_path / "environments"
    folder.mkdir()

    def read(text: str) -> Environment:
        (folder / "test.toml").write_text(text if "[model]" in text else text + "\n" + MINILM)
        return load_environment("test", folder=folder)

    return read


@pytest.fixture
def refusal(load):
    """Return the message that an environment's file is refused with."""

    def message(text: str) -> str:
        with pytest.raises(EnvironmentFileError) as refused:
            load(text)
        return str(refused.value)

    return message


def test_a_model_is_all_that_must_be_said(load):
    """Everything but the model has a default."""
    environment = load(MINILM)
    assert environment.name == "test"
    assert environment.function.memory_mb == 2048
    assert environment.cold_start.kind == "none"
    assert environment.release.kind == "all-at-once"
    assert environment.callers.roles == ()
    assert environment.budget is None


def test_an_environment_is_frozen(load):
    """Nobody changes a setting on its way to the construct that uses it."""
    with pytest.raises(ValidationError, match="frozen"):
        load(MINILM).function.memory_mb = 4096


def test_paths_are_read_from_the_files_own_folder(load, tmp_path):
    """A relative path does not depend on where the command was typed."""
    environment = load(MINILM + 'index = "../texts/faq.json"\n')
    assert environment.model.index == tmp_path / "texts" / "faq.json"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[function]\nmemory_mb = 128000",
            (
                "environments/test.toml: function.memory_mb: found: 128000; "
                "allowed: a whole number from 128 to 10240"
            ),
        ),
        (
            '[function]\nmemory_mb = "2048"',
            (
                'environments/test.toml: function.memory_mb: found: "2048"; '
                "allowed: a whole number from 128 to 10240"
            ),
        ),
        (
            "[function]\nmemory = 2048",
            (
                "environments/test.toml: function.memory: unknown key; found: 2048; allowed here: "
                "memory_mb, timeout, ephemeral_storage_mb, log_retention_days, reserved_concurrency, "
                "account_concurrency, truncate, max_characters, cache_entries, threads"
            ),
        ),
        (
            "[functions]\nmemory_mb = 2048",
            (
                "environments/test.toml: functions: unknown key; found: {'memory_mb': 2048}; "
                "allowed here: account, region, tags, model, function, cold_start, release, "
                "experiment, callers, alarms, budget, repository"
            ),
        ),
        (
            '[function]\ntimeout = "16m"',
            (
                "environments/test.toml: function.timeout: a Lambda function runs that long at most; "
                "found: 16m; allowed: 1s to 15m"
            ),
        ),
        (
            "[function]\ntimeout = 30",
            (
                "environments/test.toml: function.timeout: a duration is expected; found: 30; "
                'allowed: a whole number and a unit of ms, s, m, h or d, such as "30s"'
            ),
        ),
        (
            "[function]\nephemeral_storage_mb = 256",
            (
                "environments/test.toml: function.ephemeral_storage_mb: found: 256; "
                "allowed: a whole number from 512 to 10240"
            ),
        ),
        (
            "[function]\nlog_retention_days = 8",
            (
                "environments/test.toml: function.log_retention_days: CloudWatch Logs keeps logs for "
                "certain spans only; found: 8; allowed: one of 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, "
                "180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653"
            ),
        ),
        (
            "[function]\nreserved_concurrency = 950",
            (
                "environments/test.toml: function: Lambda keeps 100 of the account's concurrency "
                "unreserved; found: reserved_concurrency = 950 of account_concurrency = 1000; "
                "allowed: 1 to 900"
            ),
        ),
        (
            "[function]\nreserved_concurrency = 5\naccount_concurrency = 10",
            (
                "environments/test.toml: function: Lambda keeps 100 of the account's concurrency "
                "unreserved; found: reserved_concurrency = 5 of account_concurrency = 10; "
                "allowed: none; ask AWS for a higher quota first"
            ),
        ),
        (
            '[function]\ntruncate = "middle"',
            (
                'environments/test.toml: function.truncate: found: "middle"; '
                'allowed: one of "refuse", "right", "left"'
            ),
        ),
        (
            '[cold_start]\nkind = "warm"',
            (
                'environments/test.toml: cold_start.kind: found: "warm"; '
                'allowed: one of "none", "snapstart", "provisioned"'
            ),
        ),
        (
            "[cold_start]\nminimum = 1",
            (
                "environments/test.toml: cold_start.kind: found: nothing; "
                'allowed: one of "none", "snapstart", "provisioned"'
            ),
        ),
        (
            '[cold_start]\nkind = "none"\nminimum = 1',
            "environments/test.toml: cold_start.minimum: unknown key; found: 1; allowed here: kind",
        ),
        (
            '[callers]\nroles = ["search"]',
            (
                'environments/test.toml: callers.roles[0]: found: "search"; '
                "allowed: a role's ARN such as arn:aws:iam::111122223333:role/search"
            ),
        ),
        (
            "[callers]\naccounts = [111122223333]",
            (
                "environments/test.toml: callers.accounts[0]: found: 111122223333; "
                "allowed: an account number of 12 digits, as text"
            ),
        ),
        (
            '[callers]\norganisation = "acme"',
            (
                'environments/test.toml: callers.organisation: found: "acme"; '
                "allowed: an organisation's id such as o-a1b2c3d4e5"
            ),
        ),
        (
            "[budget]",
            (
                "environments/test.toml: budget.monthly_usd: missing; found: nothing; "
                "allowed: a number above 0"
            ),
        ),
        (
            '[alarms]\nemails = ["ops"]',
            'environments/test.toml: alarms.emails[0]: found: "ops"; allowed: an e-mail address',
        ),
        (
            '[alarms]\ntraffic_every = "2d"',
            (
                "environments/test.toml: alarms.traffic_every: an alarm looks back a day at most; "
                "found: 2d; allowed: 5m to 1d"
            ),
        ),
        (
            'account = "111122223333"',
            (
                "environments/test.toml: the file: account and region are given together; "
                "found: account = 111122223333, region = None; allowed: both of them or neither"
            ),
        ),
        (
            '[tags]\n"aws:owner" = "me"',
            (
                "environments/test.toml: tags: AWS takes no such tag; found: aws:owner = me; "
                "allowed: keys of 1 to 128 characters, not from aws: on; values up to 256"
            ),
        ),
        (
            'name = "other"',
            (
                'environments/test.toml: name: found: "other"; '
                "allowed: no such key, for the file's name is the environment's"
            ),
        ),
        (
            '[repository]\non_destroy = "keep"',
            (
                'environments/test.toml: repository.on_destroy: found: "keep"; '
                'allowed: one of "retain", "delete"'
            ),
        ),
        (
            "[model]",
            (
                "environments/test.toml: model.name: missing; found: nothing; "
                "allowed: a catalogue name such as google/embeddinggemma-300m"
            ),
        ),
        (
            '[model]\nname = "google/embeddinggemma-300m"',
            (
                "environments/test.toml: model: google/embeddinggemma-300m comes under terms that you "
                "have to accept yourself: https://ai.google.dev/gemma/terms; found: no accept_licence; "
                'allowed: accept_licence = "gemma", once you have read them; or another model'
            ),
        ),
        ("memory = ", "environments/test.toml is not TOML: Invalid value (at line 1, column 10)"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(refusal, text, message):
    """File, key, what was found and what is allowed stand in one line."""
    assert refusal(text) == message


def test_everything_that_is_wrong_is_told_at_once(refusal):
    """A file with two mistakes is mended in one go."""
    assert refusal("[function]\nmemory_mb = 1\nthreads = 9").splitlines() == [
        (
            "environments/test.toml: function.memory_mb: found: 1; "
            "allowed: a whole number from 128 to 10240"
        ),
        "environments/test.toml: function.threads: found: 9; allowed: a whole number from 1 to 6",
    ]


def test_a_long_value_is_cut(refusal):
    """What was found must not hide what is allowed."""
    assert f'found: "{"x" * 79}...' in refusal(f'[callers]\nroles = ["{"x" * 500}"]')


@pytest.mark.parametrize("name", ["nowhere", "../dev", "", "DEV", "a/b"])
def test_an_unknown_environment_is_answered_with_those_that_are_there(tmp_path, name):
    """A name that is no file, or no name at all, never leaves the folder."""
    (tmp_path / "dev.toml").write_text(MINILM)
    with pytest.raises(EnvironmentFileError, match=r"allowed: dev$"):
        load_environment(name, folder=tmp_path)


def test_a_licence_that_is_accepted_by_name_is_accepted(load):
    """The terms' own name says what was accepted."""
    text = '[model]\nname = "google/embeddinggemma-300m"\naccept_licence = "gemma"\n'
    assert load(text).model.accept_licence == "gemma"
