"""Reading the settings from environment variables."""

from pathlib import Path
from typing import Any

import pytest

import embedder
from embedder.core.errors import SettingsError
from embedder.core.settings import EmbedderSettings

PACKAGE_PARENT = Path(embedder.__file__).parents[1]


def test_an_empty_environment_gives_the_defaults():
    """Without any variable, the artifact is next to the package, and one thread is used."""
    settings = EmbedderSettings.from_env({})
    assert settings == EmbedderSettings(artifact=str(PACKAGE_PARENT / "artifact"))
    assert (settings.threads, settings.truncate, settings.environment) == (1, "refuse", "local")


#: The text of each variable, its setting, and the setting's value.
VARIABLES: dict[str, tuple[str, str, object]] = {
    "EMBEDDING_ARTIFACT": ("/model", "artifact", "/model"),
    "EMBEDDING_ARTIFACT_LOCATION": ("s3://bucket/key", "artifact_location", "s3://bucket/key"),
    "AWS_REGION": ("eu-central-1", "region", "eu-central-1"),
    "AWS_ENDPOINT_URL_S3": ("http://127.0.0.1:8", "s3_endpoint", "http://127.0.0.1:8"),
    "TMPDIR": ("/elsewhere", "temporary", "/elsewhere"),
    "EMBEDDING_INDEX": ("/entries", "index", "/entries"),
    "EMBEDDING_VECTOR_INDEX": ("arn:aws:s3vectors:…", "vector_index", "arn:aws:s3vectors:…"),
    "AWS_ENDPOINT_URL_S3VECTORS": ("http://b", "s3_vectors_endpoint", "http://b"),
    "EMBEDDING_THREADS": ("3", "threads", 3),
    "EMBEDDING_TRUNCATE": ("left", "truncate", "left"),
    "EMBEDDING_MAX_CHARACTERS": ("5000", "max_characters", 5000),
    "EMBEDDING_CACHE_ENTRIES": ("0", "cache_entries", 0),
    "EMBEDDING_METRICS_NAMESPACE": ("Search", "metrics_namespace", "Search"),
    "EMBEDDING_ENVIRONMENT": ("staging", "environment", "staging"),
    "AWS_LAMBDA_FUNCTION_NAME": ("embedder", "function_name", "embedder"),
    "AWS_LAMBDA_FUNCTION_VERSION": ("7", "function_version", "7"),
    "AWS_LAMBDA_INITIALIZATION_TYPE": ("snap-start", "initialization", "snap-start"),
}


def test_every_variable_is_parsed():
    """Each documented variable is converted to the type of its setting."""
    environ = {name: text for name, (text, _, _) in VARIABLES.items()}
    expected: Any = {setting: value for _, setting, value in VARIABLES.values()}
    assert EmbedderSettings.from_env(environ) == EmbedderSettings(**expected)


@pytest.mark.parametrize(
    ("memory", "threads"), [("512", 1), ("1768", 1), ("1769", 1), ("3538", 2), ("10240", 5)]
)
def test_threads_follow_the_memory(memory, threads):
    """One thread is used per 1769 MB, because Lambda provides one vCPU for each."""
    assert EmbedderSettings.from_env({"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": memory}).threads == threads


def test_the_task_root_is_where_artifact_and_index_are_sought(tmp_path):
    """In Lambda both are in the task root, and an index that does not exist is not loaded."""
    environ = {"LAMBDA_TASK_ROOT": str(tmp_path)}
    assert EmbedderSettings.from_env(environ).artifact == str(tmp_path / "artifact")
    assert EmbedderSettings.from_env(environ).index is None
    (tmp_path / "index").mkdir()
    assert EmbedderSettings.from_env(environ).index == str(tmp_path / "index")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("EMBEDDING_THREADS", "0", "EMBEDDING_THREADS must be a whole number from 1 up; found '0'"),
        ("EMBEDDING_THREADS", "two", "from 1 up; found 'two'"),
        ("EMBEDDING_THREADS", "٣", "from 1 up; found '٣'"),
        ("EMBEDDING_MAX_CHARACTERS", "-1", "EMBEDDING_MAX_CHARACTERS must be"),
        ("EMBEDDING_CACHE_ENTRIES", "1.5", "from 0 up; found '1.5'"),
        ("EMBEDDING_TRUNCATE", "end", "TRUNCATE must be one of refuse, right, left; found 'end'"),
    ],
)
def test_a_bad_value_is_refused_by_name(name, value, message):
    """The error names the variable, the allowed values and the value found."""
    with pytest.raises(SettingsError, match=message):
        EmbedderSettings.from_env({name: value})


def test_an_unknown_variable_is_refused():
    """A misspelled one would have no effect; a shell that runs `embed` may also run the server."""
    EmbedderSettings.from_env({"EMBEDDING_URL": "http://127.0.0.1:9000", "EMBEDDING_BATCH": "arn"})
    with pytest.raises(SettingsError, match=r"EMBEDDING_TRUNCATION.*Allowed: EMBEDDING_ARTIFACT"):
        EmbedderSettings.from_env({"EMBEDDING_TRUNCATION": "left", "PATH": "/bin"})
