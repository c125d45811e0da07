"""Test reading `environments/NAME.toml`."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from embedding_kit.programs import python_version
from embedding_kit.settings.model import FOLDER_HOLDS
from stacks.environment import EnvironmentSettings
from stacks.environment_file import EnvironmentFileError, load_environment

ROOT = Path(__file__).resolve().parents[2]
MINILM = '[model]\nname = "sentence-transformers/all-MiniLM-L6-v2"\n'


@pytest.fixture
def load(folder: Path):
    """Load an environment file with this content, and with a model unless it has one."""

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


def test_reading_an_environment_does_not_import_the_cdk():
    """The CDK starts Node.js, which takes seconds, and the operations only read."""
    modules = "stacks.environment_file, stacks.key_policy, stacks.names, stacks.standing_cost"
    program = f"import sys, {modules}\nassert not {{'aws_cdk', 'jsii'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


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


def test_a_region_is_checked_for_what_the_file_has(load, refusal, folder):
    """A budget keeps an environment out of some regions, but not its branches, which have none."""
    budget = 'region = "eu-north-1"\n[budget]\nmonthly_usd = 5\n'
    assert "eu-north-1 lacks CloudFormation's budgets, which [budget] needs" in refusal(budget)
    assert load_environment("test/pr-1", folder=folder).region == "eu-north-1"
    assert load(budget.partition("[")[0]).region == "eu-north-1"
    snapstart = 'region = "ap-southeast-6"\n[cold_start]\nkind = "snapstart"\n'
    assert "SnapStart" in refusal(snapstart + '[function]\npackage = "zip"\n')
    assert "S3 Vectors" in refusal('region = "me-central-1"\n[index]\n')


#: What a person may get wrong in a file. The snapshot has the message of each.
WRONG = (
    "[function]\nmemory_mb = 128000",
    '[function]\nmemory_mb = "2048"',
    "[function]\nmemory = 2048",
    "[functions]\nmemory_mb = 2048",
    '[function]\ntimeout = "16m"',
    "[function]\ntimeout = 30",
    "[function]\nlog_retention_days = 8",
    "[function]\nreserved_concurrency = 950",
    "[function]\nreserved_concurrency = 5\naccount_concurrency = 10",
    '[function]\ntruncate = "middle"',
    '[cold_start]\nkind = "warm"',
    "[cold_start]\nminimum = 1",
    '[cold_start]\nkind = "snapstart"\nminimum = 1',
    '[callers]\nprincipals = ["search"]',
    "[callers]\nprincipals = [111122223333]",
    '[alarms]\nemails = ["ops"]',
    '[alarms]\nexpected_traffic_interval = "2d"',
    '[alarms]\npage_topic = "on-call"',
    'region = "us-east-1"\n[alarms]\npage_topic = "arn:aws:sns:eu-west-1:111122223333:on-call"',
    'account = "111122223333"',
    '[tags]\n"aws:owner" = "me"',
    '[tags]\nEmbeddingKit = "shared"',
    '[tags]\nembeddingkit = "shared"',
    '[tags]\nTeam = "search"\nteam = "search"',
    '[tags]\nteam = "a & b"',
    "[tags]\n" + "\n".join(f'k{number} = "v"' for number in range(49)),
    '[function]\ntimeout = "1500ms"',
    '[function]\ntimeout = "999ms"',
    '[function]\ntimeout = "99999999999999999999d"',
    '[alarms]\nduration_p99 = "999999999d"',
    "[budget]\nmonthly_usd = inf",
    "[budget]\nmonthly_usd = nan",
    '[alarms]\nemails = ["ops@example.com", "ops@example.com"]',
    '[callers]\nprincipals = ["arn:aws:iam::111122223333:role/a", "arn:aws:iam::111122223333:role/a"]',
    MINILM + "dimensions = [256, 128, 256]",
    MINILM + 'base_image = "public.ecr.aws/lambda/python:3.13-arm64"',
    '[function]\nmemory_mb = 128\n[model]\nname = "google/embeddinggemma-300m"\naccept_license = "gemma"\nprecision = "fp32"',
    'name = "other"',
    'removal_policy = "keep"',
    "[model]",
    '[model]\nname = "google/embeddinggemma-300m"',
    "memory = ",
    # Two mistakes in one file, and a value that is too long to show whole.
    "[function]\nmemory_mb = 1\ncache_entries = -1",
    f'[callers]\nprincipals = ["{"x" * 500}"]',
)


def test_what_is_wrong_is_named_with_what_is_allowed(refusal, snapshot):
    """One line has the file, the key, the value found and the values allowed."""
    assert {text: refusal(text) for text in WRONG} == snapshot


def test_a_base_image_of_another_python_is_refused(refusal):
    """The packages of the image are wheels of one Python; another one finds none of them."""
    pinned = f"mirror.example:5000/lambda/python:3.9-arm64@sha256:{'a' * 64}"
    assert f"; allowed: Python {python_version()}, which" in refusal(
        f'{MINILM}base_image = "{pinned}"'
    )


@pytest.mark.parametrize("path", ["nowhere", "", "a\\u0000b", "x" * 300])
def test_a_models_folder_that_is_not_there_is_named(refusal, tmp_path, path):
    """The image's build would otherwise fetch the model of that name from the hub."""
    message = refusal(f'{MINILM}folder = "{path}"')
    assert message.startswith(
        "environments/test.toml: model.folder: the path leads to no such thing; found: "
    )
    assert message.endswith(
        "allowed: the path of a sentence-transformers folder, which holds modules.json or "
        "adapter_config.json or config.json, absolute or from the file's own folder"
    )


