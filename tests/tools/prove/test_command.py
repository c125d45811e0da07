"""The environment and the order of a run, its refusals, and the state after an interruption.

The scripts and the measurements are fakes: the rehearsal has real ones.
"""

import io
import json
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from embedding_kit.settings import ModelSettings, Provisioned, SnapStart
from stacks.environment import EnvironmentSettings
from stacks.environment_file import load_environment
from tools.prove import __main__ as prove

#: Records its words; fails, or is interrupted with this process, as the environment says.
_SCRIPT = """#!/usr/bin/env bash
echo "$(basename "$0") $*" >> calls
[ ! -e interrupt ] || { rm interrupt; kill -INT $PPID; }
[ ! -e fail ] || exit 3
"""
DEPLOY = "deploy dev-prove --require-approval never"
DESTROY = "destroy dev-prove --force"


class _Endpoint:
    """Measures nothing; at the second size, Ctrl-C comes once if the file `broken` exists."""

    def __init__(self, root, environment) -> None:
        self._root, self.environment = root, environment

    def memory(self, size: int, *, starts: int, pause: float) -> dict[str, object]:
        with (self._root / "calls").open("a") as calls:
            calls.write(f"memory {size} {starts} {pause:g}\n")
        if size == 3538 and (self._root / "broken").exists():
            (self._root / "broken").unlink()
            raise KeyboardInterrupt
        return {"init_ms": [1.0], "first_ms": [1.0], "requests": [{"tokens": 8, "ms": [1.0]}]}

    def callers(self, _http: object) -> dict[str, str]:
        return {"refused": "403"}

    def restores(self) -> dict[str, list[float]]:
        return {"restore_ms": [2.0]}

    def provisioned(self) -> dict[str, list[float]]:
        return {"init_ms": [3.0]}

    def search(self) -> dict[str, list[float]]:
        return {"ms": [4.0]}


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Return a repository with one environment, and nothing of it on AWS."""
    for folder in ("environments", "scripts", "docs"):
        (tmp_path / folder).mkdir()
    for name in ("deploy", "destroy"):
        (tmp_path / "scripts" / name).write_text(_SCRIPT)
        (tmp_path / "scripts" / name).chmod(0o755)
    (tmp_path / "docs" / "generate.py").write_text(
        "import pathlib, sys; pathlib.Path('page').write_text(sys.argv[1])"
    )
    (tmp_path / "environments" / "dev.toml").write_text('[model]\nname = "any/model"\n')
    folder = tmp_path / "environments"
    replaced = {
        "_ROOT": tmp_path,
        "_RESULTS": tmp_path / "docs" / "measured-on-aws.json",
        "ENVIRONMENTS": folder,
        "read_environment": lambda name: load_environment(name, folder=folder),
        "session_for": lambda _: None,
        "read_account_and_region": lambda *_: ("111122223333", "us-east-1"),
        "price_of": lambda *_, **__: 0.25,
        "find_endpoint": lambda _, environment: _Endpoint(tmp_path, environment),
        "DeployedStacks": lambda *_: SimpleNamespace(all=[]),
    }
    for name, value in replaced.items():
        monkeypatch.setattr(prove, name, value)
    monkeypatch.setattr("operations.command.ENVIRONMENTS", folder)
    return tmp_path


def _calls(root) -> list[str]:
    written = root / "calls"
    calls = written.read_text().splitlines() if written.exists() else []
    written.unlink(missing_ok=True)
    return calls


def _left(root) -> list[str]:
    found = [*root.glob("environments/*-prove.toml"), *root.glob(".cache/prove/*")]
    return sorted(path.name for path in found)


def test_a_run_deploys_measures_writes_and_deletes(root, capsys):
    """It shows how far it is; the results of another environment stay in the file."""
    (root / "docs" / "measured-on-aws.json").write_text('{"other": {}}')
    assert prove.main(["dev", "--yes", "--starts", "2", "--pause", "0.5"]) == 0
    assert _calls(root) == [DEPLOY, "memory 1769 2 0.5", "memory 3538 2 0.5", DESTROY]
    assert "dev-prove: 33%, memory 3538 ..." in capsys.readouterr().out
    found = json.loads((root / "docs" / "measured-on-aws.json").read_text())
    assert list(found) == ["other", "dev"]
    assert (found["dev"]["model"], found["dev"]["region"]) == ("any/model", "us-east-1")
    assert (root / "page").read_text() == "docs/performance.md"
    assert _left(root) == []


@pytest.mark.parametrize(
    ("table", "step"),
    [
        ('[cold_start]\nkind = "snapstart"', "restores"),
        ('[cold_start]\nkind = "provisioned"', "provisioned"),
        ("index_dimension = 8\n[index]", "search"),
    ],
)
def test_what_the_environment_has_is_measured(root, table, step):
    """A start of its strategy, and a search where it has an index."""
    with (root / "environments" / "dev.toml").open("a") as file:
        file.write(f"{table}\n")
    assert prove.main(["dev", "--yes"]) == 0
    found = json.loads((root / "docs" / "measured-on-aws.json").read_text())["dev"]
    assert found.keys() & {"restores", "provisioned", "search"} == {step}


def test_nothing_happens_without_a_yes(root, monkeypatch):
    """The question has the place and the price."""
    asked: list[str] = []

    def decline(question: str) -> bool:
        asked.append(question)
        return False

    monkeypatch.setattr(prove, "confirm", decline)
    assert prove.main(["dev"]) == 1
    assert "in 111122223333, us-east-1, for at most $0.25?" in asked[0]
    assert (_calls(root), _left(root)) == ([], [])


def test_the_same_command_goes_on(root, capsys, monkeypatch):
    """After Ctrl-C in a measurement, finished ones are not repeated. A no keeps them."""
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    (root / "broken").touch()
    assert prove.main(["dev", "--yes"]) == 130
    assert "'scripts/prove dev' goes on, with --delete it only deletes" in capsys.readouterr().err
    assert _calls(root) == [DEPLOY, "memory 1769 20 15", "memory 3538 20 15"]
    assert _left(root) == ["dev-prove.toml", "dev.json"]
    assert prove.main(["dev"]) == 1
    error = capsys.readouterr().err
    assert "Go on with dev-prove (done: deploy, memory 1769) in 111122223333" in error
    assert "'scripts/prove dev' goes on" in error
    assert prove.main(["dev", "--yes"]) == 0
    assert _calls(root) == ["memory 3538 20 15", DESTROY]
    assert _left(root) == []


@pytest.mark.parametrize(("event", "status"), [("interrupt", 130), ("fail", 3)])
def test_a_deploy_that_does_not_end_is_repeated(root, capsys, event, status):
    """Its script says what AWS continues, so it is not killed by Ctrl-C."""
    before = signal.getsignal(signal.SIGINT)
    (root / event).touch()
    assert prove.main(["dev", "--yes"]) == status
    assert "dev-prove may be deployed" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before
    (root / "fail").unlink(missing_ok=True)
    assert prove.main(["dev", "--yes"]) == 0
    assert [call for call in _calls(root) if "memory" not in call] == [DEPLOY, DEPLOY, DESTROY]


def test_an_interrupted_destroy_is_continued(root):
    """Nothing is measured again, since a part of the environment is gone."""
    script = root / "scripts" / "destroy"
    script.write_text(f"{_SCRIPT}exit 1\n")
    assert prove.main(["dev", "--yes"]) == 1
    _calls(root)
    script.write_text(_SCRIPT)
    assert prove.main(["dev", "--yes"]) == 0
    assert (_calls(root), _left(root)) == ([DESTROY], [])


@pytest.mark.parametrize("began", [True, False])
def test_what_is_left_can_be_deleted(root, began):
    """Also without the files of the run, which are in no backup; then the script asks."""
    if began:
        (root / "broken").touch()
        prove.main(["dev", "--yes"])
        _calls(root)
    assert prove.main(["dev", "--delete"]) == 0
    assert (_calls(root), _left(root)) == (["destroy dev-prove"], [])


def test_what_the_user_has_is_not_touched(root, monkeypatch, capsys):
    """Neither an environment of that name, nor stacks that no run here has deployed."""
    own = root / "environments" / "dev-prove.toml"
    own.write_text("mine")
    for option in ("--yes", "--delete"):
        assert prove.main(["dev", option]) == 1
        assert "must be the file of a run; found: another" in capsys.readouterr().err
    assert (own.read_text(), _calls(root)) == ("mine", [])
    own.unlink()
    stacks = SimpleNamespace(all=[SimpleNamespace(name="EmbeddingKit-dev-prove-Index")])
    monkeypatch.setattr(prove, "DeployedStacks", lambda *_: stacks)
    assert prove.main(["dev", "--yes"]) == 1
    assert "found: EmbeddingKit-dev-prove-Index; allowed: first" in capsys.readouterr().err
    assert (_calls(root), _left(root)) == ([], [])


@pytest.mark.parametrize("option", [["--starts", "0"], ["--pause", "-1"], ["--pause", "nan"]])
def test_numbers_are_checked(root, option, capsys):
    """The error names the option, before anything is deployed."""
    with pytest.raises(SystemExit):
        prove.main(["dev", *option])
    assert f"argument {option[0]}: found: {option[1]}; allowed: " in capsys.readouterr().err


def test_the_price_grows_with_what_is_kept():
    """A run of dev costs less than a dollar. A snapshot is billed for three hours."""
    prices = [
        prove.price_of(EnvironmentSettings(name="x", model=model, cold_start=kind), starts=20)
        for model in [ModelSettings(name="sentence-transformers/all-MiniLM-L6-v2")]
        for kind in (None, Provisioned(minimum=2), SnapStart())
    ]
    assert 0.05 < prices[0] < prices[1] < 1
    assert prices[0] < prices[2] < 1


ROOT = Path(__file__).resolve().parents[3]
PARTS = """
[function]
memory_mb = 2048
reserved_concurrency = 5

