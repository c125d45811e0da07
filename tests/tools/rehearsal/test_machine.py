"""The tests on a reader's machine: its Python, and the files that are downloaded."""

import re
import shutil
import tomllib

import pytest
import yaml

from tools.rehearsal import machine
from tools.rehearsal.deploy.cdk import copy_files


def test_ci_runs_each_python_that_readme_names(root):
    """The workflow with all of them in every run; the reader's machine with one in turn."""
    readme = (root / "README.md").read_text("utf-8")
    ((oldest, newest),) = re.findall(r"Python 3\.(\d+) to 3\.(\d+)", readme)
    named = [f"3.{minor}" for minor in range(int(oldest), int(newest) + 1)]
    assert named[1:] == list(machine.TURNS)
    jobs = yaml.safe_load((root / ".github/workflows/test.yml").read_text("utf-8"))["jobs"]
    (_, setup, *_) = jobs["coverage"]["steps"]
    versions = [*jobs["test"]["strategy"]["matrix"]["python"], setup["with"]["python-version"]]
    assert versions == named
    for project in (root, root / "client"):
        about = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
        prefix = "Programming Language :: Python :: 3."
        found = [each.rpartition(" ")[2] for each in about["classifiers"] if prefix in each]
        assert found == named
        assert about["requires-python"] == f">={named[0]}"


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Return what is run in the place of mmdebstrap, where pyenv has Python 3.12 and 3.13."""
    run = []
    monkeypatch.setattr(machine, "install", lambda *_: None)
    monkeypatch.setattr(machine, "copy_files", lambda *_: None)
    monkeypatch.setattr(machine, "edit_environments", lambda _: None)
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: {"VERSION_CODENAME": "host"})
    monkeypatch.setattr(machine, "_PYENV", tmp_path)
    for version in ("3.12.1", "3.13.0", "3.13.2"):
        (tmp_path / version).mkdir()

    def fake(command, **options):
        run.append(command)
        return type("Done", (), {"returncode": 7})

    monkeypatch.setattr(machine, "subprocess", type("Fake", (), {"run": fake}))
    return run


def test_commits_take_turns(commands, monkeypatch, capsys, tmp_path):
    """Three in a row run with three versions, of pyenv or of the Debian that ships it."""
    for commits in (30, 31, 32):
        monkeypatch.setattr(machine, "_commits", lambda commits=commits: commits)
        assert machine.main(["--", "-m", "not slow"]) == 7
    printed = capsys.readouterr().out.splitlines()
    assert [line.replace(f"{tmp_path}/", "") for line in printed] == [
        "Python 3.12: 3.12.1/bin/python3 in a new Debian host",
        "Python 3.13: 3.13.2/bin/python3 in a new Debian host",
        "Python 3.14: /usr/bin/python3 in a new Debian forky",
    ]
    assert [command[-2] for command in commands] == ["host", "host", "forky"]
    assert all(command[-3].endswith(" -m 'not slow'") for command in commands)


def test_a_version_can_be_chosen(commands, tmp_path):
    """Without pyenv, Debian's. No Debian ships 3.12."""
    shutil.rmtree(tmp_path / "3.13.0")
    shutil.rmtree(tmp_path / "3.13.2")
    assert machine.main(["--python", "3.13"]) == 7
    assert commands[0][-2] == "trixie"
    shutil.rmtree(tmp_path / "3.12.1")
    with pytest.raises(SystemExit, match=r"no Python 3\.12 is in .*, and no Debian ships it"):
        machine.main(["--python", "3.12"])


def test_the_copy_has_what_git_would_add(tmp_path, monkeypatch):
    """It needs no Git and no repository: what .gitignore names is left out."""
    monkeypatch.setenv("PATH", "")
    source = tmp_path / "source"
    lines = [".venv/", "*.egg-info/", "__pycache__/", "/coverage/", "/.coverage*", "/a/*-b.toml"]
    kept = ["a/new.py", "a/coverage/x", "b/c-b.toml", ".github/x", "name.egg"]
    left_out = [
        ".venv/x",
        "a/n.egg-info/x",
        "a/__pycache__/x",
        "coverage/x",
        ".coverage.1",
        ".git/x",
    ]
    for name in [*kept, *left_out, "a/x-b.toml"]:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).touch()
    (source / ".gitignore").write_text("\n".join(lines) + "\n")
    copy_files(source, tmp_path / "copy")
    files = [path for path in (tmp_path / "copy").rglob("*") if path.is_file()]
    copied = sorted(path.relative_to(tmp_path / "copy").as_posix() for path in files)
    assert copied == sorted([*kept, ".gitignore"])
