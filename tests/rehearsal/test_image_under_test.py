"""The variables that the image runs with."""

from image_rehearsal.image_under_test import FUNCTION_SECONDS, variables_of


def test_the_image_runs_with_the_deployed_variables():
    """The stack's variables and Lambda's; references that only a deploy resolves are left out."""
    stated = {"EMBEDDING_TRUNCATE": "right", "EMBEDDING_KEY": {"Ref": "Key"}}
    function = {"MemorySize": 2048, "Timeout": 30, "Environment": {"Variables": stated}}
    variables = variables_of(function)
    assert variables["EMBEDDING_TRUNCATE"] == "right"
    assert "EMBEDDING_KEY" not in variables
    assert variables["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "2048"


def test_an_emulated_processor_gets_more_time_than_lambda_gives():
    """A busy machine may need longer for one text than any timeout of Lambda's."""
    assert int(variables_of({"Timeout": 30})["AWS_LAMBDA_FUNCTION_TIMEOUT"]) == FUNCTION_SECONDS
    assert FUNCTION_SECONDS > 900
