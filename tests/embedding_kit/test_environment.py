"""Test reading `environments/NAME.toml`."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from embedding_kit import Release
from embedding_kit.environment import EnvironmentSettings
from embedding_kit.environment_file import EnvironmentFileError, load_environment

ROOT = Path(__file__).resolve().parents[2]
MINILM = '[model]\nname = "sentence-transformers/all-MiniLM-L6-v2"\n'


@pytest.fixture
def load(tmp_path: Path):
    """Load an environment file with this content, and with a model unless it has one."""
    folder = tmp_path / "environments"
    folder.mkdir()

    def read(text: str) -> EnvironmentSettings:
        (folder / "test.toml").write_text(text if "[model]" in text else text + "\n" + MINILM)
        return load_environment("test", folder=folder)

    return read


@pytest.fixture
def refusal(load):
    """Return the error message for an environment file with this content."""

    def message(text: str) -> str:
        with pytest.raises(EnvironmentFileError) as refused:
            load(text)
        return str(refused.value)

    return message


def test_a_model_is_all_that_must_be_said(load):
    """Every setting except the model has a default."""
    environment = load(MINILM)
    assert environment.name == "test"
    assert environment.function.memory_mb == 2048
    assert environment.cold_start is None
    assert environment.release.kind == "all-at-once"
    assert environment.callers.principals == ()
    assert environment.budget is None


def test_an_environment_is_frozen(load):
    """A setting cannot change on its way to the construct that uses it."""
    with pytest.raises(ValidationError, match="frozen"):
        load(MINILM).function.memory_mb = 4096


def test_paths_are_read_from_the_files_own_folder(load, tmp_path):
    """A relative path does not depend on the current directory."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "faq.json").write_text("[]")
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
                "package, artifact, memory_mb, timeout, ephemeral_storage_mb, log_retention_days, "
                "reserved_concurrency, account_concurrency, truncate, cache_entries"
            ),
        ),
        (
            "[functions]\nmemory_mb = 2048",
            (
                "environments/test.toml: functions: unknown key; found: {'memory_mb': 2048}; "
                "allowed here: account, region, tags, removal_policy, termination_protection, model, function, cold_start, release, "
                "experiment, callers, cors, front, network, observability, alarms, budget, repository, batch, index, server, encryption, roles, existing"
            ),
        ),
        (
            '[function]\ntimeout = "16m"',
            (
                "environments/test.toml: function.timeout: Lambda takes a timeout in whole seconds, up to 15 minutes; "
                "found: 16m; allowed: whole seconds, 1s to 15m"
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
                'allowed: one of "snapstart", "provisioned"'
            ),
        ),
        (
            "[cold_start]\nminimum = 1",
            (
                "environments/test.toml: cold_start.kind: found: nothing; "
                'allowed: one of "snapstart", "provisioned"'
            ),
        ),
        (
            '[cold_start]\nkind = "snapstart"\nminimum = 1',
            "environments/test.toml: cold_start.minimum: unknown key; found: 1; allowed here: kind",
        ),
        (
            '[callers]\nprincipals = ["search"]',
            (
                'environments/test.toml: callers.principals[0]: found: "search"; '
                "allowed: the ARN of a role or a user, such as arn:aws:iam::111122223333:role/search"
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
            '[callers]\norganization = "acme"',
            (
                'environments/test.toml: callers.organization: found: "acme"; '
                "allowed: an organization's id such as o-a1b2c3d4e5; "
                "its units belong into organizational_units"
            ),
        ),
        (
            '[alarms]\nemails = ["ops"]',
            'environments/test.toml: alarms.emails[0]: found: "ops"; allowed: an e-mail address',
        ),
        (
            '[alarms]\nexpected_traffic_interval = "2d"',
            (
                "environments/test.toml: alarms.expected_traffic_interval: the alarm counts requests in periods of 5 minutes, over a day at most; "
                "found: 2d; allowed: 5m to 1d, in steps of 5m"
            ),
        ),
        (
            'account = "111122223333"',
            (
                "environments/test.toml: the file: an account is given together with its region; "
                "found: account = 111122223333, no region; allowed: both of them, region alone, or neither"
            ),
        ),
        (
            '[tags]\n"aws:owner" = "me"',
            (
                "environments/test.toml: tags: AWS takes no such tag; found: aws:owner = me; "
                "allowed: keys of 1 to 128 characters that do not start with aws:, values of up to 256; "
                "letters, digits, spaces and _ . : / = + - @"
            ),
        ),
        (
            '[tags]\nEmbeddingKit = "shared"',
            (
                "environments/test.toml: tags: the tag EmbeddingKit holds the environment's name, by which the budget "
                "finds costs; found: EmbeddingKit; allowed: any other key"
            ),
        ),
        (
            '[tags]\nembeddingkit = "shared"',
            (
                "environments/test.toml: tags: the tag EmbeddingKit holds the environment's name, by which the budget "
                "finds costs; found: embeddingkit; allowed: any other key"
            ),
        ),
        (
            '[tags]\nTeam = "search"\nteam = "search"',
            (
                "environments/test.toml: tags: IAM takes a tag's key once, in whatever case; "
                "found: Team, team; allowed: one of them"
            ),
        ),
        (
            '[tags]\nteam = "a & b"',
            (
                "environments/test.toml: tags: AWS takes no such tag; found: team = a & b; "
                "allowed: keys of 1 to 128 characters that do not start with aws:, values of up to 256; "
                "letters, digits, spaces and _ . : / = + - @"
            ),
        ),
        (
            "[tags]\n" + "\n".join(f'k{number} = "v"' for number in range(49)),
            (
                "environments/test.toml: tags: AWS takes 50 tags for a resource, and two are the kit's own; "
                "found: 49 tags; allowed: up to 48"
            ),
        ),
        (
            '[function]\ntimeout = "1500ms"',
            (
                "environments/test.toml: function.timeout: Lambda takes a timeout in whole seconds, up to 15 minutes; "
                "found: 1500ms; allowed: whole seconds, 1s to 15m"
            ),
        ),
        (
            '[function]\ntimeout = "999ms"',
            (
                "environments/test.toml: function.timeout: Lambda takes a timeout in whole seconds, up to 15 minutes; "
                "found: 999ms; allowed: whole seconds, 1s to 15m"
            ),
        ),
        (
            '[function]\ntimeout = "99999999999999999999d"',
            (
                "environments/test.toml: function.timeout: a duration has up to 9 digits; found: 99999999999999999999d; "
                'allowed: a whole number and a unit of ms, s, m, h or d, such as "30s"'
            ),
        ),
        (
            '[alarms]\nduration_p99 = "999999999d"',
            (
                "environments/test.toml: the file: Lambda ends a request at the timeout, so the alarm could never fire; "
                "found: alarms.duration_p99 = 999999999d with function.timeout = 30s; "
                "allowed: less than 30s, or a longer timeout"
            ),
        ),
        (
            "[budget]\nmonthly_usd = inf",
            "environments/test.toml: budget.monthly_usd: found: inf; allowed: a number from 1 to 1000000",
        ),
        (
            "[budget]\nmonthly_usd = nan",
            "environments/test.toml: budget.monthly_usd: found: nan; allowed: a number from 1 to 1000000",
        ),
        (
            '[alarms]\nemails = ["ops@example.com", "ops@example.com"]',
            (
                "environments/test.toml: alarms.emails: a value is given twice; found: ops@example.com; "
                "allowed: each value once"
            ),
        ),
        (
            '[callers]\naccounts = ["111122223333", "444455556666", "111122223333"]',
            (
                "environments/test.toml: callers.accounts: a value is given twice; found: 111122223333; "
                "allowed: each value once"
            ),
        ),
        (
            '[callers]\nprincipals = ["arn:aws:iam::111122223333:role/a", "arn:aws:iam::111122223333:role/a"]',
            (
                "environments/test.toml: callers.principals: a value is given twice; found: arn:aws:iam::111122223333:role/a; "
                "allowed: each value once"
            ),
        ),
        (
            MINILM + "dimensions = [256, 128, 256]",
            "environments/test.toml: model.dimensions: a value is given twice; found: 256; allowed: each value once",
        ),
        (
            MINILM + 'base_image = "public.ecr.aws/lambda/python:3.13-arm64"',
            (
                'environments/test.toml: model.base_image: found: "public.ecr.aws/lambda/python:3.13-arm64"; '
                "allowed: an image by its digest, as `scripts/base-image` pins it: "
                "public.ecr.aws/lambda/python:3.13-arm64@sha256:..."
            ),
        ),
        (
            '[function]\nmemory_mb = 128\n[model]\nname = "google/embeddinggemma-300m"\naccept_license = "gemma"\nprecision = "fp32"',
            (
                "environments/test.toml: the file: google/embeddinggemma-300m as fp32 does not fit into the "
                "function's memory; found: function.memory_mb = 128; allowed: 512 or more"
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
            'removal_policy = "keep"',
            (
                'environments/test.toml: removal_policy: found: "keep"; '
                'allowed: one of "retain", "destroy"'
            ),
        ),
        (
            "[model]",
            (
                "environments/test.toml: model.name: missing; found: nothing; "
                "allowed: a catalog name such as google/embeddinggemma-300m"
            ),
        ),
        (
            '[model]\nname = "google/embeddinggemma-300m"',
            (
                "environments/test.toml: model: google/embeddinggemma-300m comes under terms that you "
                "have to accept yourself: https://ai.google.dev/gemma/terms; found: no accept_license; "
                'allowed: accept_license = "gemma", once you have read them; or another model'
            ),
        ),
        ("memory = ", "environments/test.toml is not TOML: Invalid value (at line 1, column 10)"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(refusal, text, message):
    """One line has the file, the key, the value found and the values allowed."""
    assert refusal(text) == message


@pytest.mark.parametrize("path", ["nowhere", "", "a\\u0000b", "x" * 300])
def test_a_models_folder_that_is_not_there_is_named(refusal, tmp_path, path):
    """The image's build would otherwise fetch the model of that name from the hub."""
    message = refusal(f'{MINILM}folder = "{path}"')
    assert message.startswith(
        "environments/test.toml: model.folder: the path leads to no such thing; found: "
    )
    assert message.endswith(
        "allowed: the path of a sentence-transformers folder, which holds modules.json, "
        "absolute or from the file's own folder"
    )


def test_the_image_takes_a_folder_by_the_file_that_is_asked_for_here():
    """Synth and the compiler recognize a model folder by the same file."""
    dockerfile = (ROOT / "lambda_image" / "Dockerfile").read_text()
    assert "if [ -e /folder/modules.json ]" in dockerfile


def test_a_models_folder_that_is_there_is_taken(load, tmp_path):
    """A fine-tuned model in a folder beside the environments' folder is accepted."""
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "modules.json").write_text("[]")
    assert load(MINILM + 'folder = "../tuned"').model.folder == tmp_path / "tuned"


def test_a_file_of_texts_that_is_not_there_is_named(refusal, tmp_path):
    """A missing file of texts is named in the error, and so is a folder in its place."""
    assert refusal(MINILM + 'index = ".."') == (
        "environments/test.toml: model.index: the path leads to no such thing; "
        f"found: {tmp_path}; allowed: the path of a file of texts, absolute or from the file's own folder"
    )


def test_a_byte_order_mark_is_accepted(load):
    """Some editors on Windows write a byte order mark before UTF-8."""
    assert load("\ufeff" + MINILM).model.name.endswith("MiniLM-L6-v2")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            MINILM.encode("utf-16"),
            (
                "environments/test.toml is not TOML; found: the byte 0xff at offset 0; "
                "allowed: text in UTF-8"
            ),
        ),
        (
            b"a = " + b"[" * 5000,
            (
                "environments/test.toml is not TOML; found: values nested too deeply; "
                "allowed: a table in a table"
            ),
        ),
        (b"a = 1" + b"0" * 5000, "environments/test.toml is not TOML: Exceeds the limit"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, content, message):
    """An unreadable file gives a one-line error without a traceback."""
    folder = tmp_path / "environments"
    folder.mkdir()
    (folder / "test.toml").write_bytes(content)
    with pytest.raises(EnvironmentFileError) as refused:
        load_environment("test", folder=folder)
    assert str(refused.value).startswith(message)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["a--b", "dash-", "Dev", "a_b", "a" * 32])
