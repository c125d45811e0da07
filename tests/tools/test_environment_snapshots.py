"""`scripts/test-environments` compares what the files of environments/ deploy with snapshots."""

import hashlib
from pathlib import Path

import pytest

from tools import environment_snapshots
from tools.synthesis import Stack, synthesize

ROOT = Path(__file__).resolve().parents[2]
DEV = '[model]\nname = "BAAI/bge-small-en-v1.5"\n'


def stacks(environment, code="first"):
    """Return one stack, with a setting and the hash of an image."""
    digest = hashlib.sha256(code.encode()).hexdigest()
    function = {"MemorySize": environment.function.memory_mb, "ImageUri": f"images:{digest}"}
    resources = {"Function": {"Type": "AWS::Lambda::Function", "Properties": function}}
    template = {"Description": environment.name, "Resources": resources}
    return [Stack(name="Endpoint", template=template, place="aws://any/any", protected=False)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "dev.toml").write_text(DEV)
    return tmp_path / "environments"


@pytest.fixture
def check(folder, capsys):
    """Return a function that runs the command; it returns status, output and errors."""

    def run(*arguments, synthesize=stacks):
        status = environment_snapshots.main(arguments, folder=folder, synthesize=synthesize)
        return (status, *capsys.readouterr())

    return run


KEPT = "environments/__snapshots__/dev.yaml"


def test_a_new_file_gets_a_snapshot(check, folder):
    """The first run writes it and says so, and the next compares with it, whatever the code."""
    assert check() == (0, f"dev: wrote {KEPT}; look at it and commit it\n", "")
    text = (folder.parent / KEPT).read_text()
    assert "model: {name: BAAI/bge-small-en-v1.5}" in text
    assert "ImageUri: images:<asset>" in text
    same = (0, f"dev: as in {KEPT}\n", "")
    assert check(synthesize=lambda environment: stacks(environment, "other")) == same
    assert check("--update") == same
    (folder / "new.toml").write_text(DEV)
    assert check("dev") == same
    assert check()[1].splitlines()[1].startswith("new: wrote environments/__snapshots__/new.yaml")


@pytest.mark.parametrize(("value", "written"), [("true", False), ("1", False), ("false", True)])
def test_ci_writes_no_snapshot(check, folder, monkeypatch, value, written):
    """A file without one fails there, and the error names the command."""
    monkeypatch.setenv("CI", value)
    status, _, errors = check()
    assert (folder.parent / KEPT).exists() is written
    assert status == (not written)
    missing = f"error: there is no {KEPT}; scripts/test-environments dev writes it: commit it\n"
    assert errors == ("" if written else missing)


def test_a_changed_setting_is_a_readable_difference(check, folder):
    """It fails until the snapshot is written again by name or for all files."""
    check()
    for memory, names in (("3008", ["dev"]), ("1769", [])):
        before = (folder.parent / KEPT).read_text()
        (folder / "dev.toml").write_text(f"{DEV}[function]\nmemory_mb = {memory}\n")
        status, output, errors = check()
        assert status == 1
        old, new, removed, added = (line for line in output.splitlines() if line[0] in "+-")
        assert (old, new) == (f"--- {KEPT}", "+++ environments/dev.toml")
        assert "MemorySize" in removed
        assert f"MemorySize: {memory}" in added
        assert errors.endswith("if it should: scripts/test-environments dev --update\n")
        assert (folder.parent / KEPT).read_text() == before
        assert check(*names, "--update")[0] == check()[0] == 0


def test_a_snapshot_without_a_file_is_reported(check, folder):
    """Only --update deletes it."""
    check()
    (folder / "dev.toml").rename(folder / "prod.toml")
    gone = f"error: there is no environments/dev.toml for {KEPT}; "
    assert check()[::2] == (1, f"{gone}scripts/test-environments --update deletes it\n")
    assert check("--update")[1].startswith(f"dev: deleted {KEPT}\nprod: as in ")
    assert check()[0] == 0