@pytest.mark.parametrize("name", FOLDER_HOLDS)
def test_a_models_folder_that_is_there_is_taken(load, tmp_path, name):
    """A fine-tuned model in a folder next to the environments' folder needs no other name."""
    (tmp_path / "my tuned model").mkdir()
    (tmp_path / "my tuned model" / name).write_text("[]")
    named = load(MINILM + 'folder = "../my tuned model"').model
    model = load('[model]\nfolder = "../my tuned model"').model
    assert model.folder == named.folder == tmp_path / "my tuned model"
    assert (model.name, named.name) == ("my-tuned-model", "sentence-transformers/all-MiniLM-L6-v2")


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
def test_a_file_that_cannot_be_read_is_named(folder, content, message):
    """An unreadable file gives a one-line error without a traceback."""
    (folder / "test.toml").write_bytes(content)
    with pytest.raises(EnvironmentFileError) as refused:
        load_environment("test", folder=folder)
    assert str(refused.value).startswith(message)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["a--b", "dash-", "Dev", "a_b", "a" * 32])
def test_a_files_name_that_ecr_would_refuse_is_named(folder, name):
    """The environment's name is part of the repository's name."""
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


@pytest.mark.parametrize("name", ["nowhere", "../dev", "", "DEV", "a/b"])
def test_an_unknown_environment_is_answered_with_those_that_are_there(tmp_path, name):
    """A name without a file, or an invalid name, never leads out of the folder."""
    (tmp_path / "dev.toml").write_text(MINILM)
    with pytest.raises(EnvironmentFileError) as error:
        load_environment(name, folder=tmp_path)
    assert str(error.value) == f"there is no environment {name!r}; allowed: dev"


def test_the_second_embedding_gemma_has_no_terms_to_accept(load):
    """Apache-2.0 asks for nothing, and the memory measured for the first is not its own."""
    model = load('[model]\nname = "google/embeddinggemma-2"\n').model
    assert (model.license_to_accept, model.needed_memory_mb) == (None, None)
    assert load('[model]\nname = "google/embeddinggemma-300m"\naccept_license = "gemma"\n')


def test_models_next_to_the_model(load):
    """The model has them, in whatever order the tables are."""
    ranker = '[reranker]\nname = "acme/ranker"\n'
    sparse = '[sparse]\nname = "acme/splade"\n'
    for text in (MINILM + ranker, ranker + MINILM):
        loaded = load(text)
        assert loaded.reranker is not None
        assert loaded.model.companions == {"reranker": loaded.reranker}
    loaded = load(sparse + MINILM + ranker)
    assert loaded.model.companions == {"reranker": loaded.reranker, "sparse": loaded.sparse}
    assert load(MINILM).model.companions == {}


def test_bm25_is_no_model_next_to_the_model(load, folder):
    """Neither memory, license nor a queue depends on it."""
    (folder / "faq.txt").write_text("a text")
    loaded = load(f'{MINILM}index = "faq.txt"\n[sparse]\nkind = "bm25"\n')
    assert loaded.model.bm25
    assert loaded.model.companions == {}


def test_a_branch_has_the_settings_of_its_file_and_is_destroyed_whole(load, folder):
    """It differs in its name and in what stays after a destroy; it may use the same keys."""
    source = load('[existing]\nkeys = ["arn:aws:kms:eu-central-1:111122223333:key/1"]')
    branch = load_environment("test/pr-12", folder=folder)
    assert (branch.name, branch.argument) == ("test-pr-12", "test/pr-12")
    assert branch.file == source.file == "environments/test.toml"
    assert (source.removal_policy, branch.removal_policy) == ("retain", "destroy")
    assert branch.model_dump(exclude={"removal_policy"}) == source.model_dump(
        exclude={"removal_policy"}
    )


@pytest.mark.parametrize(
    "table",
    [
        "termination_protection = true",
        '[cold_start]\nkind = "provisioned"\nrequest_duration = "50ms"\nminimum = 1\nmaximum = 2',
        '[existing]\nrepository = "images"',
        "[experiment]\nversion = 2",
        '[[front.callers]]\nname = "a"\nrate = 1\nburst = 1',
    ],
)
def test_a_branch_is_refused_what_costs_or_exists_once(load, folder, table):
    """The same file is an environment."""
    load(table)
    with pytest.raises(EnvironmentFileError, match="a branch costs nothing between requests"):
        load_environment("test/pr-12", folder=folder)


@pytest.mark.parametrize("branch", ["", "Pr", "a/b", "x" * 40, "other"])
def test_a_branch_never_has_the_name_of_another_environment(load, folder, branch):
    """Nor one that AWS would refuse."""
    load(MINILM)
    (folder / "test-other.toml").write_text(MINILM)
    with pytest.raises(EnvironmentFileError, match=r"FILE-BRANCH; found: test-"):
        load_environment(f"test/{branch}", folder=folder)


def test_a_branch_of_no_file_is_refused_with_the_files(load, folder):
    """As is an environment without a file."""
    load(MINILM)
    with pytest.raises(EnvironmentFileError, match="environment 'none/pr-12'; allowed: test"):
        load_environment("none/pr-12", folder=folder)