def test_a_files_name_that_ecr_would_refuse_is_named(tmp_path, name):
    """The environment's name is part of the repository's name."""
    folder = tmp_path / "environments"
    folder.mkdir()
    (folder / f"{name}.toml").write_text(MINILM)
    with pytest.raises(EnvironmentFileError) as refused:
        load_environment(name, folder=folder)
    assert str(refused.value) == (
        f"environments/{name}.toml: the file's name is not allowed, for it becomes a part of the repository's; "
        f"found: {name}; allowed: 1 to 31 lower-case letters and digits, a letter first, "
        "with single hyphens between them"
    )


@pytest.mark.parametrize("name", ["a", "a1", "eu-1-dev", "a" * 31])
def test_a_files_name_that_ecr_takes_is_the_environments(tmp_path, name):
    """Hyphens are allowed between letters and digits."""
    (tmp_path / f"{name}.toml").write_text(MINILM)
    assert load_environment(name, folder=tmp_path).name == name


def test_a_region_needs_no_account(load):
    """Without an account, the account of the deploying shell is used."""
    environment = load('region = "eu-central-1"')
    assert (environment.account, environment.region) == (None, "eu-central-1")


def test_everything_that_is_wrong_is_told_at_once(refusal):
    """An error lists all mistakes of a file at once."""
    assert refusal("[function]\nmemory_mb = 1\ncache_entries = -1").splitlines() == [
        (
            "environments/test.toml: function.memory_mb: found: 1; "
            "allowed: a whole number from 128 to 10240"
        ),
        "environments/test.toml: function.cache_entries: found: -1; allowed: a whole number from 0 to 1000000",
    ]