def test_only_files_of_environments_are_compared(check, folder):
    """Other files below the folder are the user's own, and a branch has its file's stacks."""
    (folder / "questions").mkdir()
    (folder / "questions" / "search.yaml").write_text("- a question\n")
    assert check()[1].startswith("dev: wrote ")
    branch = "error: a branch has no snapshot; found: dev/one; allowed: dev\n"
    assert check("dev/one") == (1, "", branch)
    assert [path.name for path in (folder / "__snapshots__").iterdir()] == ["dev.yaml"]


def test_a_file_with_a_mistake_hides_no_other(check, folder):
    """The rules of the load are checked, and the other files are compared."""
    (folder / "a.toml").write_text(f"{DEV}[functions]\n")
    status, output, errors = check()
    assert (status, output.startswith("dev: wrote")) == (1, True)
    assert errors.startswith("error: environments/a.toml: functions: unknown key")
    assert not (folder / "__snapshots__" / "a.yaml").exists()
    assert check("none")[::2] == (1, "error: there is no environment 'none'; allowed: a, dev\n")


def test_terms_that_are_not_accepted_are_a_note(check, folder):
    """A deploy refuses the file, and its stacks are known."""
    (folder / "dev.toml").write_text('[model]\nname = "google/embeddinggemma-300m"\n')
    note = 'dev: a deploy refuses google/embeddinggemma-300m without accept_license = "gemma"'
    assert check()[:2] == (0, f"{note}\ndev: wrote {KEPT}; look at it and commit it\n")


@pytest.mark.parametrize(
    "setting",
    [
        f'revision = "{"a" * 40}"',
        'precision = "fp32"',
        "dimensions = [384]",
        'hub_token_variable = "HF_TOKEN"',
        f'base_image = "public.ecr.aws/lambda/python:3.13-arm64@sha256:{"b" * 64}"',
        'index = "texts.txt"',
        '[reranker]\nname = "cross-encoder/ms-marco-MiniLM-L6-v2"',
    ],
)
def test_what_is_built_is_in_the_snapshot(check, folder, setting):
    """The template has only the hash of it."""
    check()
    (folder / "texts.txt").write_text("a text\n")
    (folder / "dev.toml").write_text(f"{DEV}{setting}\n")
    status, output, _ = check()
    assert status == 1
    assert setting.rpartition('"')[0].rpartition('"')[2] in output


def test_a_models_folder_in_s3_is_not_needed(check, folder, tmp_path, monkeypatch):
    """The snapshot is the same before and after it is downloaded, and on any machine."""
    (folder / "dev.toml").write_text('[model]\nfolder = "s3://models/own/"\n')
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert check()[0] == 0
    own = tmp_path / "cache" / "embedding-kit" / "s3" / "models" / "own"
    own.mkdir(parents=True)
    (own / "modules.json").write_text("[]")
    assert check()[1] == f"dev: as in {KEPT}\n"
    assert str(tmp_path) not in (folder.parent / KEPT).read_text()


def test_what_is_not_in_a_template_is_in_the_snapshot(check, folder):
    """Account, region, protection and tags are of each stack."""
    (folder / "dev.toml").write_text(
        'account = "111122223333"\nregion = "eu-central-1"\ntermination_protection = true\n'
        f'tags = {{ team = "search" }}\n{DEV}'
    )
    assert check(synthesize=synthesize)[0] == 0
    text = (folder.parent / KEPT).read_text()
    parts = text.split("--- # ")[1:]
    assert [part.split("\n")[0].rpartition("-")[2] for part in parts] == [
        "Repository",
        "Endpoint",
        "Observability",
    ]
    for part in parts:
        assert part.splitlines()[1:4] == [
            "Environment: aws://111122223333/eu-central-1",
            "TerminationProtection: true",
            "Tags: {EmbeddingKit: dev, Project: embedding-kit, team: search}",
        ]


@pytest.mark.parametrize("name", ["dev", "production", "staging"])
def test_a_file_as_shipped_has_its_snapshot(name, monkeypatch, capsys):
    """A changed template changes it; of a file that a user has edited, the command says so."""
    file = ROOT / "environments" / f"{name}.toml"
    shipped = ROOT / "tests" / "fixtures" / "environments" / file.name
    if not file.exists() or file.read_bytes() != shipped.read_bytes():
        pytest.skip("edited")
    monkeypatch.setenv("CI", "true")
    assert environment_snapshots.main([name]) == 0, capsys.readouterr()
