"""`embedding-kit embedder.server.new_key` makes a key that the server takes."""

import subprocess
import sys

import pytest

from embedder.server.keys import Keys
from embedder.server.new_key import main, make_key


def test_the_command_makes_a_key():
    """Its standard output is a line for the file, its standard error has the secret."""
    command = [sys.executable, "-m", "embedder.server.new_key", "search"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    secret = done.stderr.split()[-1]
    assert done.stderr == f"The secret of search, shown only now: {secret}\n"
    assert secret not in done.stdout
    keys = Keys(lambda: done.stdout, source="keys")
    assert keys.authenticate({"authorization": f"Bearer {secret}"}) == "search"


def test_secrets_are_long_and_new():
    """A secret has 256 random bits after its prefix."""
    secrets = {make_key("search")[0] for _ in range(100)}
    assert len(secrets) == 100
    assert {(secret[:3], len(secret)) for secret in secrets} == {("ek_", 46)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a b"], "a name has 1 to 64 letters, digits and . _ -"),
        (["a:b"], "a name has 1 to 64 letters, digits and . _ -"),
        (["a" * 65], "a name has 1 to 64 characters; found 65."),
    ],
)
def test_a_bad_value_is_refused(arguments, message, capsys):
    """It is an error of the command line, and no secret is made."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert (captured.out, "ek_" in captured.err) == ("", False)