def test_a_long_value_is_cut(refusal):
    """A long value must not hide the values allowed."""
    assert f'found: "{"x" * 79}...' in refusal(f'[callers]\nprincipals = ["{"x" * 500}"]')


@pytest.mark.parametrize(
    ("text", "release", "cold_start"),
    [
        (
            "[release]\nallow_vector_space_change = true",
            Release(allow_vector_space_change=True),
            None,
        ),
        ("[release]", Release(), None),
        ('[release]\nkind = "canary"', Release(kind="canary"), None),
    ],
)
def test_a_table_without_a_kind_has_the_defaults(load, text, release, cold_start):
    """The runbook's settings are accepted in a file that does not have the table yet."""
    environment = load(text)
    assert (environment.release, environment.cold_start) == (release, cold_start)


@pytest.mark.parametrize("name", ["nowhere", "../dev", "", "DEV", "a/b"])
def test_an_unknown_environment_is_answered_with_those_that_are_there(tmp_path, name):
    """A name without a file, or an invalid name, never leads out of the folder."""
    (tmp_path / "dev.toml").write_text(MINILM)
    with pytest.raises(EnvironmentFileError) as error:
        load_environment(name, folder=tmp_path)
    assert str(error.value) == f"there is no environment {name!r}; allowed: dev"


def test_a_license_that_is_accepted_by_name_is_accepted(load):
    """A license can be accepted by the name of its terms."""
    text = '[model]\nname = "google/embeddinggemma-300m"\naccept_license = "gemma"\n'
    assert load(text).model.accept_license == "gemma"
