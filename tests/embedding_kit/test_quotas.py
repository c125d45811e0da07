"""Test the notes and warnings at synth: quotas of a new account, a target out of reach."""

import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Annotations, Match

from embedding_kit import (
    BatchSettings,
    Cors,
    EmbeddingEndpoint,
    FunctionSettings,
    ModelSettings,
    Provisioned,
)
from embedding_kit.settings.compatibility import needed_concurrency, quota_notes


@pytest.mark.parametrize(
    ("settings", "cold_start", "needed"),
    [
        ({}, None, 0),
        ({"reserved_concurrency": 20}, None, 120),
        ({"reserved_concurrency": 20}, Provisioned(maximum=10), 120),
        ({}, Provisioned(maximum=10), 110),
    ],
)
def test_what_is_taken_comes_on_top_of_what_lambda_keeps(settings, cold_start, needed):
    """Lambda keeps 100 unreserved; provisioned concurrency is part of a reservation."""
    function = FunctionSettings(**settings)
    assert needed_concurrency(function, cold_start) == needed
    shared = BatchSettings(input="s3://documents", output="s3://vectors")
    assert needed_concurrency(function, cold_start, shared) == needed
    reserved = shared.model_copy(update={"reserved_concurrency": 30})
    assert needed_concurrency(function, cold_start, reserved) == (needed or 100) + 30


@pytest.mark.parametrize(
    ("settings", "notes"),
    [
        ({"memory_mb": 3008}, []),
        ({"memory_mb": 3009}, ["memory_mb = 3009, and a new AWS account may allow"]),
        ({"reserved_concurrency": 20}, ["the account needs a quota of 120 concurrent executions"]),
        ({"reserved_concurrency": 20, "account_concurrency": 1000}, []),
    ],
)
def test_a_note_says_what_the_file_does_not_know(settings, notes):
    """The note disappears once the quota that AWS granted is set."""
    printed = list(quota_notes(FunctionSettings(**settings), None))
    assert [text.startswith(note) for text, note in zip(printed, notes, strict=True)] == [
        True for _ in notes
    ]


def test_synth_prints_the_notes(model):
    """The notes are informational: synth and deploy continue."""
    stack = Stack(App(), "Stack")
    EmbeddingEndpoint(stack, "Endpoint", model=model, function=FunctionSettings(memory_mb=4096))
    annotations = Annotations.from_stack(stack)
    annotations.has_info("/Stack/Endpoint", Match.string_like_regexp("memory_mb = 4096, .*3008 MB"))
    annotations.has_no_warning("*", Match.any_value())


@pytest.mark.parametrize(("duration", "warnings"), [("20ms", 1), ("100ms", 0)])
def test_a_target_out_of_reach_is_a_warning_of_synth(model, duration, warnings):
    """A target out of reach deploys but never scales out, so synth prints a warning."""
    stack = Stack(App(), "Stack")
    EmbeddingEndpoint(stack, "E", model=model, cold_start=Provisioned(request_duration=duration))
    printed = Annotations.from_stack(stack).find_warning(
        "*", Match.string_like_regexp("target_utilization = 0.7 is never passed.*= 0.14")
    )
    assert len(printed) == warnings


@pytest.mark.parametrize(
    ("name", "origins", "warning"),
    [
        ("BAAI/bge-smal-en-v1.5", (), r".*did you mean BAAI/bge-small-en-v1\.5"),
        ("acme/search", (), r"acme/search is not in the catalog.* inspect` before it\."),
        ("all-MiniLM-L6-v2", ("*",), r"origins = \[.\*.\] lets every web page call"),
        ("all-MiniLM-L6-v2", ("https://example.com",), None),
    ],
)
def test_what_is_allowed_and_may_be_a_mistake_is_a_warning_of_synth(name, origins, warning):
    """A model that only the build knows, and a URL that every web page may call."""
    stack = Stack(App(), "Stack")
    endpoint = EmbeddingEndpoint(stack, "Endpoint", model=ModelSettings(name=name))
    if origins:
        endpoint.add_cors(Cors(origins=origins))
    pattern = Match.any_value() if warning is None else Match.string_like_regexp(f"^{warning}")
    printed = Annotations.from_stack(stack).find_warning("*", pattern)
    assert len(printed) == (warning is not None)
