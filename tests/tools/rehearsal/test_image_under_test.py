"""The variables that the image runs with."""

from tools.rehearsal.image.image_under_test import FUNCTION_SECONDS, variables_of


def test_the_image_runs_with_the_deployed_variables():
    """Those of the stack and of Lambda, without references that only a deploy resolves."""
    stated = {"EMBEDDING_TRUNCATE": "right", "EMBEDDING_KEY": {"Ref": "Key"}}
    function = {"MemorySize": 2048, "Timeout": 30, "Environment": {"Variables": stated}}
    variables = variables_of(function)
    assert variables["EMBEDDING_TRUNCATE"] == "right"
    assert "EMBEDDING_KEY" not in variables
    assert variables["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "2048"


def test_the_timeout_is_longer_than_lambdas():
    """An emulated processor on a busy machine may need more time for one text."""
    assert int(variables_of({"Timeout": 30})["AWS_LAMBDA_FUNCTION_TIMEOUT"]) == FUNCTION_SECONDS
    assert FUNCTION_SECONDS > 900
