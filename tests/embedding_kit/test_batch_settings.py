"""Test the settings of batches: folders in S3, keys, and the concurrency that callers keep."""

import pytest

from embedding_kit.environment_file import EnvironmentFileError, load_environment
from embedding_kit.settings import (
    BatchSettings,
    FunctionSettings,
    Provisioned,
    check_batch,
)

IN, OUT = "s3://documents/texts/", "s3://vectors"


def settings(**changes) -> BatchSettings:
    return BatchSettings(**{"input": IN, "output": OUT, **changes})


@pytest.mark.parametrize(
    ("url", "bucket", "prefix"),
    [
        ("s3://abc", "abc", ""),
        ("s3://my.bucket-1/", "my.bucket-1", ""),
        ("s3://abc/a", "abc", "a/"),
        ("s3://abc/a/b_c.d(1)!/", "abc", "a/b_c.d(1)!/"),
    ],
)
def test_a_folder_is_a_bucket_with_a_prefix(url, bucket, prefix):
    """The prefix of a folder ends with a slash, whether the URL does or not."""
    assert settings(input=url).source == (bucket, prefix)
    assert settings(output=url).destination == (bucket, prefix)


@pytest.mark.parametrize(
    "url",
    [
        "documents/texts",
        "https://documents.s3.amazonaws.com/",
        "s3://",
        "s3://ab",
        f"s3://{'a' * 64}",
        "s3://Documents",
        "s3://a_b",
        "s3://-abc",
        "s3://a..b",
        "s3://192.168.1.1",
        "s3://xn--abc",
        "s3://abc-s3alias",
        "s3://abc//a",
        "s3://abc/*",
        "s3://abc/a?",
        "s3://abc/${aws:username}/",
        "s3://abc/ä",
    ],
)
def test_what_s3_or_a_policy_would_not_take_is_refused(url):
    """Names that S3 refuses, and characters that a policy would read as wildcards."""
    with pytest.raises(ValueError, match="a folder in S3 is expected; found: "):
        settings(input=url)


@pytest.mark.parametrize(
    ("source", "destination"),
    [
        ("s3://abc", "s3://abc"),
        ("s3://abc/a", "s3://abc/a/"),
        ("s3://abc", "s3://abc/vectors"),
        ("s3://abc/a/b", "s3://abc/a"),
    ],
)
def test_the_output_is_not_read_as_input(source, destination):
    """A second job would embed the vectors of the first, since both are Parquet."""
    with pytest.raises(ValueError, match="two folders, none of them in the other"):
        settings(input=source, output=destination)


def test_two_folders_of_one_bucket_are_apart():
    """Names that begin alike are not one folder in another."""
    assert settings(input="s3://abc/text", output="s3://abc/texts").source == ("abc", "text/")


def test_the_map_never_exceeds_the_reservation():
    """Lambda would throttle the shards above it."""
    assert settings(max_concurrency=5, reserved_concurrency=5)
    with pytest.raises(ValueError, match=r"6 with reserved_concurrency = 5; allowed: 1 to 5"):
        settings(max_concurrency=6, reserved_concurrency=5)


@pytest.mark.parametrize(
    ("batch", "function", "cold_start", "most"),
    [
        ("max_concurrency", FunctionSettings(), None, 500),
        ("max_concurrency", FunctionSettings(reserved_concurrency=100), None, 900),
        ("max_concurrency", FunctionSettings(account_concurrency=10), None, 5),
        ("reserved_concurrency", FunctionSettings(), None, 900),
        ("reserved_concurrency", FunctionSettings(reserved_concurrency=100), None, 800),
        ("reserved_concurrency", FunctionSettings(), Provisioned(maximum=50), 850),
    ],
)
def test_a_batch_leaves_concurrency_to_callers(batch, function, cold_start, most):
    """Callers keep half of the account's concurrency, or what is reserved for them."""

    def of(number: int) -> BatchSettings:
        return settings(**{"max_concurrency": 1, batch: number})

    check_batch(of(most), function, cold_start)
    with pytest.raises(ValueError, match=rf"batch\.{batch} = {most + 1}.*allowed: 1 to {most}"):
        check_batch(of(most + 1), function, cold_start)


def test_a_small_account_can_reserve_nothing():
    """Lambda keeps 100 unreserved, which is all that a new account may have."""
    small = FunctionSettings(account_concurrency=100)
    with pytest.raises(ValueError, match="none; ask AWS for a higher quota first"):
        check_batch(settings(max_concurrency=1, reserved_concurrency=1), small, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_concurrency = 501", "batch.max_concurrency = 501 of account_concurrency = 1000"),
        ("memory_mb = 200", "batch.memory_mb = 200; allowed: 256 or more"),
    ],
)
def test_an_environments_file_is_checked_with_its_batch(tmp_path, text, message):
    """The rules that span tables hold for the table `[batch]` too."""
    (tmp_path / "test.toml").write_text(
        '[model]\nname = "google/embeddinggemma-300m"\naccept_license = "gemma"\n'
        f'[batch]\ninput = "s3://documents"\noutput = "s3://vectors"\n{text}\n'
    )
    with pytest.raises(EnvironmentFileError) as refused:
        load_environment("test", folder=tmp_path)
    assert message in str(refused.value)
