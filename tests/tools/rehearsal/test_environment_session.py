"""A script acts in the account of its environment alone, with the STS of the emulated AWS."""

import io
import re
import subprocess

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from embedding_kit.settings import ModelSettings
from operations import command, deploy
from operations.environment_session import session_for
from stacks.environment import EnvironmentSettings
from stacks.environment_file import EnvironmentFileError
from tools.rehearsal.deploy.emulator import ACCOUNT

OTHER = "210987654321"
PLACE = f"the credentials are of {ACCOUNT}, in us-east-1"


def _environment(**settings):
    model = ModelSettings(name="sentence-transformers/all-MiniLM-L6-v2")
    return EnvironmentSettings(name="dev", model=model, **settings)


@pytest.mark.parametrize("changes", [True, False])
def test_credentials_of_another_account_are_refused(shell, changes):
    """The account is the file's, also for a command that only reads."""
    ours = _environment(account=ACCOUNT, region="us-east-1")
    assert session_for(ours, changes=changes).get_credentials().access_key == ACCOUNT
    theirs = _environment(account=OTHER, region="us-east-1")
    with pytest.raises(EnvironmentFileError, match=f"found: {ACCOUNT}; allowed: {OTHER}"):
        session_for(theirs, changes=changes)


def test_a_script_shows_the_account_that_no_file_names(shell, capsys):
    """A pipeline has no terminal, so a script asks nothing there."""
    session_for(_environment(), changes=True)
    assert capsys.readouterr().err == f"note: environments/dev.toml names no account; {PLACE}\n"
    session_for(_environment())
    session_for(_environment(account=ACCOUNT, region="us-east-1"), changes=True)
    assert capsys.readouterr().err == ""


class _Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_an_account_that_no_file_names_is_confirmed_at_a_terminal(shell, capsys, answer):
    """Any answer but yes ends the command. One that asks nothing shows the account."""
    shell.setattr("sys.stdin", _Terminal(answer))
    with pytest.raises(EnvironmentFileError, match="nothing was changed"):
        session_for(_environment(), changes=True)
    question = f"environments/dev.toml names no account; {PLACE}. Continue? [y/N] "
    assert capsys.readouterr().err.startswith(question)
    shell.setattr("sys.stdin", _Terminal("yes\n"))
    session_for(_environment(), changes=True)
    assert capsys.readouterr().err == question
    session_for(_environment(), changes=True, ask=False)
    assert capsys.readouterr().err.startswith("note: ")


def test_invalid_credentials_and_a_missing_region_are_errors(shell):
    """AWS's own error says which credentials are wrong."""
    shell.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    with pytest.raises(ClientError, match="GetCallerIdentity"):
        session_for(_environment())
    shell.delenv("AWS_ACCESS_KEY_ID")
    shell.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(BotoCoreError, match="credentials"):
        session_for(_environment())
    shell.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(EnvironmentFileError, match="there is no region"):
        session_for(_environment())


@pytest.mark.slow
@pytest.mark.parametrize("given", [["--profile", "other"], ["--profile=other"]])
def test_a_profile_comes_before_all_other_credentials(aws, clone, tmp_path, given):
    """`scripts/rollback` acts with the profile's credentials, whatever the shell has."""
    config = tmp_path / "config"
    config.write_text(
        f"[profile other]\naws_access_key_id = {OTHER}\naws_secret_access_key = test\n"
        f"[profile mine]\naws_access_key_id = {ACCOUNT}\naws_secret_access_key = test\n"
    )
    shell = aws.variables() | {"UV_NO_SYNC": "1", "AWS_CONFIG_FILE": str(config)}
    shell |= {"AWS_DEFAULT_PROFILE": "mine", "AWS_ROLE_ARN": "none"}
    shell |= {"AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token")}

    def accounts(*arguments):
        done = subprocess.run(
            [clone / "scripts" / "rollback", "dev", *arguments],
            env=shell,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return re.findall(r"the credentials are of (\d+)", done.stderr)

    # The shell has keys, too, and those of `mine` are of the same account.
    assert accounts() == [ACCOUNT]
    assert accounts(*given) == [OTHER]
    shell["AWS_DEFAULT_PROFILE"] = "other"
    assert accounts() == [OTHER]


@pytest.mark.parametrize("option", [[], ["--diff"]])
def test_a_deploy_with_invalid_credentials_ends_with_one_line(shell, clone, capsys, option):
    """The checks before a deploy or a comparison do not each say it again."""
    shell.setattr(command, "ENVIRONMENTS", clone / "environments")
    shell.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    assert deploy.main(["dev", *option]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: AWS does not accept the credentials: ")
    assert "; log in (`aws sso login`), choose a profile" in line


def test_a_comparison_needs_only_the_place(shell, clone, capsys):
    """The checks of a deploy, and its question about the account, are not for it."""
    shell.setattr(command, "ENVIRONMENTS", clone / "environments")
    shell.setattr(deploy, "steps", lambda _: [deploy.check_place])
    assert deploy.main(["dev", "--diff"]) == 0
    assert capsys.readouterr().err == ""
