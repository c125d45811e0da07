"""Run the tests on a reader's machine: a new Debian with Python alone and an ordinary user.

The user has no Git, curl or Docker, has downloaded the repository as a folder without `.git`, into
a path with a space and a letter that is not ASCII, keeps files private (umask 077), has the locale
C and another time zone, and has edited `environments/`. Python is the one of pyenv, in the Debian
of this machine, or that of the release that ships it.

This needs root, and a Debian with its mirror. Without a version, the number of commits chooses it.
"""

import argparse
import os
import platform
import shlex
import subprocess
import tempfile
from pathlib import Path

from embedding_kit.programs import exit_with
from tools.debian import RELEASES, install
from tools.rehearsal.deploy.cdk import copy_files

_ROOT = Path(__file__).parents[2]
_PYENV = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
#: The versions that `scripts/test` itself does not run with in CI.
TURNS = ("3.12", "3.13", "3.14")
_FOLDER = "/home/reader/Embedding Kit für mich"
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_PACKAGES = "python3,python3-venv,ca-certificates,passwd"
_ENVIRONMENT = {
    "HOME": "/home/reader",
    "PATH": "/usr/bin:/bin",
    "LC_ALL": "C",
    "TZ": "NPT-5:45",
    "PIP_CERT": _CERTIFICATES,  # an older pip trusts its own
}
#: How this machine reaches the internet.
_PASSED = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_TESTS = """
umask 077
cd "$1"
shift
source scripts/setup
setup_cdk
python --version
pytest --numprocesses 2 --dist worksteal "$@"
# What the tests have left in .cache is not checked.
ruff format --check .
ruff check .
"""


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, run the tests, and return their exit status."""
    parser = argparse.ArgumentParser(prog="tools.rehearsal.machine", description=__doc__)
    parser.add_argument("--python", choices=sorted({*TURNS, *RELEASES}), help="the version")
    parser.add_argument("tests", nargs="*", help="arguments for pytest, after --")
    args = parser.parse_args(arguments)
    version = args.python or TURNS[_commits() % len(TURNS)]
    install("mmdebstrap")
    with tempfile.TemporaryDirectory(prefix="machine-") as name:
        folder = Path(name)
        copy_files(_ROOT, folder / "files")
        edit_environments(folder / "files" / "environments")
        return subprocess.run(_command(version, folder, args.tests), check=False).returncode


def edit_environments(folder: Path) -> None:
    """Change, add and remove environments as users do: no test depends on theirs."""
    text = (folder / "dev.toml").read_text(encoding="utf-8").replace("1769", "3008")
    account = 'account = "111122223333"\nregion = "eu-central-1"\n'
    callers = '[callers]\nprincipals = ["arn:aws:iam::111122223333:role/search"]\n'
    (folder / "dev.toml").write_text(f"{account}{text}{callers}", encoding="utf-8")
    (folder / "search-eu.toml").write_text(f"{account}{text}[index]\n[ingest]\n", encoding="utf-8")
    production = (folder / "production.toml").read_text(encoding="utf-8")
    accepted = production.replace("# accept_license", "accept_license").replace("500.0", "900.0")
    (folder / "production.toml").write_text(accepted, encoding="utf-8")
    (folder / "staging.toml").unlink()


def _commits() -> int:
    command = ["git", "rev-list", "--count", "HEAD"]
    return int(subprocess.run(command, cwd=_ROOT, check=True, capture_output=True).stdout)


def _command(version: str, folder: Path, tests: list[str]) -> list[str]:
    """Return the command that installs Debian and, in its last hook, runs the tests there."""
    pythons = sorted(_PYENV.glob(f"{version}.*"))
    if pythons:
        release = platform.freedesktop_os_release()["VERSION_CODENAME"]
        python = pythons[-1] / "bin" / "python3"
        # Its libraries are those of this machine's Debian. `/root` is closed to others.
        copy = f'mkdir -p "$1{pythons[-1].parent}" && cp -a {pythons[-1]} "$1{pythons[-1].parent}"'
        hooks = [f'{copy} && chmod a+x "$1/root"']
    elif version in RELEASES:
        release, python, hooks = RELEASES[version], Path("/usr/bin/python3"), []
    else:
        raise SystemExit(f"error: no Python {version} is in {_PYENV}, and no Debian ships it")
    print(f"Python {version}: {python} in a new Debian {release}", flush=True)
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    variables = [f"{k}={v}" for k, v in {**passed, **_ENVIRONMENT, "PYTHON": str(python)}.items()]
    run = ["bash", "-euc", _TESTS, "tests", _FOLDER, *tests]
    user = ["setpriv", "--reuid=reader", "--regid=reader", "--init-groups", "env", "-i", *variables]
    root = f'"$1"{shlex.quote(_FOLDER)}'
    hooks += [
        'chroot "$1" useradd --create-home reader',
        f"mv {shlex.quote(str(folder / 'files'))} {root} && chmod -R go= {root}",
        'chroot "$1" chown -R reader:reader /home/reader',
        f'cp {_CERTIFICATES} "$1{_CERTIFICATES}"',  # such as a company proxy's
        'echo "127.0.0.1 localhost" >"$1/etc/hosts"',  # as an installed Debian has
        f'chroot "$1" {shlex.join([*user, *run])}',
    ]
    # An old mirror is enough. The tree is removed at the end, and its mounts with the process.
    command = ["unshare", "--mount", "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase"]
    command += ["--format=null", f"--include={_PACKAGES}"]
    command += ['--aptopt=Acquire::Check-Valid-Until "false"']
    return [*command, *(f"--customize-hook={hook}" for hook in hooks), release, "/dev/null"]


if __name__ == "__main__":
    exit_with(main)