[alarms]
emails = ["ops@example.com"]

[batch]
input = "s3://texts/"
output = "s3://vectors/"

[budget]
monthly_usd = 1.0

[index]
"""


def _load(content: str, folder: Path):
    folder.joinpath("x-prove.toml").write_text(
        prove.derived(content, account="111122223333", region="eu-central-1")
    )
    return load_environment("x-prove", folder=folder)


@pytest.mark.parametrize("name", ["dev", "staging", "production"])
def test_a_shipped_environment_becomes_one_that_can_be_deleted(name, tmp_path):
    """The copy names the account, and keeps the settings that are measured."""
    text = (ROOT / "tests/fixtures/environments" / f"{name}.toml").read_text()
    (tmp_path / f"{name}.toml").write_text(text.replace("# accept_license", "accept_license"))
    source = load_environment(name, folder=tmp_path)
    made = _load((tmp_path / f"{name}.toml").read_text(), tmp_path)
    assert (made.account, made.region) == ("111122223333", "eu-central-1")
    assert (made.removal_policy, made.termination_protection) == ("destroy", False)
    assert made.model == source.model
    assert made.function.memory_mb == source.function.memory_mb
    assert (made.budget, made.function.reserved_concurrency) == (None, None)
    assert getattr(made.cold_start, "kind", None) == getattr(source.cold_start, "kind", None)
    assert getattr(made.cold_start, "schedule", ()) == ()


def test_parts_that_are_not_measured_are_left_out(tmp_path):
    """The index is measured; a place in the file gives way to that of the credentials."""
    head = '\ufeffregion = "us-east-1"\n[model]\nname = "BAAI/bge-small-en-v1.5"\n'
    made = _load(head + PARTS, tmp_path)
    assert (made.batch, made.budget, made.alarms.emails) == (None, None, ())
    assert made.index is not None
    assert made.region == "eu-central-1"
